// rarest: a warp per event walks the postings of the event's tags, as `kernels/subset.py` does.
//
// Most postings are much shorter than a warp. A warp therefore lays the rows of several leaves end
// to end and deals them out to its lanes. The same walk runs twice: `count` counts the keys of an
// event, and `write` writes them at the sum of the counts before it; `match_few` does both in one
// launch. An event with more than MOST_IDS tags, or a walk with more than STACK open nodes, is left
// to the CPU.
//
// The launcher defines WARPS, MOST_IDS, STACK and KEY_BITS (the bits of a key, or of a row number
// in place of a key), and EACH (counts that a thread adds up at a time).

#include "keys.cuh"

#define FEW 4  // keys of a row that one lane copies
#define LEFT (-1)  // instead of the number of keys: the event is left to the CPU

struct Rows {
    const word_t* __restrict__ signatures;
    const int* __restrict__ id_start;
    const int* __restrict__ ids;
    const int* __restrict__ posting_start;
    const int* __restrict__ split_ids;
    const int* __restrict__ node_row;
    const int* __restrict__ node_own;
    const int* __restrict__ run_start;
    const int* __restrict__ run_id;
    const int* __restrict__ run_row;
    const int* __restrict__ run_end;
    const int* __restrict__ run_node;
    const int* __restrict__ key_start;
    const key_t* __restrict__ keys;
    int n_splits;
    int leaf;
    int as_rows;  // return row numbers instead of keys: the host drops removed keys
};

struct Node {
    int number, n_ids, depth;  // n_ids: rows below have only ids among the event's first n_ids
};

// The state of one warp and its event.
struct Walk {
    int* ids;  // ascending, each once
    int n_ids;
    Node* stack;
    int n_open;
    word_t missing;
    offset_t n_keys;  // when counting: keys of this lane; when writing: keys of the whole warp
    offset_t n_behind;  // when counting rows: their keys
    offset_t candidates;
    key_t* out;
};

__device__ __forceinline__ word_t id_bits(int number) {
    word_t code = mix64((word_t)number);
    return (1ull << (code & 63)) | (1ull << ((code >> 6) & 63));
}

// The last position in [low, high) whose value is at most `value`, or low - 1.
__device__ __forceinline__ int last_at_most(const int* values, int low, int high, int value) {
    while (low < high) {
        int middle = (low + high) >> 1;
        if (values[middle] <= value) low = middle + 1; else high = middle;
    }
    return low - 1;
}

__device__ __forceinline__ bool has_id(const Walk& walk, int number) {
    int at = last_at_most(walk.ids, 0, walk.n_ids, number);
    return at >= 0 && walk.ids[at] == number;
}

__device__ __forceinline__ bool is_contained(const Rows& rows, const Walk& walk, int row, int depth) {
    if (rows.signatures[row] & walk.missing) return false;
    for (int i = rows.id_start[row] + depth; i < rows.id_start[row + 1]; i++)
        if (!has_id(walk, rows.ids[i])) return false;
    return true;
}

// Take the keys of the row of every lane that has a hit.
template <bool WRITES>
__device__ __forceinline__ void take(const Rows& rows, Walk& walk, bool is_hit, int row) {
    int first = 0, n_keys = 0;
    if (is_hit) {
        first = rows.as_rows ? row : rows.key_start[row];
        n_keys = rows.as_rows ? 1 : rows.key_start[row + 1] - first;
    }
    if (!WRITES) {
        walk.n_keys += n_keys;
        if (is_hit && rows.as_rows) walk.n_behind += rows.key_start[row + 1] - rows.key_start[row];
        return;
    }
    unsigned hits = __ballot_sync(ALL_LANES, n_keys > 0);
    if (!hits) return;
    int up_to;
    if (__any_sync(ALL_LANES, n_keys > 1))
        up_to = sum_up_to(n_keys);
    else
        up_to = __popc(hits & (ALL_LANES >> (31 - lane_of())));
    key_t* out = walk.out + walk.n_keys + up_to - n_keys;
    copy_keys<FEW>(rows.keys, rows.as_rows, first, n_keys, out);
    walk.n_keys += __shfl_sync(ALL_LANES, up_to, 31);
}

