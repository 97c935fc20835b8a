// counting: CCM's kernel [Margara and Cugola, DEBS 2011, Algorithm 1].
//
// As in the paper, a thread evaluates one constraint on an attribute of the event at a time, counts
// up its filter, and marks the filter if that completes the count. The counters differ.
// Filters are cut into tiles whose counters are small enough for shared memory; a block has one tile
// and matches one event after the other. CCM's two copies of the counters are two halves of that
// memory: one is counted in while the other, of the event before, is cleared.
//
// A single event has a kernel of its own, with a thread per constraint on the whole card, counters
// in its memory, and as little to wait for as possible.
//
// Macros: COUNTER_BITS (4, 8, 16 or 32) of a counter, WIDE (are codes of 64 bits?), COUNT_SHIFT, see
// `cells`, and MOST_CODES of a single event.

#include "codes.cuh"

#define PER_WORD (32 / COUNTER_BITS)
#define LARGEST_COUNT (0xffffffffu >> (32 - COUNTER_BITS))
#define NOT_YET (-1)  // a filter has not all its constraints
#define NO_FILTER (-1)  // for this lane

extern __shared__ uint4 memory[];  // two halves of counters and stamps, then marks

// Filters and what they are counted in.
struct Tile {
    int first_filter;
    int first_union;  // of the constraints that have several entries
    unsigned fewest;  // constraints that a filter of the tile must satisfy
    unsigned* counters;  // COUNTER_BITS per filter
    unsigned* stamps;  // a bit per constraint with several entries: has it been counted?
    unsigned* marks;  // a bit per filter: does it match?
};

// True if a code is between low and high or, if low is above high, not strictly between them.
__device__ __forceinline__ bool holds(
    Code low, Code high, const offset_t* __restrict__ codes, int n_codes
) {
    int wanted = low > high ? 1 : 2;
    for (int i = 0; i < n_codes; i++) {
        Code code = (Code)narrowed(codes[i]);
        if ((code >= low) + (code <= high) >= wanted) return true;
    }
    return false;
}

// Count up the filter of a satisfied constraint; returns the filter if its count is complete.
__device__ __forceinline__ int count_up(
    const Tile& tile, int target, const int* __restrict__ union_filter,
    const int* __restrict__ sizes
) {
    int filter = target;
    if (target < 0) {
        int stamp = ~target - tile.first_union;
        unsigned bit = 1u << (stamp & 31);
        if (atomicOr(&tile.stamps[stamp >> 5], bit) & bit) return NOT_YET;
        filter = union_filter[~target];
    }
    unsigned number = filter - tile.first_filter;
    unsigned shift = number % PER_WORD * COUNTER_BITS;
    unsigned before = atomicAdd(&tile.counters[number / PER_WORD], 1u << shift);
    unsigned count = (before >> shift & LARGEST_COUNT) + 1;
    // Most filters are counted once or twice in an event: their sizes are not looked up.
    return count < tile.fewest || count != (unsigned)sizes[filter] ? NOT_YET : filter;
}

__device__ __forceinline__ void mark(const Tile& tile, int filter) {
    unsigned number = filter - tile.first_filter;
    atomicOr(&tile.marks[number >> 5], 1u << (number & 31));
}

__device__ __forceinline__ void clear(uint4* quads, int n_quads) {
    for (int i = threadIdx.x; i < n_quads; i += blockDim.x) quads[i] = make_uint4(0, 0, 0, 0);
}

// The number of marks of the threads before this one, and of all threads.
__device__ __forceinline__ void sum_up(int n_mine, int* n_before, int* n_all) {
    __shared__ int warp_sums[LANES];
    int warp = threadIdx.x / LANES, sum = sum_up_to(n_mine);
    if (lane_of() == LANES - 1) warp_sums[warp] = sum;
    __syncthreads();
    *n_before = sum - n_mine;
    *n_all = 0;
    for (int i = 0; i < (int)(blockDim.x / LANES); i++) {
        *n_before += i < warp ? warp_sums[i] : 0;
        *n_all += warp_sums[i];
    }
}

// Write the marked filters down in ascending order, and clear the marks. Where they are written
// depends on which block is first; which cell they belong to does not. Those that find no room are
// counted all the same.
__device__ void write_down(
    const Tile& tile, int n_marks, offset_t* reserved, offset_t capacity, offset_t* cell,
    int* __restrict__ hits
) {
    __shared__ offset_t start;
    int share = (n_marks + blockDim.x - 1) / blockDim.x;
    int from = min((int)threadIdx.x * share, n_marks), to = min(from + share, n_marks);
    int n_mine = 0, n_before, n_all;
    for (int i = from; i < to; i++) n_mine += __popc(tile.marks[i]);
    sum_up(n_mine, &n_before, &n_all);
    if (threadIdx.x == 0) {
        start = (offset_t)atomicAdd((word_t*)reserved, (word_t)n_all);
        *cell = start << COUNT_SHIFT | n_all;
    }
    __syncthreads();
    offset_t at = start + n_before;
    for (int i = from; i < to; i++) {
        for (unsigned left = tile.marks[i]; left; left &= left - 1, at++)
            if (at < capacity) hits[at] = tile.first_filter + 32 * i + __ffs(left) - 1;
        tile.marks[i] = 0;
    }
    __syncthreads();
}

