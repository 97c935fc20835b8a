// tagmatch: batches of events against partitions of signatures [TagMatch §3.3].
//
// A thread block takes a batch of one partition and keeps its events in shared memory. A warp takes
// a block of sets with a common prefix. It tests 32 events at a time for the prefix, and compares
// each event that has it with 32 * SLOTS sets at a time. A match is a pair (event, slot) in one
// word; the launcher sorts the pairs, so that results are the same on every run.
//
// The launcher defines N_WORDS (of a signature), BATCH (most events) and SLOTS (sets per lane).

#include "contained.cuh"

#define CHUNKS ((BATCH + LANES - 1) / LANES)

// The pre-process [§4.5]: a warp finds the partitions whose mask lies in its event.
extern "C" __global__ void pre_process(
    const word_t* masks, offset_t stride, int n_partitions, int n_events, const word_t* signatures,
    word_t* out, word_t* n_out, word_t room
) {
    int event = (int)((blockIdx.x * (offset_t)blockDim.x + threadIdx.x) / LANES);
    if (event >= n_events) return;
    word_t absent[N_WORDS], mask[1][N_WORDS];
    for (int word = 0; word < N_WORDS; word++)
        absent[word] = ~signatures[(offset_t)event * N_WORDS + word];
    for (int first = 0; first < n_partitions; first += LANES) {
        int partition = first + lane_of();
        bool is_here = partition < n_partitions;
        for (int word = 0; word < N_WORDS; word++)
            mask[0][word] = is_here ? masks[word * stride + partition] : 0;
        is_here = is_here && contained<1>(mask, absent);
        append(is_here, ((word_t)partition << 32) | (unsigned)event, out, n_out, room);
    }
}

struct Partitions {
    const word_t* __restrict__ words;
    const offset_t* __restrict__ block_start;
    const offset_t* __restrict__ slot_start;
    const word_t* __restrict__ prefixes;
    offset_t stride;
};

// Load the signatures of a lane: every 32nd of a tile.
__device__ __forceinline__ void load(
    word_t (*sets)[N_WORDS], const Partitions& table, offset_t tile, offset_t stop
) {
    #pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        offset_t slot = tile + LANES * i + lane_of();
        for (int word = 0; word < N_WORDS; word++)
            sets[i][word] = slot < stop ? table.words[word * table.stride + slot] : ~0ull;
    }
}

// One bit for each of 32 events: 1 if the event has the prefix.
__device__ __forceinline__ unsigned survivors(
    const word_t* prefix, const word_t (*absent)[BATCH], int event, int n_events
) {
    word_t outside = event < n_events ? 0 : 1;
    #pragma unroll
    for (int word = 0; word < N_WORDS; word++)  // most prefixes end in the first or second word
        if (prefix[word] && event < n_events) outside |= prefix[word] & absent[word][event];
    return __ballot_sync(ALL_LANES, outside == 0);
}

// A batch of events in the shared memory of a thread block.
struct Batch {
    word_t absent[N_WORDS][BATCH];
    int numbers[BATCH];
    int n_events;
};

