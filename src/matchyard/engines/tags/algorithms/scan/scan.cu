// scan: compare every signature with every event ["GPU-only, plain", TagMatch Table 1].
//
// A thread has SLOTS signatures in registers. The block loads STAGED events at a time into shared
// memory. A match is a pair (event, slot) in one word; the launcher sorts the pairs.
//
// The launcher defines N_WORDS (of a signature), SLOTS (per thread) and STAGED.

#include "contained.cuh"

extern "C" __global__ void scan(
    const word_t* words, offset_t stride, offset_t n_slots, int first_event, int n_events,
    const word_t* signatures, word_t* out, word_t* n_out, word_t room
) {
    __shared__ word_t absent[STAGED][N_WORDS];
    offset_t first_slot = blockIdx.x * (offset_t)(blockDim.x * SLOTS) + threadIdx.x;
    word_t sets[SLOTS][N_WORDS];
    #pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        offset_t slot = first_slot + i * (offset_t)blockDim.x;
        for (int word = 0; word < N_WORDS; word++)
            sets[i][word] = slot < n_slots ? words[word * stride + slot] : ~0ull;
    }
    for (int start = 0; start < n_events; start += STAGED) {
        int n_staged = n_events - start < STAGED ? n_events - start : STAGED;
        __syncthreads();  // all threads have finished the previous events
        for (int i = threadIdx.x; i < n_staged * N_WORDS; i += blockDim.x)
            absent[i / N_WORDS][i % N_WORDS] = ~signatures[(offset_t)(first_event + start) * N_WORDS + i];
        __syncthreads();
        for (int event = 0; event < n_staged; event++) {
            unsigned hits = contained<SLOTS>(sets, absent[event]);
            if (!__any_sync(ALL_LANES, hits != 0)) continue;
            #pragma unroll
            for (int i = 0; i < SLOTS; i++) {
                offset_t slot = first_slot + i * (offset_t)blockDim.x;
                bool is_hit = (hits >> i & 1) && slot < n_slots;
                word_t pair = ((word_t)(first_event + start + event) << 32) | (unsigned)slot;
                append(is_hit, pair, out, n_out, room);
            }
        }
    }
}
