// Codes of values as the table has them, of 32 bits unless it is WIDE.

#include "warp.cuh"

#if WIDE
typedef offset_t Code;
#else
typedef int Code;
#endif

// A code as it compares with those of the table: what does not fit into 32 bits is beyond all bounds
// that are kept in them, and short of having none (see `stored_filters.narrowed`).
__device__ __forceinline__ offset_t narrowed(offset_t code) {
#if WIDE
    return code;
#else
    return min(max(code, -0x7fffffffLL), 0x7ffffffeLL);
#endif
}
