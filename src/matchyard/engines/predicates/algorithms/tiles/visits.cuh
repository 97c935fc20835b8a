// The postings that an event visits, its cells and its signature.

#include "events.cuh"

#define LOOK_BACK 32  // values of a slot among which the same one is stored again

// The cell of a code, as `cells.cell_of` has it.
__device__ __forceinline__ int cell_of(const offset_t* bounds, int first, int last, offset_t code) {
    int low = first;
    for (int size = last - first; size > 0;) {
        int half = (size + 1) / 2;
        low += bounds[low + half - 1] <= code ? half : 0;
        size -= half;
    }
    return low - first + 1;
}

// The posting of one code of a slot, -1 for none.
__device__ __forceinline__ int term_posting(const Filters& filters, int slot, offset_t code) {
    word_t position = mix64((word_t)code ^ mix64((word_t)slot)) & filters.term_mask;
    while (true) {
        int stored = filters.term_slots[position];
        if (stored < 0) return -1;
        if (stored == slot && filters.term_codes[position] == code) return filters.term_postings[position];
        position = (position + 1) & filters.term_mask;
    }
}

// True if one of the last entries of the event has the same value. Farther ones cost a second visit:
// the host is told that pairs may be stored twice.
__device__ __forceinline__ bool is_again(const Events& events, offset_t first, offset_t entry) {
    offset_t stop = max(first, entry - LOOK_BACK);
    for (offset_t other = entry - 1; other >= stop; other--) {
        if (events.slots[other] != events.slots[entry]) return false;
        if (events.codes[other] == events.codes[entry]) return true;
    }
    if (stop > first && events.slots[stop - 1] == events.slots[entry])
        events.counters[N_UNSURE] = 1;
    return false;
}

// Note a visit of each lane's event to a posting, -1 for none: count it or, where it is counted,
// write it down. Lanes with the same posting share an atomic.
template <bool FILLS>
__device__ __forceinline__ void visit(
    const Filters& filters, const Events& events, int posting, int event
) {
    int large = posting < 0 ? -1 : filters.posting_place[posting];
    unsigned alike = __match_any_sync(ALL_LANES, large);
    int leader = __ffs(alike) - 1;
    word_t n_alike = __popc(alike);
    word_t before = 0;
    if (large >= 0 && lane_of() == leader)
        before = atomicAdd(events.counts + large, FILLS ? 0 - n_alike : n_alike);
    if (FILLS) {
        before = __shfl_sync(ALL_LANES, before, leader);  // how many are still to be written
        if (large >= 0)
            events.visits[events.ends[large] - before + __popc(alike & lanes_below())] = event;
        return;
    }
    bool is_small = posting >= 0 && large < 0;
    word_t at = reserve(events.counters + N_SMALL, is_small);
    if (is_small) events.small[at] = (word_t)event << 32 | posting;
}

// The cell of an entry. A slot with several values has a cell of its own, behind all others.
__device__ __forceinline__ void note_cell(
    const Filters& filters, unsigned char* cells, int slot, offset_t code, bool is_first
) {
    int bit = filters.slot_bit[slot];
    if (bit < 0) return;
    int first = filters.bound_start[bit], last = filters.bound_start[bit + 1];
    cells[bit] = is_first ? cell_of(filters.bounds, first, last, code) : last - first + 2;
}

// The visits of all events, as `tiles._visit` finds them; where they are counted, also the cells and
// the signature.
template <bool FILLS>
__device__ __forceinline__ void visit_all(const Filters& filters, const Events& events) {
    int event = blockIdx.x * blockDim.x + threadIdx.x;
    bool is_there = event < events.n_events;
    offset_t first = is_there ? events.start[event] : 0;
    offset_t last = is_there ? events.start[event + 1] : 0;
    unsigned char* cells = events.cells + event * filters.n_bit_slots;
    if (!FILLS && is_there)
        for (int bit = 0; bit < filters.n_bit_slots; bit++) cells[bit] = 0;
    if (filters.posting_start[1] > 0) visit<FILLS>(filters, events, is_there ? 0 : -1, event);
    word_t signature = 0;
    int slot_before = -1;
    offset_t entry = first, end = last;
    while (__any_sync(ALL_LANES, entry < end)) {
        int by_slot = -1, by_term = -1;
        int slot = entry < end ? events.slots[entry] : 0;
        if (slot >= filters.n_slots) end = entry;  // they ascend: no filter asks for the others
        if (entry < end) {
            offset_t code = narrowed(events.codes[entry]);
            bool is_first = slot != slot_before;
            if (!FILLS) {
                note_cell(filters, cells, slot, code, is_first);
                signature |= 1ull << (slot & 63);
                signature |= 1ull << (mix64((word_t)code ^ (word_t)slot << 40) >> 58);
            }
            if (is_first) by_slot = filters.slot_posting[slot];
            by_term = term_posting(filters, slot, code);
            if (by_term >= 0 && is_again(events, first, entry)) by_term = -1;
            slot_before = slot;
            entry++;
        }
        if (__any_sync(ALL_LANES, by_slot >= 0)) visit<FILLS>(filters, events, by_slot, event);
        if (__any_sync(ALL_LANES, by_term >= 0)) visit<FILLS>(filters, events, by_term, event);
    }
    if (!FILLS && is_there) events.signatures[event] = signature;
}
