// tagmatch: batches of events against partitions of signatures [TagMatch §3.3], and key look-up.
//
// A block takes a batch of one partition, whose events lie in shared memory. A warp takes a block of
// sets with a common prefix: 32 events at a time are tested against the prefix, and those that have
// it against 32 sets at a time, one per lane. What is found is a pair (event, slot) in one word; the
// host sorts these, so that results are the same on every run.
//
// N_WORDS (of a signature), BATCH (events at most) and KEY_BITS (of a key, and of a set that stands
// for one) are given by the launcher.

typedef unsigned long long word_t;
typedef long long offset_t;
#if KEY_BITS == 32
typedef int key_t;
#else
typedef long long key_t;
#endif

#define ALL_LANES 0xffffffffu
#define CHUNKS ((BATCH + 31) / 32)
#define FEW 8  // keys of a set that one lane copies; more are copied by all lanes together

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

struct Sets {
    const int* __restrict__ set_start;
    const int* __restrict__ tag_start;
    const int* __restrict__ tags;
    const int* __restrict__ key_start;
    const key_t* __restrict__ keys;
    int is_exact;
    int as_sets;  // the numbers of sets stand for keys, since the host takes out removed ones
};

// Are the tags of a set among those of an event? These are few, and in any order.
__device__ __forceinline__ bool has_all(
    const Sets& sets, int number, const int* tags, offset_t begin, offset_t end
) {
    for (int i = sets.tag_start[number]; i < sets.tag_start[number + 1]; i++) {
        bool is_there = false;
        for (offset_t j = begin; j < end && !is_there; j++) is_there = tags[j] == sets.tags[i];
        if (!is_there) return false;
    }
    return true;
}

// How many keys each pair brings, after the exact check.
extern "C" __global__ void count_keys(
    const Sets* given, offset_t n_pairs, const word_t* pairs, const offset_t* tag_start,
    const int* tags, offset_t* counts, word_t* event_counts
) {
    offset_t at = blockIdx.x * (offset_t)blockDim.x + threadIdx.x;
    if (at >= n_pairs) return;
    Sets sets = *given;
    int event = (int)(pairs[at] >> 32), slot = (int)pairs[at];
    offset_t n_keys = 0;
    for (int number = sets.set_start[slot]; number < sets.set_start[slot + 1]; number++)
        if (!sets.is_exact || has_all(sets, number, tags, tag_start[event], tag_start[event + 1]))
            n_keys += sets.as_sets ? 1 : sets.key_start[number + 1] - sets.key_start[number];
    counts[at] = n_keys;
    if (n_keys) atomicAdd(event_counts + event, (word_t)n_keys);
}

// Copy keys: a lane those of its own set, all lanes together those of a set with many.
__device__ __forceinline__ void copy(const Sets& sets, int lane, int n_keys, int first, key_t* out) {
    if (n_keys <= FEW)
        for (int i = 0; i < n_keys; i++) out[i] = sets.as_sets ? first : sets.keys[first + i];
    for (unsigned many = __ballot_sync(ALL_LANES, n_keys > FEW); many; many &= many - 1) {
        int owner = __ffs(many) - 1;
        int begin = __shfl_sync(ALL_LANES, first, owner), n = __shfl_sync(ALL_LANES, n_keys, owner);
        key_t* to = (key_t*)__shfl_sync(ALL_LANES, (word_t)out, owner);
        for (int i = lane; i < n; i += 32) to[i] = sets.keys[begin + i];
    }
}

// The keys of each pair, behind those of the pairs before it.
extern "C" __global__ void write_keys(
    const Sets* given, offset_t n_pairs, const word_t* pairs, const offset_t* tag_start,
    const int* tags, const offset_t* ends, key_t* out
) {
    offset_t at = blockIdx.x * (offset_t)blockDim.x + threadIdx.x;
    Sets sets = *given;
    int lane = threadIdx.x & 31, event = 0, number = 0, last = 0;
    offset_t place = 0;
    if (at < n_pairs) {
        event = (int)(pairs[at] >> 32);
        number = sets.set_start[(int)pairs[at]];
        last = sets.set_start[(int)pairs[at] + 1];
        place = at ? ends[at - 1] : 0;
        if (place == ends[at]) last = number;  // no key: not one of the sets holds
    }
    while (__any_sync(ALL_LANES, number < last)) {
        int first = 0, n_keys = 0;
        if (number < last
            && (!sets.is_exact || has_all(sets, number, tags, tag_start[event], tag_start[event + 1]))) {
            first = sets.as_sets ? number : sets.key_start[number];
            n_keys = sets.as_sets ? 1 : sets.key_start[number + 1] - first;
        }
        copy(sets, lane, n_keys, first, out + place);
        place += n_keys;
        number++;
    }
}