// Test the rows of leaves: one leaf [low, low + length) per lane, possibly of length 0.
template <bool WRITES>
__device__ void scan(const Rows& rows, Walk& walk, int low, int length, int depth) {
    int up_to = sum_up_to(length);
    int total = __shfl_sync(ALL_LANES, up_to, 31);
    walk.candidates += length;
    for (int first = 0; first < total; first += LANES) {
        int place = first + lane_of(), owner = 0;
        for (int step = 16; step; step >>= 1)
            if (__shfl_sync(ALL_LANES, up_to, owner + step - 1) <= place) owner += step;
        int row = __shfl_sync(ALL_LANES, low, owner) + place
            - (__shfl_sync(ALL_LANES, up_to, owner) - __shfl_sync(ALL_LANES, length, owner));
        bool is_hit = place < total && is_contained(rows, walk, row, depth);
        take<WRITES>(rows, walk, is_hit, row);
    }
}

// Push the nodes of the lanes that have one; false if the stack has no room.
__device__ __forceinline__ bool push(Walk& walk, bool has_node, int number, int n_ids, int depth) {
    unsigned some = __ballot_sync(ALL_LANES, has_node);
    if (walk.n_open + __popc(some) > STACK) return false;
    if (has_node) {
        int at = walk.n_open + __popc(some & lanes_below());
        walk.stack[at] = {number, n_ids, depth};
    }
    walk.n_open += __popc(some);
    __syncwarp();
    return true;
}

// Scan the leaves of a node and push its child nodes; false if the stack has no room.
template <bool WRITES>
__device__ bool visit(const Rows& rows, Walk& walk, Node node) {
    bool has_own = lane_of() == 0 && rows.node_own[node.number];
    take<WRITES>(rows, walk, has_own, rows.node_row[node.number]);
    walk.candidates += has_own;
    int start = rows.run_start[node.number], end = rows.run_start[node.number + 1], last_run = -1;
    for (int first = 0; first < node.n_ids; first += LANES) {
        int i = first + lane_of(), run = -1, low = 0, length = 0, child = -1;
        if (i < node.n_ids) {
            run = last_at_most(rows.run_id, start, end, walk.ids[i]);
            if (run < start) run = -1;
        }
        bool is_node = run >= 0 && rows.run_node[run] >= 0;
        if (is_node && rows.run_id[run] == walk.ids[i]) child = rows.run_node[run];
        int before = __shfl_up_sync(ALL_LANES, run, 1);
        if (lane_of() == 0) before = last_run;
        last_run = __shfl_sync(ALL_LANES, run, 31);
        if (run >= 0 && !is_node && run != before) {  // a leaf is scanned once
            low = rows.run_row[run];
            length = rows.run_end[run] - low;
        }
        scan<WRITES>(rows, walk, low, length, node.depth);
        if (!push(walk, child >= 0, child, i, node.depth + 1)) return false;
    }
    return true;
}

// Sort the distinct tags of an event into shared memory, ascending.
__device__ __forceinline__ void sort_ids(Walk& walk, const int* tags, int n_tags, int* sorted) {
    for (int i = lane_of(); i < n_tags; i += LANES) {
        int own = tags[i], place = 0;
        for (int j = 0; j < n_tags; j++) place += tags[j] < own || (tags[j] == own && j < i);
        sorted[place] = own;
    }
    __syncwarp();
    walk.ids = sorted;
    walk.n_ids = 0;
    for (int first = 0; first < n_tags; first += LANES) {
        int i = first + lane_of();
        int own = i < n_tags ? sorted[i] : -1;
        int before = i > 0 && i < n_tags ? sorted[i - 1] : -1;
        __syncwarp();
        unsigned kept = __ballot_sync(ALL_LANES, i < n_tags && own != before);
        if (i < n_tags && own != before)
            sorted[walk.n_ids + __popc(kept & lanes_below())] = own;
        walk.n_ids += __popc(kept);
        __syncwarp();
    }
}

