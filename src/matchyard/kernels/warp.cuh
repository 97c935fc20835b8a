// Shared by the kernels of several algorithms: types, and operations of all lanes of a warp.

typedef unsigned long long word_t;
typedef long long offset_t;

#define LANES 32
#define ALL_LANES 0xffffffffu

__device__ __forceinline__ int lane_of() { return threadIdx.x & (LANES - 1); }

__device__ __forceinline__ unsigned lanes_below() { return (1u << lane_of()) - 1; }

// The same function as in kernels/hashing.py.
__device__ __forceinline__ word_t mix64(word_t value) {
    word_t word = value + 0x9E3779B97F4A7C15ull;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
}

// The sum of the values of this lane and all lower lanes.
template <typename T>
__device__ __forceinline__ T sum_up_to(T value) {
    for (int step = 1; step < LANES; step *= 2) {
        T before = __shfl_up_sync(ALL_LANES, value, step);
        if (lane_of() >= step) value += before;
    }
    return value;
}

// The sum of the values of all lanes.
__device__ __forceinline__ offset_t sum_of_all(offset_t value) {
    for (int step = LANES / 2; step; step /= 2) value += __shfl_xor_sync(ALL_LANES, value, step);
    return value;
}

// Reserve a position for each lane with `wants`, after the `n_taken` positions already taken.
__device__ __forceinline__ word_t reserve(word_t* n_taken, bool wants) {
    unsigned who = __ballot_sync(ALL_LANES, wants);
    word_t first = 0;
    if (who && lane_of() == 0) first = atomicAdd(n_taken, (word_t)__popc(who));
    return __shfl_sync(ALL_LANES, first, 0) + __popc(who & lanes_below());
}

// Append the words of all lanes with `has_one` side by side; words beyond `room` are only counted.
__device__ __forceinline__ void append(
    bool has_one, word_t value, word_t* out, word_t* n_out, word_t room
) {
    if (!__any_sync(ALL_LANES, has_one)) return;
    word_t at = reserve(n_out, has_one);
    if (has_one && at < room) out[at] = value;
}