// Evaluate the constraints of a tile on the slots of an event; true where a filter was marked.
__device__ __forceinline__ bool evaluate(
    const Tile& tile, int number, int n_tiles, int n_slots, const int* __restrict__ part_start,
    const Code* __restrict__ lows, const Code* __restrict__ highs,
    const int* __restrict__ targets, const int* __restrict__ union_filter,
    const int* __restrict__ sizes, const int* __restrict__ slots,
    const offset_t* __restrict__ codes, int entry, int last
) {
    bool has_marked = false;
    while (entry < last && slots[entry] < n_slots) {
        int slot = slots[entry];
        int after = entry + 1;
        while (after < last && slots[after] == slot) after++;
        offset_t part = (offset_t)slot * n_tiles + number;
        unsigned end = part_start[part + 1];
        for (unsigned i = part_start[part] + threadIdx.x; i < end; i += blockDim.x)
            if (holds(lows[i], highs[i], codes + entry, after - entry)) {
                int filter = count_up(tile, targets[i], union_filter, sizes);
                if (filter != NOT_YET) {
                    mark(tile, filter);
                    has_marked = true;
                }
            }
        entry = after;
    }
    return has_marked;
}

// The filters that match each event. There are n_tiles blocks for some of the events, as many again
// for others, and so on.
//
//   part_start    [n_slots * n_tiles + 1] entries of a slot whose filters are in a tile
//   lows … sizes  as in the table
//   first_union   [n_tiles]
//   events        [n_events + 1] offsets, then the codes, then the slots in half a word each
//   reserved      how many hits there are; `stale` is that of the launch before and is cleared
//   cells         [n_events * n_tiles] where hits start << COUNT_SHIFT | how many there are
extern "C" __global__ void __launch_bounds__(1024, 1) count_constraints(
    const int* __restrict__ part_start, const Code* __restrict__ lows,
    const Code* __restrict__ highs, const int* __restrict__ targets,
    const int* __restrict__ union_filter, const int* __restrict__ first_union,
    const int* __restrict__ sizes, int n_slots, int n_tiles, int tile_filters, int stamp_words,
    const offset_t* __restrict__ events, int n_events, int n_entries, offset_t* reserved,
    offset_t* stale, offset_t capacity, offset_t* __restrict__ cells, int* __restrict__ hits
) {
    const offset_t* codes = events + n_events + 1;
    const int* slots = (const int*)(codes + n_entries);
    int number = blockIdx.x % n_tiles, n_together = gridDim.x / n_tiles;
    int counter_words = tile_filters / PER_WORD, n_marks = tile_filters / 32;
    int half_quads = (counter_words + stamp_words + 3) / 4;
    Tile tile;
    tile.first_filter = number * tile_filters;
    tile.first_union = first_union[number];
    tile.fewest = sizes[tile.first_filter];  // sizes ascend
    tile.marks = (unsigned*)(memory + 2 * half_quads);
    if (blockIdx.x == 0 && threadIdx.x == 0) *stale = 0;
    clear(memory, half_quads);
    for (int i = threadIdx.x; i < n_marks; i += blockDim.x) tile.marks[i] = 0;
    __syncthreads();
    int half = 0;
    for (int event = blockIdx.x / n_tiles; event < n_events; event += n_together) {
        tile.counters = (unsigned*)(memory + half * half_quads);
        tile.stamps = tile.counters + counter_words;
        half = 1 - half;
        clear(memory + half * half_quads, half_quads);
        bool has_marked = evaluate(
            tile, number, n_tiles, n_slots, part_start, lows, highs, targets, union_filter, sizes,
            slots, codes, (int)events[event], (int)events[event + 1]
        );
        offset_t* cell = cells + (offset_t)event * n_tiles + number;
        if (__syncthreads_or(has_marked))
            write_down(tile, n_marks, reserved, capacity, cell, hits);
        else if (threadIdx.x == 0)
            *cell = 0;
    }
}

// Call a function for the hits of an event, tile by tile: a warp per event, a lane per hit.
template <class Body>
__device__ __forceinline__ void for_hits(
    offset_t event, int n_tiles, const offset_t* __restrict__ cells, const int* __restrict__ hits,
    Body body
) {
    for (int tile = 0; tile < n_tiles; tile++) {
        offset_t cell = cells[event * n_tiles + tile], first = cell >> COUNT_SHIFT;
        int n_hits = (int)(cell & ((1 << COUNT_SHIFT) - 1));
        for (int from = 0; from < n_hits; from += LANES) {
            int i = from + lane_of();
            body(i < n_hits ? hits[first + i] : NO_FILTER);
        }
    }
}

