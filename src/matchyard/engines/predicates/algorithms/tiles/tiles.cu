// tiles: which filters an event may match, 1024 at a time, by ANDs of rows of bits on the chip.
//
// `enter` finds the cells, the signature and the postings of each event, a thread per event; `add_up`
// says where the visits to each large posting end, and `fill` lays them down there. `sift` has a block
// per tile of a large posting and some of the events that visit it: the tile's rows are in shared
// memory, a warp takes an event, and a lane 32 filters. What survives is queued per warp, so that 32
// lanes check 32 filters exactly. `compare` checks the filters of small postings, a warp per visit. Pairs of event
// and filter, or key, are appended in any order; the launcher sorts them.
//
// Macros: WARPS of a block of `sift`, FEW (events for which a block does not load its rows), PROBES
// (slots by which events are left out before), MOST_ROWS of a slot, WIDE (are codes of 64 bits?).

#include "check.cuh"
#include "sift.cuh"
#include "visits.cuh"

extern __shared__ uint4 memory[];  // the rows of a tile

extern "C" __global__ void enter(const Filters* filters, const Events* events) {
    visit_all<false>(*filters, *events);
}

// One block.
extern "C" __global__ void add_up(const Events* events, offset_t n_large) {
    __shared__ int sums[LANES];
    int n_warps = blockDim.x / LANES, warp = threadIdx.x / LANES, before = 0;
    for (offset_t first = 0; first < n_large; first += blockDim.x) {
        offset_t at = first + threadIdx.x;
        int sum = sum_up_to(at < n_large ? (int)events->counts[at] : 0);
        if (lane_of() == LANES - 1) sums[warp] = sum;
        __syncthreads();
        sum += before;
        for (int other = 0; other < n_warps; other++) {
            sum += other < warp ? sums[other] : 0;
            before += sums[other];
        }
        if (at < n_large) events->ends[at] = sum;
        __syncthreads();
    }
}

extern "C" __global__ void fill(const Filters* filters, const Events* events) {
    visit_all<true>(*filters, *events);
}

// Small postings: all of their filters are checked.
extern "C" __global__ void compare(const Filters* filters, const Events* events) {
    word_t n_visits = events->counters[N_SMALL];
    word_t n_warps = (word_t)gridDim.x * blockDim.x / LANES;
    word_t n_compared = 0;
    word_t first_visit = ((word_t)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    for (word_t i = first_visit; i < n_visits; i += n_warps) {
        word_t event = events->small[i] >> 32;
        int posting = (int)(unsigned)events->small[i];
        int first = filters->posting_start[posting], last = filters->posting_start[posting + 1];
        for (int filter = first; filter < last; filter += LANES) {
            int own = filter + lane_of();
            check(*filters, *events, own < last, event << 32 | own);
        }
        n_compared += last - first;
    }
    if (lane_of() == 0 && n_compared) atomicAdd(events->counters + N_COMPARED, n_compared);
}

// Large postings: the filters that the rows of a tile let pass are checked.
extern "C" __global__ void __launch_bounds__(WARPS * LANES, 2) sift(
    const Filters* given_filters, const Events* given_events
) {
    __shared__ word_t queues[WARPS][2 * LANES];
    __shared__ unsigned char is_open[PROBES][MOST_ROWS];
    const Filters& filters = *given_filters;
    const Events& events = *given_events;
    int number = blockIdx.x / events.n_chunks;
    int posting = filters.tile_place[number];
    offset_t start = posting ? events.ends[posting - 1] : 0;
    offset_t end = events.ends[posting];
    // An event whose values repeat may visit a posting several times: there can be more visits than
    // events.
    offset_t chunk = max(events.chunk, (end - start + events.n_chunks - 1) / events.n_chunks);
    offset_t from = start + blockIdx.x % events.n_chunks * chunk;
    offset_t to = min(end, from + chunk);
    if (from >= to) return;
    Queue queue = {queues[threadIdx.x / LANES], 0, 0};
    const unsigned* rows = filters.rows + filters.row_start[number];
    if (to - from > FEW) {
        int n_quads = (filters.row_start[number + 1] - filters.row_start[number]) / 4;
        for (int i = threadIdx.x; i < n_quads; i += blockDim.x) memory[i] = ((const uint4*)rows)[i];
        __syncthreads();
        Tile tile = tile_of(filters, number, (const unsigned*)memory);
        probe(filters, tile, is_open);
        __syncthreads();
        pass_over<true>(filters, events, tile, from, to, is_open, queue);
    } else {
        Tile tile = tile_of(filters, number, rows);
        pass_over<false>(filters, events, tile, from, to, is_open, queue);
    }
    if (queue.n_queued) check_queued(filters, events, queue);
    if (lane_of() == 0 && queue.n_compared)
        atomicAdd(events.counters + N_COMPARED, queue.n_compared);
}

// Where the keys of each event begin, and the keys. Pairs are those of keys, sorted, and none is
// there twice.
template <class Key>
__device__ __forceinline__ void gather(
    const word_t* __restrict__ pairs, offset_t n_pairs, offset_t n_events,
    const Key* __restrict__ keys, offset_t* __restrict__ start, Key* __restrict__ found
) {
    offset_t i = (offset_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_pairs) return;
    found[i] = keys[(unsigned)pairs[i]];
    offset_t event = pairs[i] >> 32, before = i ? (offset_t)(pairs[i - 1] >> 32) : -1;
    for (offset_t other = before + 1; other <= event; other++) start[other] = i;
    if (i == n_pairs - 1)
        for (offset_t other = event + 1; other <= n_events; other++) start[other] = n_pairs;
}

extern "C" __global__ void gather_32(
    const word_t* pairs, offset_t n_pairs, offset_t n_events, const int* keys, offset_t* start,
    int* found
) {
    gather(pairs, n_pairs, n_events, keys, start, found);
}

extern "C" __global__ void gather_64(
    const word_t* pairs, offset_t n_pairs, offset_t n_events, const offset_t* keys,
    offset_t* start, offset_t* found
) {
    gather(pairs, n_pairs, n_events, keys, start, found);
}