// Prepare the walk of an event; false if the event has too many tags.
__device__ __forceinline__ bool begin(
    Walk& walk, const offset_t* tag_start, const int* tags, int event, int* ids, Node* stack
) {
    offset_t n_tags = tag_start[event + 1] - tag_start[event];
    walk.stack = stack;
    walk.n_keys = walk.candidates = 0;
    if (n_tags > MOST_IDS) return false;
    sort_ids(walk, tags + tag_start[event], (int)n_tags, ids);
    return true;
}

// Walk the postings of one event; false if the stack had no room.
template <bool WRITES>
__device__ bool walk_event(const Rows& rows, Walk& walk) {
    walk.n_open = 0;
    walk.n_keys = walk.n_behind = walk.candidates = 0;
    word_t present = 0;
    for (int i = lane_of(); i < walk.n_ids; i += LANES) present |= id_bits(walk.ids[i]);
    for (int step = 16; step; step >>= 1) present |= __shfl_xor_sync(ALL_LANES, present, step);
    walk.missing = ~present;
    int n_empty = rows.posting_start[0];
    for (int first = 0; first < n_empty; first += LANES) {
        bool is_row = first + lane_of() < n_empty;
        take<WRITES>(rows, walk, is_row, first + lane_of());
        walk.candidates += is_row;
    }
    for (int first = 0; first < walk.n_ids; first += LANES) {
        int i = first + lane_of(), low = 0, length = 0, node = -1;
        if (i < walk.n_ids) {
            int id = walk.ids[i];
            low = rows.posting_start[id];
            length = rows.posting_start[id + 1] - low;
            if (length > rows.leaf) {
                node = last_at_most(rows.split_ids, 0, rows.n_splits, id);
                length = 0;
            }
        }
        scan<WRITES>(rows, walk, low, length, 0);
        if (!push(walk, node >= 0, node, i, 0)) return false;
    }
    while (walk.n_open) {
        walk.n_open--;
        Node node = walk.stack[walk.n_open];
        __syncwarp();
        if (!visit<WRITES>(rows, walk, node)) return false;
    }
    return true;
}

// Count the keys of each event, or its rows and the keys behind them, and mark the events that are left to the CPU.
//
//   counts  [n_events] what `write` will write, then [n_events] the keys behind rows
extern "C" __global__ void count(
    const Rows* rows, int n_events, const offset_t* tag_start, const int* tags,
    offset_t* counts, int* is_left, word_t* candidates
) {
    __shared__ int ids[WARPS][MOST_IDS];
    __shared__ Node stacks[WARPS][STACK];
    int warp = threadIdx.x / LANES, event = blockIdx.x * WARPS + warp;
    if (event >= n_events) return;
    Walk walk;
    bool fits = begin(walk, tag_start, tags, event, ids[warp], stacks[warp])
        && walk_event<false>(*rows, walk);
    walk.n_keys = sum_of_all(walk.n_keys);
    walk.candidates = sum_of_all(walk.candidates);
    if (rows->as_rows) walk.n_behind = sum_of_all(walk.n_behind);
    if (lane_of() == 0) {
        counts[event] = fits ? walk.n_keys : 0;
        if (rows->as_rows) counts[n_events + event] = fits ? walk.n_behind : 0;
        is_left[event] = !fits;
        if (fits) atomicAdd(candidates, (word_t)walk.candidates);
    }
}

