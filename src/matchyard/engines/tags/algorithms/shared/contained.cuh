// Compare signatures of N_WORDS words with an event.

#include "warp.cuh"

// One bit for each signature of the thread: 1 if the event contains it.
template <int N_SETS>
__device__ __forceinline__ unsigned contained(const word_t (*sets)[N_WORDS], const word_t* absent) {
    unsigned hits = 0;
    #pragma unroll
    for (int i = 0; i < N_SETS; i++) {
        word_t outside = 0;
        #pragma unroll
        for (int word = 0; word < N_WORDS; word++) outside |= sets[i][word] & absent[word];
        hits |= (unsigned)(outside == 0) << i;
    }
    return hits;
}
