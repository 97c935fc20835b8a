// The arguments of the kernels of tiles: the table, and a batch of events.

#include "codes.cuh"

enum { N_PAIRS, N_SMALL, N_COMPARED, N_UNSURE };  // counters

// The table, as the launcher lists it. Arrays that a table does not have are null.
struct Filters {
    const int* posting_start;
    const int* slot_posting;
    const int* term_slots;
    const offset_t* term_codes;
    const int* term_postings;
    const short* slot_bit;
    const int* bound_start;
    const offset_t* bounds;
    const word_t* signatures;
    const int* filter_start;
    const int* piece_start;
    const short* groups;
    const int* slots;
    const Code* low;
    const Code* high;
    const int* posting_place;  // number among the large postings, -1 for small ones
    const int* tile_first;  // [n_tiles] first filter
    const int* tile_last;  // one past its last
    const int* tile_place;  // its posting, numbered among the large ones
    const int* list_start;  // [n_tiles + 1] slots with rows, the most selective first
    const int* list_slot;  // numbered among the slots that have cells
    const int* list_at;  // where their rows begin within the tile's, in words
    const offset_t* row_start;  // [n_tiles + 1]
    const unsigned* rows;
    offset_t n_slots;
    offset_t n_bit_slots;
    offset_t term_mask;
};

// A batch, and the results for it.
struct Events {
    offset_t n_events;
    offset_t has_elements;  // then negated groups are left to the host
    offset_t chunk;  // visits that a block of `sift` takes, at least
    offset_t n_chunks;  // blocks per tile
    word_t room;  // of pairs
    const offset_t* start;
    const offset_t* codes;
    const int* slots;
    word_t* counters;  // N_PAIRS, N_SMALL, N_COMPARED, N_UNSURE
    word_t* counts;  // visits to each large posting
    offset_t* ends;  // the same added up
    unsigned char* cells;  // [n_events][n_bit_slots]
    word_t* signatures;
    int* visits;  // events, posting by posting
    word_t* small;  // visits to small postings: event << 32 | posting
    word_t* pairs;  // event << 32 | filter, or the position of one of its keys
    const int* key_start;  // [n_filters + 1], null where pairs are of filters
};