__device__ __forceinline__ offset_t warp_number() {
    return ((offset_t)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
}

// The number of keys of each event. The launcher adds them up to offsets.
//
//   key_start  [n_filters + 1] keys of a filter
//   n_keys     [n_events]
extern "C" __global__ void count_keys(
    const offset_t* __restrict__ cells, int n_events, int n_tiles, const int* __restrict__ hits,
    const int* __restrict__ key_start, offset_t* __restrict__ n_keys
) {
    offset_t event = warp_number(), n_mine = 0;
    if (event >= n_events) return;
    for_hits(event, n_tiles, cells, hits, [&](int filter) {
        if (filter != NO_FILTER) n_mine += key_start[filter + 1] - key_start[filter];
    });
    offset_t n_all = sum_of_all(n_mine);
    if (lane_of() == 0) n_keys[event] = n_all;
}

// The keys of each event, where the others end.
template <class Key>
__device__ __forceinline__ void write_keys(
    const offset_t* __restrict__ cells, int n_events, int n_tiles, const int* __restrict__ hits,
    const int* __restrict__ key_start, const Key* __restrict__ keys,
    const offset_t* __restrict__ ends, Key* __restrict__ found
) {
    offset_t event = warp_number();
    if (event >= n_events) return;
    offset_t at = event ? ends[event - 1] : 0;
    for_hits(event, n_tiles, cells, hits, [&](int filter) {
        int first = 0, n_mine = 0;
        if (filter != NO_FILTER) {
            first = key_start[filter];
            n_mine = key_start[filter + 1] - first;
        }
        int up_to = sum_up_to(n_mine);
        for (int i = 0; i < n_mine; i++) found[at + up_to - n_mine + i] = keys[first + i];
        at += __shfl_sync(ALL_LANES, up_to, LANES - 1);
    });
}

extern "C" __global__ void write_keys_32(
    const offset_t* cells, int n_events, int n_tiles, const int* hits, const int* key_start,
    const int* keys, const offset_t* ends, int* found
) {
    write_keys(cells, n_events, n_tiles, hits, key_start, keys, ends, found);
}

extern "C" __global__ void write_keys_64(
    const offset_t* cells, int n_events, int n_tiles, const int* hits, const int* key_start,
    const offset_t* keys, const offset_t* ends, offset_t* found
) {
    write_keys(cells, n_events, n_tiles, hits, key_start, keys, ends, found);
}

// The table for a single event. Two halves of counters as above, in the card's memory.
struct Table {
    const Code* __restrict__ lows;
    const Code* __restrict__ highs;
    const int* __restrict__ targets;
    const int* __restrict__ union_filter;
    const int* __restrict__ sizes;
    unsigned* halves;
    unsigned* totals;  // hits so far, and blocks that are done; both 0 between launches
    int* hits;  // in the host's memory
    volatile word_t* said;  // there, too: the number of the launch << 32 | hits
    unsigned counter_words;
    unsigned half_words;
    unsigned room;  // for hits
    unsigned fewest;  // constraints that a filter must satisfy
};

// A single event, passed as an argument of the launch: there is nothing to copy.
struct Event {
    offset_t codes[MOST_CODES];
    unsigned first_thread[MOST_CODES + 1];  // of those that evaluate the constraints of a slot
    unsigned first_entry[MOST_CODES];
    int first_code[MOST_CODES + 1];
    int n_slots;
    unsigned number;  // of the launch
};

// The filters that match a single event, in any order: a thread per constraint. The host does not
// wait for the launch to end but for what the last block says.
extern "C" __global__ void __launch_bounds__(256) count_one(
    const __grid_constant__ Table table, const __grid_constant__ Event event
) {
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, n_threads = gridDim.x * blockDim.x;
    unsigned* own = table.halves + (event.number & 1) * table.half_words;
    unsigned* stale = table.halves + (~event.number & 1) * table.half_words;
    int slot = 0;
    while (slot < event.n_slots && thread >= event.first_thread[slot + 1]) slot++;
    if (slot < event.n_slots) {
        unsigned entry = event.first_entry[slot] + thread - event.first_thread[slot];
        Code low = table.lows[entry], high = table.highs[entry];
        int target = table.targets[entry], first_code = event.first_code[slot];
        if (holds(low, high, event.codes + first_code, event.first_code[slot + 1] - first_code)) {
            Tile all = {0, 0, table.fewest, own, own + table.counter_words, 0};
            int filter = count_up(all, target, table.union_filter, table.sizes);
            if (filter != NOT_YET) {
                unsigned at = atomicAdd(table.totals, 1u);
                if (at < table.room) table.hits[at] = filter;
                __threadfence_system();
            }
        }
    }
    for (unsigned i = thread; i < table.half_words; i += n_threads) stale[i] = 0;
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence();  // what this block found comes before the word that it is done
    if (atomicAdd(table.totals + 1, 1u) == gridDim.x - 1) {
        __threadfence_system();
        word_t n_hits = atomicExch(table.totals, 0u);
        table.totals[1] = 0;
        *table.said = (word_t)event.number << 32 | n_hits;
    }
}
