// tagmatch: batches of events against partitions of signatures [TagMatch §3.3].
//
// A block takes a batch of one partition, whose events lie in shared memory. A warp takes a block of
// sets with a common prefix: 32 events at a time are tested against the prefix, and those that have
// it against 32 sets at a time, one per lane. What is found is a pair (event, slot) in one word; the
// host sorts these, so that results are the same on every run.
//
// N_WORDS (of a signature) and BATCH (events at most) are given by the launcher.

typedef unsigned long long word_t;
typedef long long offset_t;

#define ALL_LANES 0xffffffffu
#define CHUNKS ((BATCH + 31) / 32)

__device__ __forceinline__ bool is_within(const word_t* set, const word_t* absent) {
    word_t outside = 0;
    #pragma unroll
    for (int word = 0; word < N_WORDS; word++) outside |= set[word] & absent[word];
    return outside == 0;
}

// Write a word of each lane that has one, all next to each other; beyond `room` they are counted only.
__device__ __forceinline__ void append(
    bool has_one, word_t value, int lane, word_t* out, word_t* n_out, word_t room
) {
    unsigned some = __ballot_sync(ALL_LANES, has_one);
    if (!some) return;
    word_t first = 0;
    if (lane == 0) first = atomicAdd(n_out, (word_t)__popc(some));
    first = __shfl_sync(ALL_LANES, first, 0);
    word_t at = first + __popc(some & ((1u << lane) - 1));
    if (has_one && at < room) out[at] = value;
}

// The pre-process [§4.5]: a warp finds the partitions whose mask lies in its event.
extern "C" __global__ void pre_process(
    const word_t* masks, offset_t stride, int n_partitions, int n_events, const word_t* signatures,
    word_t* out, word_t* n_out, word_t room
) {
    int lane = threadIdx.x & 31;
    int event = (int)((blockIdx.x * (offset_t)blockDim.x + threadIdx.x) >> 5);
    if (event >= n_events) return;
    word_t absent[N_WORDS], mask[N_WORDS];
    for (int word = 0; word < N_WORDS; word++)
        absent[word] = ~signatures[(offset_t)event * N_WORDS + word];
    for (int first = 0; first < n_partitions; first += 32) {
        int partition = first + lane;
        bool is_here = partition < n_partitions;
        for (int word = 0; word < N_WORDS; word++)
            mask[word] = is_here ? masks[word * stride + partition] : 0;
        is_here = is_here && is_within(mask, absent);
        append(is_here, ((word_t)partition << 32) | (unsigned)event, lane, out, n_out, room);
    }
}

struct Partitions {
    const word_t* __restrict__ words;
    const offset_t* __restrict__ block_start;
    const offset_t* __restrict__ slot_start;
    const word_t* __restrict__ prefixes;
    offset_t stride;
};

// Which of the events of a batch have a prefix, 32 per word.
__device__ __forceinline__ unsigned survivors(
    const word_t* prefix, const word_t (*absent)[BATCH], int event, int n_events
) {
    word_t outside = event < n_events ? 0 : 1;
    if (event < n_events)
        for (int word = 0; word < N_WORDS; word++) outside |= prefix[word] & absent[word][event];
    return __ballot_sync(ALL_LANES, outside == 0);
}

// `items` has the partition of a batch, and where its events begin and end in `events`.
extern "C" __global__ void subset_match(
    const Partitions* given, const int* items, const int* events, const word_t* signatures,
    word_t* out, word_t* n_out, word_t room, word_t* candidates
) {
    __shared__ word_t absent[N_WORDS][BATCH];
    __shared__ int numbers[BATCH];
    Partitions table = *given;
    int partition = items[3 * blockIdx.x], begin = items[3 * blockIdx.x + 1];
    int n_events = items[3 * blockIdx.x + 2] - begin;
    for (int i = threadIdx.x; i < n_events; i += blockDim.x) {
        int event = numbers[i] = events[begin + i];
        for (int word = 0; word < N_WORDS; word++)
            absent[word][i] = ~signatures[(offset_t)event * N_WORDS + word];
    }
    __syncthreads();
    int lane = threadIdx.x & 31, n_warps = blockDim.x >> 5;
    offset_t n_looked = 0, last = table.block_start[partition + 1];
    for (offset_t block = table.block_start[partition] + (threadIdx.x >> 5); block < last;
         block += n_warps) {
        offset_t first = table.slot_start[block], stop = table.slot_start[block + 1];
        word_t prefix[N_WORDS], set[N_WORDS], own[N_WORDS];
        for (int word = 0; word < N_WORDS; word++)
            prefix[word] = table.prefixes[block * N_WORDS + word];
        unsigned alive[CHUNKS], any = 0;
        #pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            alive[chunk] = survivors(prefix, absent, 32 * chunk + lane, n_events);
            any |= alive[chunk];
            n_looked += __popc(alive[chunk]) * (stop - first);
        }
        if (!any) continue;
        for (offset_t tile = first; tile < stop; tile += 32) {
            offset_t slot = tile + lane;
            for (int word = 0; word < N_WORDS; word++)
                set[word] = slot < stop ? table.words[word * table.stride + slot] : 0;
            #pragma unroll
            for (int chunk = 0; chunk < CHUNKS; chunk++)
                for (unsigned rest = alive[chunk]; rest; rest &= rest - 1) {
                    int event = 32 * chunk + __ffs(rest) - 1;
                    for (int word = 0; word < N_WORDS; word++) own[word] = absent[word][event];
                    bool is_hit = slot < stop && is_within(set, own);
                    word_t pair = ((word_t)numbers[event] << 32) | (unsigned)slot;
                    append(is_hit, pair, lane, out, n_out, room);
                }
        }
    }
    if (lane == 0 && n_looked) atomicAdd(candidates, (word_t)n_looked);
}
