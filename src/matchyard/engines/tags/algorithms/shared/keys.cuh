// Keys of KEY_BITS bits on the card: copy them, and test them for a router.

#include "warp.cuh"

#if KEY_BITS == 32
typedef int key_t;
#else
typedef long long key_t;
#endif

// Copy `n_keys` keys of each lane, from `first` on. A lane copies up to MOST keys itself; all lanes
// together copy longer lists. With `as_numbers`, copy the number `first` instead: the host looks
// the keys up and drops removed ones.
template <int MOST>
__device__ __forceinline__ void copy_keys(
    const key_t* __restrict__ keys, bool as_numbers, int first, int n_keys, key_t* out
) {
    if (n_keys <= MOST)
        for (int i = 0; i < n_keys; i++) out[i] = as_numbers ? first : keys[first + i];
    for (unsigned many = __ballot_sync(ALL_LANES, n_keys > MOST); many; many &= many - 1) {
        int owner = __ffs(many) - 1;
        int begin = __shfl_sync(ALL_LANES, first, owner), n = __shfl_sync(ALL_LANES, n_keys, owner);
        key_t* to = (key_t*)__shfl_sync(ALL_LANES, (word_t)out, owner);
        for (int i = lane_of(); i < n; i += LANES) to[i] = keys[begin + i];
    }
}

// True if a key is of the event's tree and not the interface that the event came from
// [thesis §3.4.5].
__device__ __forceinline__ bool leads_on(offset_t key, offset_t tree, offset_t incoming) {
    return key >> 32 == tree && (key & 0xffffffffll) != incoming;
}