// Match a batch with a share of a partition's blocks of sets.
__device__ __forceinline__ void match_batch(
    const Partitions& table, int partition, const Batch& batch, int share, int n_shares,
    word_t* out, word_t* n_out, word_t room, word_t* candidates
) {
    int n_warps = blockDim.x / LANES, n_events = batch.n_events;
    offset_t n_looked = 0, last = table.block_start[partition + 1];
    for (offset_t block = table.block_start[partition] + share * n_warps + threadIdx.x / LANES;
         block < last; block += n_shares * n_warps) {
        offset_t first = table.slot_start[block], stop = table.slot_start[block + 1];
        word_t prefix[N_WORDS], sets[SLOTS][N_WORDS], own[N_WORDS];
        for (int word = 0; word < N_WORDS; word++)
            prefix[word] = table.prefixes[block * N_WORDS + word];
        unsigned alive[CHUNKS];
        offset_t n_alive = 0;
        #pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            alive[chunk] = survivors(prefix, batch.absent, LANES * chunk + lane_of(), n_events);
            n_alive += __popc(alive[chunk]);
        }
        if (!n_alive) continue;
        n_looked += n_alive * (stop - first);
        for (offset_t tile = first; tile < stop; tile += LANES * SLOTS) {
            load(sets, table, tile, stop);
            #pragma unroll
            for (int chunk = 0; chunk < CHUNKS; chunk++)
                for (unsigned rest = alive[chunk]; rest; rest &= rest - 1) {
                    int event = LANES * chunk + __ffs(rest) - 1;
                    for (int word = 0; word < N_WORDS; word++) own[word] = batch.absent[word][event];
                    unsigned hits = contained<SLOTS>(sets, own);
                    if (!__any_sync(ALL_LANES, hits)) continue;
                    #pragma unroll
                    for (int i = 0; i < SLOTS; i++) {
                        offset_t slot = tile + LANES * i + lane_of();
                        word_t pair = ((word_t)batch.numbers[event] << 32) | (unsigned)slot;
                        append(hits >> i & 1 && slot < stop, pair, out, n_out, room);
                    }
                }
        }
    }
    if (lane_of() == 0 && n_looked) atomicAdd(candidates, (word_t)n_looked);
}

// Match prepared batches: `items` has the partition of each batch, and the start and end of its
// events in `events`.
extern "C" __global__ void subset_match(
    const Partitions* given, const int* items, const int* events, const word_t* signatures,
    word_t* out, word_t* n_out, word_t room, word_t* candidates
) {
    __shared__ Batch batch;
    Partitions table = *given;
    int partition = items[3 * blockIdx.x], begin = items[3 * blockIdx.x + 1];
    int n_events = items[3 * blockIdx.x + 2] - begin;
    if (threadIdx.x == 0) batch.n_events = n_events;
    for (int i = threadIdx.x; i < n_events; i += blockDim.x) {
        int event = batch.numbers[i] = events[begin + i];
        for (int word = 0; word < N_WORDS; word++)
            batch.absent[word][i] = ~signatures[(offset_t)event * N_WORDS + word];
    }
    __syncthreads();
    match_batch(table, partition, batch, 0, 1, out, n_out, room, candidates);
}

// Match few events: a thread block makes the batches of its partition itself. BATCH must be a
// multiple of 32. The grid has n_partitions thread blocks for each share of the partitions' sets.
extern "C" __global__ void match_few(
    const Partitions* given, const word_t* masks, offset_t stride, int n_partitions, int n_events,
    const word_t* signatures, word_t* out, word_t* n_out, word_t room, word_t* candidates
) {
    __shared__ Batch batch;
    Partitions table = *given;
    int partition = blockIdx.x % n_partitions;
    for (int first = 0; first < n_events; first += BATCH) {
        if (threadIdx.x == 0) batch.n_events = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < BATCH; i += blockDim.x) {
            int event = first + i;
            const word_t* its = signatures + (offset_t)event * N_WORDS;
            bool is_here = event < n_events;
            for (int word = 0; word < N_WORDS && is_here; word++)
                is_here = !(masks[word * stride + partition] & ~its[word]);
            unsigned some = __ballot_sync(ALL_LANES, is_here);
            int at = 0;
            if (lane_of() == 0 && some) at = atomicAdd(&batch.n_events, __popc(some));
            at = __shfl_sync(ALL_LANES, at, 0) + __popc(some & lanes_below());
            if (!is_here) continue;
            batch.numbers[at] = event;
            for (int word = 0; word < N_WORDS; word++) batch.absent[word][at] = ~its[word];
        }
        __syncthreads();
        if (batch.n_events)
            match_batch(
                table, partition, batch, blockIdx.x / n_partitions, gridDim.x / n_partitions,
                out, n_out, room, candidates
            );
        __syncthreads();
    }
}
