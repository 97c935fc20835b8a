// The exact check of a filter, as in exact_check.py, and the pairs that pass it.

#include "events.cuh"

// True if a value of the event, with the entries `first` to `last`, is in the piece.
__device__ __forceinline__ bool piece_holds(
    const Filters& filters, const Events& events, int piece, offset_t first, offset_t last
) {
    int slot = filters.slots[piece];
    offset_t entry = first;
    for (offset_t size = last - first; size > 0;) {  // the first with this slot or a later one
        offset_t half = (size + 1) / 2;
        entry += events.slots[entry + half - 1] < slot ? half : 0;
        size -= half;
    }
    Code low = filters.low[piece], high = filters.high[piece];
    for (; entry < last && events.slots[entry] == slot; entry++) {
        Code code = (Code)narrowed(events.codes[entry]);
        if (low <= code && code <= high) return true;
    }
    return false;
}

__device__ __forceinline__ bool constraint_holds(
    const Filters& filters, const Events& events, int constraint, offset_t first, offset_t last
) {
    if (!filters.piece_start) return piece_holds(filters, events, constraint, first, last);
    int end = filters.piece_start[constraint + 1];
    for (int piece = filters.piece_start[constraint]; piece < end; piece++)
        if (piece_holds(filters, events, piece, first, last)) return true;
    return false;
}

// True if all constraints of group 0 hold, and not all of any other group. With arrays of objects, a
// group that holds here may not hold within one element: the host decides.
__device__ __noinline__ bool filter_holds(
    const Filters& filters, const Events& events, int event, int filter
) {
    if (filters.signatures && filters.signatures[filter] & ~events.signatures[event]) return false;
    offset_t first = events.start[event], last = events.start[event + 1];
    int end = filters.filter_start[filter + 1];
    for (int constraint = filters.filter_start[filter]; constraint < end;) {
        int group = filters.groups ? filters.groups[constraint] : 0;
        bool is_held = true;
        do {
            is_held = is_held && constraint_holds(filters, events, constraint, first, last);
            constraint++;
        } while (constraint < end && (!filters.groups || filters.groups[constraint] == group));
        if (group == 0 ? !is_held : is_held && !events.has_elements) return false;
    }
    return true;
}

// Check a pair per lane, and write the pairs that hold. Pairs without room are counted, too.
__device__ __forceinline__ void check(
    const Filters& filters, const Events& events, bool is_there, word_t pair
) {
    bool holds = is_there && filter_holds(filters, events, pair >> 32, (unsigned)pair);
    int first = 0, last = 0;  // of a lane without a pair, too: what it was given is anything
    if (holds) {
        int filter = (unsigned)pair;
        first = events.key_start ? events.key_start[filter] : filter;
        last = events.key_start ? events.key_start[filter + 1] : filter + 1;
    }
    for (; __any_sync(ALL_LANES, first < last); first++) {
        word_t at = reserve(events.counters + N_PAIRS, first < last);
        if (first < last && at < events.room) events.pairs[at] = pair >> 32 << 32 | first;
    }
}