// The sums of what was counted before each event, by one block: [1 + n_events] for each of `n_kinds` counts. `sums`
// begins with the number of candidates, so that one copy brings all to the host.
extern "C" __global__ void add_up(
    const offset_t* counts, int n_events, int n_kinds, const word_t* candidates, offset_t* sums
) {
    __shared__ offset_t of_warps[LANES], before;
    if (threadIdx.x == 0) sums[0] = *candidates;
    int warp = threadIdx.x / LANES, step = blockDim.x * EACH;
    for (int kind = 0; kind < n_kinds; kind++) {
        const offset_t* from = counts + (offset_t)kind * n_events;
        offset_t* to = sums + 1 + (offset_t)kind * (n_events + 1);
        if (threadIdx.x == 0) before = to[0] = 0;
        for (int first = 0; first < n_events; first += step) {
            int begin = first + threadIdx.x * EACH, end = min(begin + EACH, n_events);
            offset_t own = 0;
            for (int i = begin; i < end; i++) own += from[i];
            offset_t up_to = sum_up_to(own);
            if (lane_of() == LANES - 1) of_warps[warp] = up_to;
            __syncthreads();
            if (warp == 0) of_warps[lane_of()] = sum_up_to(of_warps[lane_of()]);
            __syncthreads();
            offset_t sum = before + up_to - own + (warp ? of_warps[warp - 1] : 0);
            for (int i = begin; i < end; i++) to[i + 1] = sum += from[i];
            __syncthreads();
            if (threadIdx.x == blockDim.x - 1) before = sum;
            __syncthreads();
        }
    }
}

// Write the keys of each event that is not left to the CPU.
extern "C" __global__ void write(
    const Rows* rows, int n_events, const offset_t* tag_start, const int* tags,
    int* is_left, const offset_t* key_offsets, key_t* out
) {
    __shared__ int ids[WARPS][MOST_IDS];
    __shared__ Node stacks[WARPS][STACK];
    int warp = threadIdx.x / LANES, event = blockIdx.x * WARPS + warp;
    if (event >= n_events || is_left[event]) return;
    Walk walk;
    walk.out = out + key_offsets[event];
    if (begin(walk, tag_start, tags, event, ids[warp], stacks[warp])) walk_event<true>(*rows, walk);
}

// Count and write in one launch, for few events: keys lie in the order in which events are counted.
//
//   taken  the total number of keys; 0 at the start
//   found  [n_events, 3] start of the event's keys, their number or LEFT, and its candidates
//   out    the keys of the events that fit into `room`; `found` and `out` are in the host's memory
extern "C" __global__ void match_few(
    const Rows* rows, int n_events, const offset_t* tag_start, const int* tags, word_t* taken,
    offset_t* found, key_t* out, offset_t room
) {
    __shared__ int ids[WARPS][MOST_IDS];
    __shared__ Node stacks[WARPS][STACK];
    int warp = threadIdx.x / LANES, event = blockIdx.x * WARPS + warp;
    if (event >= n_events) return;
    Walk walk;
    bool fits = begin(walk, tag_start, tags, event, ids[warp], stacks[warp])
        && walk_event<false>(*rows, walk);
    offset_t n_keys = sum_of_all(walk.n_keys), candidates = sum_of_all(walk.candidates), place = 0;
    if (lane_of() == 0) {
        if (fits && n_keys) place = (offset_t)atomicAdd(taken, (word_t)n_keys);
        found[3 * event] = place;
        found[3 * event + 1] = fits ? n_keys : LEFT;
        found[3 * event + 2] = fits ? candidates : 0;
    }
    place = __shfl_sync(ALL_LANES, place, 0);
    if (!fits || !n_keys || place + n_keys > room) return;
    walk.out = out + place;
    walk_event<true>(*rows, walk);
}

// Append words of an event and an interface, for the keys on the event's tree that do not lead back
// [thesis §3.4.5]. A warp takes an event.
extern "C" __global__ void next_interfaces(
    int n_events, const offset_t* key_offsets, const key_t* keys, const offset_t* trees,
    const offset_t* incoming, word_t* out, word_t* n_out, word_t room
) {
    int event = blockIdx.x * WARPS + threadIdx.x / LANES;
    if (event >= n_events) return;
    offset_t tree = trees[event], from = incoming[event], end = key_offsets[event + 1];
    for (offset_t first = key_offsets[event]; first < end; first += LANES) {
        offset_t at = first + lane_of(), key = at < end ? keys[at] : 0;
        bool is_next = at < end && leads_on(key, tree, from);
        append(is_next, ((word_t)event << 32) | (unsigned)key, out, n_out, room);
    }
}
