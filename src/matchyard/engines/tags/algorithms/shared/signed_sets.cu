// From pairs (event, slot) to keys [TagMatch §3.4], for all algorithms over signatures.
//
// Pairs come sorted by event. A lane takes a pair. If answers are exact, it compares the tags of
// every set in the slot with the event. It then copies the keys of the matching sets. For a router,
// it only appends the interfaces to send the event to [thesis §3.4.5].
//
// The launcher defines KEY_BITS: the bits of a key, or of a set number in place of a key.

#include "keys.cuh"

#define FEW 8  // one lane reads up to so many keys of a set

struct Sets {
    const int* __restrict__ set_start;
    const int* __restrict__ tag_start;
    const int* __restrict__ tags;
    const int* __restrict__ key_start;
    const key_t* __restrict__ keys;
    int is_exact;
    int as_sets;  // return set numbers instead of keys: the host drops removed keys
};

// True if the event has all tags of a set. The event's tags are few and not sorted.
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

// Count the keys of each pair, after the exact check.
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

// For few events: append words of an event and a matching set. `n_pairs` is on the card, since the
// host has not read it yet; only the first `most` pairs had room in the buffer.
extern "C" __global__ void find_sets(
    const Sets* given, const word_t* n_pairs, word_t most, const word_t* pairs,
    const offset_t* tag_start, const int* tags, word_t* out, word_t* n_out, word_t room
) {
    Sets sets = *given;
    word_t end = *n_pairs < most ? *n_pairs : most, n_threads = gridDim.x * (word_t)blockDim.x;
    word_t thread = blockIdx.x * (word_t)blockDim.x + threadIdx.x;
    for (word_t first = thread - lane_of(); first < end; first += n_threads) {
        word_t at = first + lane_of();
        int event = 0, number = 0, last = 0;
        if (at < end) {
            event = (int)(pairs[at] >> 32);
            number = sets.set_start[(int)pairs[at]];
            last = sets.set_start[(int)pairs[at] + 1];
        }
        for (; __any_sync(ALL_LANES, number < last); number++) {
            bool holds = number < last
                && (!sets.is_exact
                    || has_all(sets, number, tags, tag_start[event], tag_start[event + 1]));
            append(holds, ((word_t)event << 32) | (unsigned)number, out, n_out, room);
        }
    }
}

// Write the keys of each pair, after the keys of the pairs before it.
extern "C" __global__ void write_keys(
    const Sets* given, offset_t n_pairs, const word_t* pairs, const offset_t* tag_start,
    const int* tags, const offset_t* ends, key_t* out
) {
    offset_t at = blockIdx.x * (offset_t)blockDim.x + threadIdx.x;
    Sets sets = *given;
    int event = 0, number = 0, last = 0;
    offset_t place = 0;
    if (at < n_pairs) {
        event = (int)(pairs[at] >> 32);
        number = sets.set_start[(int)pairs[at]];
        last = sets.set_start[(int)pairs[at] + 1];
        place = at ? ends[at - 1] : 0;
        if (place == ends[at]) last = number;  // no key: no set of the slot matches
    }
    while (__any_sync(ALL_LANES, number < last)) {
        int first = 0, n_keys = 0;
        if (number < last
            && (!sets.is_exact || has_all(sets, number, tags, tag_start[event], tag_start[event + 1]))) {
            first = sets.as_sets ? number : sets.key_start[number];
            n_keys = sets.as_sets ? 1 : sets.key_start[number + 1] - first;
        }
        copy_keys<FEW>(sets.keys, sets.as_sets, first, n_keys, out + place);
        place += n_keys;
        number++;
    }
}

// Append words of an event and an interface, for the keys that lead on; a word may come repeatedly.
extern "C" __global__ void next_interfaces(
    const Sets* given, offset_t n_pairs, const word_t* pairs, const offset_t* tag_start,
    const int* tags, const offset_t* trees, const offset_t* incoming,
    word_t* out, word_t* n_out, word_t room
) {
    offset_t at = blockIdx.x * (offset_t)blockDim.x + threadIdx.x;
    Sets sets = *given;
    int event = 0, number = 0, last = 0;
    if (at < n_pairs) {
        event = (int)(pairs[at] >> 32);
        number = sets.set_start[(int)pairs[at]];
        last = sets.set_start[(int)pairs[at] + 1];
    }
    while (__any_sync(ALL_LANES, number < last)) {
        int first = 0, n_keys = 0;
        if (number < last
            && (!sets.is_exact || has_all(sets, number, tags, tag_start[event], tag_start[event + 1]))) {
            first = sets.key_start[number];
            n_keys = sets.key_start[number + 1] - first;
        }
        int n_few = n_keys <= FEW ? n_keys : 0;  // a lane reads a short list of keys itself…
        for (int i = 0; __any_sync(ALL_LANES, i < n_few); i++) {
            key_t key = i < n_few ? sets.keys[first + i] : 0;
            bool is_next = i < n_few && leads_on(key, trees[event], incoming[event]);
            append(is_next, ((word_t)event << 32) | (unsigned)key, out, n_out, room);
        }
        for (unsigned many = __ballot_sync(ALL_LANES, n_keys > FEW); many; many &= many - 1) {
            int owner = __ffs(many) - 1;  // …and all lanes together read a long one
            int begin = __shfl_sync(ALL_LANES, first, owner);
            int end = begin + __shfl_sync(ALL_LANES, n_keys, owner);
            int its_event = __shfl_sync(ALL_LANES, event, owner);
            for (int start = begin; start < end; start += LANES) {
                int i = start + lane_of();
                key_t key = i < end ? sets.keys[i] : 0;
                bool is_next = i < end && leads_on(key, trees[its_event], incoming[its_event]);
                append(is_next, ((word_t)its_event << 32) | (unsigned)key, out, n_out, room);
            }
        }
        number++;
    }
}
