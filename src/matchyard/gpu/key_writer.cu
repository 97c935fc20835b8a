// Write the keys of the rows of some events side by side, in the order of the rows.
//
// The launcher defines WARPS (of a block), EACH (keys that a warp writes), KEY_BITS (of a key on the card) and
// OUT_BITS (of a key in the result).

#include "warp.cuh"

#if KEY_BITS == 32
typedef int key_t;
#else
typedef long long key_t;
#endif
#if OUT_BITS == 32
typedef int out_t;
#else
typedef long long out_t;
#endif

// Write `n_keys` keys from number `first` on. A warp writes EACH keys, so that events with any numbers of keys are
// dealt evenly: it looks for the event and the row of its first key, and goes on from there.
//
//   hits  [n_events + 1] offsets into keys, [n_events + 1] offsets into rows, rows in 32 bits; of some events of
//         a part, so that the first offsets need not be 0
extern "C" __global__ void write_keys(
    const offset_t* __restrict__ hits, int n_events, const int* __restrict__ key_start,
    const key_t* __restrict__ keys, offset_t first, offset_t n_keys, out_t* __restrict__ out
) {
    const offset_t* event_start = hits;
    const offset_t* row_start = hits + n_events + 1;
    const int* rows = (const int*)(row_start + n_events + 1) - row_start[0];
    first += event_start[0];
    offset_t begin = ((offset_t)blockIdx.x * WARPS + threadIdx.x / LANES) * EACH;
    if (begin >= n_keys) return;
    offset_t at = first + begin, end = first + (begin + EACH < n_keys ? begin + EACH : n_keys);
    int low = 0, high = n_events;  // the last event that starts at `at` or before
    while (low < high) {
        int middle = (low + high) >> 1;
        if (event_start[middle + 1] <= at) low = middle + 1; else high = middle;
    }
    offset_t row = row_start[low], row_end = event_start[low];  // the rows before `row` end there
    for (;; row += LANES) {  // 32 rows at a time, up to the one of `at`
        offset_t mine = row + lane_of();
        int length = mine < row_start[n_events] ? key_start[rows[mine] + 1] - key_start[rows[mine]] : 0;
        offset_t up_to = row_end + sum_up_to((offset_t)length);
        unsigned beyond = __ballot_sync(ALL_LANES, up_to > at);
        if (beyond) {
            int owner = __ffs(beyond) - 1;
            row_end = __shfl_sync(ALL_LANES, up_to - length, owner);
            row += owner;
            break;
        }
        row_end = __shfl_sync(ALL_LANES, up_to, LANES - 1);
    }
    for (; at < end; row++) {
        int start = key_start[rows[row]], length = key_start[rows[row] + 1] - start;
        const key_t* from = keys + start - row_end;
        row_end += length;
        offset_t stop = row_end < end ? row_end : end;
        #pragma unroll 4
        for (offset_t i = at + lane_of(); i < stop; i += LANES) out[i - first] = from[i];
        at = stop;
    }
}
