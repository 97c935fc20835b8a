// tiles: which filters an event may match, 1024 at a time, by ANDs of rows of bits on the chip.
//
// `enter` finds the cells, the signature and the postings of each event, a thread per event; `fill`
// lays the visits to large postings down posting by posting. `sift` has a block per tile of a
// large posting and some of the events that visit it: the tile's rows are in shared memory, a warp
// takes an event, and a lane 32 filters. What survives is queued per warp, so that 32 lanes check 32
// filters exactly. `compare` checks the filters of small postings, a warp per visit. Pairs of event
// and filter, or key, are appended in any order; the launcher sorts them.
//
// Macros: WARPS of a block of `sift`, FEW (events for which a block does not load its rows), PROBES
// (slots by which events are left out before), MOST_ROWS of a slot, WIDE (are codes of 64 bits?).

#if WIDE
typedef long long Code;
#else
typedef int Code;
#endif
typedef unsigned long long Word;

constexpr unsigned ALL = 0xffffffffu;
constexpr int LANES = 32;
constexpr int STEP = 4;        // rows that are ANDed before a warp asks whether anything is left
constexpr int LOOK_BACK = 32;  // values of a slot among which the same one is found again
enum { N_PAIRS, N_SMALL, N_COMPARED, N_UNSURE };

extern __shared__ uint4 memory[];  // the rows of a tile

// The table, as the launcher lists it. Arrays that a table does not have are null.
struct Filters {
    const int *posting_start;
    const int *slot_posting;
    const int *term_slots;
    const long long *term_codes;
    const int *term_postings;
    const short *slot_bit;
    const int *bound_start;
    const long long *bounds;
    const Word *signatures;
    const int *filter_start;
    const int *piece_start;
    const short *groups;
    const int *slots;
    const Code *low;
    const Code *high;
    const int *posting_place;  // number among the large postings, -1 for small ones
    const int *tile_first;     // [n_tiles] first filter
    const int *tile_last;      // one past its last
    const int *tile_place;     // its posting, numbered among the large ones
    const int *list_start;     // [n_tiles + 1] slots with rows, the most selective first
    const int *list_slot;      // numbered among the slots that have cells
    const int *list_at;        // where their rows begin within the tile's, in words
    const long long *row_start;  // [n_tiles + 1]
    const unsigned *rows;
    long long n_slots;
    long long n_bit_slots;
    long long term_mask;
};

// A batch, and what is found out about it.
struct Events {
    long long n_events;
    long long has_places;  // then negated groups are left to the host
    long long chunk;       // visits that a block of `sift` takes, at least
    long long n_chunks;    // blocks per tile
    Word room;             // of pairs
    const long long *start;
    const long long *codes;
    const int *slots;
    Word *counters;        // N_PAIRS, N_SMALL, N_COMPARED, N_UNSURE
    Word *counts;          // visits to each large posting
    const long long *ends; // the same added up
    unsigned char *cells;  // [n_events][n_bit_slots]
    Word *signatures;
    int *visits;           // events, posting by posting
    Word *small;           // visits to small postings: event << 32 | posting
    Word *pairs;           // event << 32 | filter, or the place of one of its keys
    const int *key_start;  // [n_filters + 1], null where pairs are of filters
};

__device__ __forceinline__ int lane_of()
{
    return threadIdx.x & (LANES - 1);
}

__device__ __forceinline__ unsigned lanes_below()
{
    return (1u << lane_of()) - 1;
}

// A code as it compares with those of the table; see `_stored.narrowed`.
__device__ __forceinline__ long long narrowed(long long code)
{
#if WIDE
    return code;
#else
    return min(max(code, -0x7fffffffLL), 0x7ffffffeLL);
#endif
}

// As in kernels/hashing.py.
__device__ __forceinline__ Word mix64(Word word)
{
    word += 0x9E3779B97F4A7C15ull;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ word >> 27) * 0x94D049BB133111EBull;
    return word ^ word >> 31;
}

// A place for each lane of a warp that wants one, behind those that are taken already.
__device__ __forceinline__ Word reserve(Word *counter, bool wants)
{
    const unsigned who = __ballot_sync(ALL, wants);
    Word start = 0;
    if (who && lane_of() == 0)
        start = atomicAdd(counter, (Word) __popc(who));
    return __shfl_sync(ALL, start, 0) + __popc(who & lanes_below());
}

// ---- Which postings an event visits ----

// The cell of a code, as `_tiles_cells.cell_of` has it.
__device__ __forceinline__ int cell_of(const long long *bounds, int first, int last, long long code)
{
    int low = first;
    for (int size = last - first; size > 0;) {
        const int half = (size + 1) / 2;
        low += bounds[low + half - 1] <= code ? half : 0;
        size -= half;
    }
    return low - first + 1;
}

// The posting of one code of a slot, -1 for none.
__device__ __forceinline__ int term_posting(const Filters &filters, int slot, long long code)
{
    Word place = mix64((Word) code ^ mix64((Word) slot)) & filters.term_mask;
    while (true) {
        const int found = filters.term_slots[place];
        if (found < 0)
            return -1;
        if (found == slot && filters.term_codes[place] == code)
            return filters.term_postings[place];
        place = (place + 1) & filters.term_mask;
    }
}

// Has the event the same value in an entry before? Far ones are not looked for: a visit more costs
// time, and the host is told that there may be pairs that are found twice.
__device__ __forceinline__ bool is_again(const Events &events, long long first, long long entry)
{
    const long long stop = max(first, entry - LOOK_BACK);
    for (long long other = entry - 1; other >= stop; --other) {
        if (events.slots[other] != events.slots[entry])
            return false;
        if (events.codes[other] == events.codes[entry])
            return true;
    }
    if (stop > first && events.slots[stop - 1] == events.slots[entry])
        events.counters[N_UNSURE] = 1;
    return false;
}

// Note a visit of each lane's event to a posting, -1 for none: count it or, where it is counted,
// write it down. Lanes with the same posting share an atomic.
template <bool FILLS>
__device__ __forceinline__ void visit(
    const Filters &filters, const Events &events, int posting, int event)
{
    const int large = posting < 0 ? -1 : filters.posting_place[posting];
    const unsigned alike = __match_any_sync(ALL, large);
    const int leader = __ffs(alike) - 1;
    const Word n_alike = __popc(alike);
    Word before = 0;
    if (large >= 0 && lane_of() == leader)
        before = atomicAdd(events.counts + large, FILLS ? 0 - n_alike : n_alike);
    if (FILLS) {
        before = __shfl_sync(ALL, before, leader);  // how many are still to be written
        if (large >= 0)
            events.visits[events.ends[large] - before + __popc(alike & lanes_below())] = event;
        return;
    }
    const bool is_small = posting >= 0 && large < 0;
    const Word at = reserve(events.counters + N_SMALL, is_small);
    if (is_small)
        events.small[at] = (Word) event << 32 | posting;
}

// The cell of an entry. A slot with several values has a cell of its own, behind all others.
__device__ __forceinline__ void note_cell(
    const Filters &filters, unsigned char *cells, int slot, long long code, bool is_first)
{
    const int bit = filters.slot_bit[slot];
    if (bit < 0)
        return;
    const int first = filters.bound_start[bit], last = filters.bound_start[bit + 1];
    cells[bit] = is_first ? cell_of(filters.bounds, first, last, code) : last - first + 2;
}

// The visits of all events, as `tiles._visit` finds them; where they are counted, also the cells and
// the signature.
template <bool FILLS>
__device__ __forceinline__ void visit_all(const Filters &filters, const Events &events)
{
    const int event = blockIdx.x * blockDim.x + threadIdx.x;
    const bool is_there = event < events.n_events;
    const long long first = is_there ? events.start[event] : 0;
    const long long last = is_there ? events.start[event + 1] : 0;
    unsigned char *cells = events.cells + event * filters.n_bit_slots;
    if (!FILLS && is_there)
        for (int bit = 0; bit < filters.n_bit_slots; ++bit)
            cells[bit] = 0;
    if (filters.posting_start[1] > 0)
        visit<FILLS>(filters, events, is_there ? 0 : -1, event);
    Word signature = 0;
    int slot_before = -1;
    long long entry = first, end = last;
    while (__any_sync(ALL, entry < end)) {
        int by_slot = -1, by_term = -1;
        const int slot = entry < end ? events.slots[entry] : 0;
        if (slot >= filters.n_slots)
            end = entry;  // they ascend: no filter asks for the others
        if (entry < end) {
            const long long code = narrowed(events.codes[entry]);
            const bool is_first = slot != slot_before;
            if (!FILLS) {
                note_cell(filters, cells, slot, code, is_first);
                signature |= 1ull << (slot & 63);
                signature |= 1ull << (mix64((Word) code ^ (Word) slot << 40) >> 58);
            }
            if (is_first)
                by_slot = filters.slot_posting[slot];
            by_term = term_posting(filters, slot, code);
            if (by_term >= 0 && is_again(events, first, entry))
                by_term = -1;
            slot_before = slot;
            ++entry;
        }
        if (__any_sync(ALL, by_slot >= 0))
            visit<FILLS>(filters, events, by_slot, event);
        if (__any_sync(ALL, by_term >= 0))
            visit<FILLS>(filters, events, by_term, event);
    }
    if (!FILLS && is_there)
        events.signatures[event] = signature;
}

extern "C" __global__ void enter(const Filters *filters, const Events *events)
{
    visit_all<false>(*filters, *events);
}

extern "C" __global__ void fill(const Filters *filters, const Events *events)
{
    visit_all<true>(*filters, *events);
}

// ---- The exact check, as in _holds.py ----

// Is a value of the event, which has the entries `first` to `last`, in the piece?
__device__ __forceinline__ bool piece_holds(
    const Filters &filters, const Events &events, int piece, long long first, long long last)
{
    const int slot = filters.slots[piece];
    long long entry = first;
    for (long long size = last - first; size > 0;) {  // the first with this slot or a later one
        const long long half = (size + 1) / 2;
        entry += events.slots[entry + half - 1] < slot ? half : 0;
        size -= half;
    }
    const Code low = filters.low[piece], high = filters.high[piece];
    for (; entry < last && events.slots[entry] == slot; ++entry) {
        const Code code = (Code) narrowed(events.codes[entry]);
        if (low <= code && code <= high)
            return true;
    }
    return false;
}

__device__ __forceinline__ bool constraint_holds(
    const Filters &filters, const Events &events, int constraint, long long first, long long last)
{
    if (!filters.piece_start)
        return piece_holds(filters, events, constraint, first, last);
    const int end = filters.piece_start[constraint + 1];
    for (int piece = filters.piece_start[constraint]; piece < end; ++piece)
        if (piece_holds(filters, events, piece, first, last))
            return true;
    return false;
}

// Do all constraints of group 0 hold, and of every other group not all? With arrays of objects, a
// group that holds here may not hold within one element: the host decides.
__device__ __noinline__ bool filter_holds(
    const Filters &filters, const Events &events, int event, int filter)
{
    if (filters.signatures && filters.signatures[filter] & ~events.signatures[event])
        return false;
    const long long first = events.start[event], last = events.start[event + 1];
    const int end = filters.filter_start[filter + 1];
    for (int constraint = filters.filter_start[filter]; constraint < end;) {
        const int group = filters.groups ? filters.groups[constraint] : 0;
        bool is_held = true;
        do {
            is_held = is_held && constraint_holds(filters, events, constraint, first, last);
            ++constraint;
        } while (constraint < end && (!filters.groups || filters.groups[constraint] == group));
        if (group == 0 ? !is_held : is_held && !events.has_places)
            return false;
    }
    return true;
}

// Check a pair per lane, and write down those that hold. What finds no room is counted all the same.
__device__ __forceinline__ void check(
    const Filters &filters, const Events &events, bool is_there, Word pair)
{
    const bool holds = is_there && filter_holds(filters, events, pair >> 32, (unsigned) pair);
    int first = 0, last = 0;  // of a lane without a pair, too: what it was given is anything
    if (holds) {
        const int filter = (unsigned) pair;
        first = events.key_start ? events.key_start[filter] : filter;
        last = events.key_start ? events.key_start[filter + 1] : filter + 1;
    }
    for (; __any_sync(ALL, first < last); ++first) {
        const Word at = reserve(events.counters + N_PAIRS, first < last);
        if (first < last && at < events.room)
            events.pairs[at] = pair >> 32 << 32 | first;
    }
}

// Small postings: all of their filters are checked.
extern "C" __global__ void compare(const Filters *filters, const Events *events)
{
    const Word n_visits = events->counters[N_SMALL];
    const Word n_warps = (Word) gridDim.x * blockDim.x / LANES;
    Word n_compared = 0;
    for (Word i = ((Word) blockIdx.x * blockDim.x + threadIdx.x) / LANES; i < n_visits; i += n_warps) {
        const Word event = events->small[i] >> 32;
        const int posting = (int) (unsigned) events->small[i];
        const int first = filters->posting_start[posting], last = filters->posting_start[posting + 1];
        for (int filter = first; filter < last; filter += LANES) {
            const int own = filter + lane_of();
            check(*filters, *events, own < last, event << 32 | own);
        }
        n_compared += last - first;
    }
    if (lane_of() == 0 && n_compared)
        atomicAdd(events->counters + N_COMPARED, n_compared);
}

// ---- Large postings ----

// What survived the rows of a tile and is to be checked, 32 pairs at a time.
struct Queue {
    Word *pairs;  // room for 64
    int n_queued;
    Word n_compared;
};

__device__ __forceinline__ void check_queued(const Filters &filters, const Events &events, Queue &queue)
{
    __syncwarp();
    const Word pair = queue.pairs[lane_of()], next = queue.pairs[LANES + lane_of()];
    check(filters, events, lane_of() < queue.n_queued, pair);
    __syncwarp();
    queue.pairs[lane_of()] = next;
    queue.n_compared += min(queue.n_queued, LANES);
    queue.n_queued = max(queue.n_queued - LANES, 0);
    __syncwarp();
}

// Queue the filters whose bits are left, the first of this lane's being `first`.
__device__ __forceinline__ void put(
    const Filters &filters, const Events &events, Queue &queue, int event, int first, unsigned alive)
{
    while (true) {
        const unsigned who = __ballot_sync(ALL, alive != 0);
        if (!who)
            return;
        if (alive) {
            const int filter = first + __ffs(alive) - 1;
            queue.pairs[queue.n_queued + __popc(who & lanes_below())] = (Word) event << 32 | filter;
            alive &= alive - 1;
        }
        queue.n_queued += __popc(who);
        if (queue.n_queued >= LANES)
            check_queued(filters, events, queue);
    }
}

// A tile as a warp sees it; each lane has 32 of the filters, and one of the slots that have rows.
struct Tile {
    const unsigned *rows;
    int n_listed;
    int slot;        // of this lane; behind the last one it is repeated
    int row;         // where its rows begin
    int first;       // filter of this lane
    unsigned inside; // which of its 32 there are
};

__device__ __forceinline__ Tile tile_of(const Filters &filters, int number, const unsigned *rows)
{
    Tile tile = {rows, 0, 0, 0, 0, 0};
    const int listed = filters.list_start[number];
    tile.n_listed = filters.list_start[number + 1] - listed;
    if (tile.n_listed) {
        const int own = listed + min(lane_of(), tile.n_listed - 1);
        tile.slot = filters.list_slot[own];
        tile.row = filters.list_at[own] / LANES;
    }
    tile.first = filters.tile_first[number] + LANES * lane_of();
    const int n_inside = filters.tile_last[number] - tile.first;
    tile.inside = n_inside >= LANES ? ALL : n_inside > 0 ? (1u << n_inside) - 1 : 0;
    return tile;
}

// Which cells of the most selective slots leave any filter at all; a warp takes a row.
__device__ __forceinline__ void probe(
    const Filters &filters, const Tile &tile, unsigned char (*is_open)[MOST_ROWS])
{
    for (int i = 0; i < min(PROBES, tile.n_listed); ++i) {
        const int slot = __shfl_sync(ALL, tile.slot, i), first = __shfl_sync(ALL, tile.row, i);
        const int n_rows = filters.bound_start[slot + 1] - filters.bound_start[slot] + 3;
        for (int row = threadIdx.x / LANES; row < n_rows; row += WARPS) {
            const unsigned bits = tile.rows[(first + row) * LANES + lane_of()] & tile.inside;
            const bool is_any = __any_sync(ALL, bits != 0);
            if (lane_of() == 0)
                is_open[i][row] = is_any;
        }
    }
}

// The filters of a tile that an event may match, 32 per lane. `rows` has the event's row of a slot in
// the lower half and that of the next slot in the upper one, in every other lane.
__device__ __forceinline__ unsigned filters_alive(const Tile &tile, unsigned rows)
{
    unsigned alive = tile.inside;
    const unsigned *own = tile.rows + lane_of();
    for (int step = 0; step < tile.n_listed; step += STEP) {
#pragma unroll
        for (int j = 0; j < STEP; j += 2) {
            const unsigned two = __shfl_sync(ALL, rows, step + j);
            alive &= own[(two & 0xffff) * LANES] & own[(two >> 16) * LANES];
        }
        if (!__any_sync(ALL, alive != 0))
            break;
    }
    return alive;
}

// Let the events of the visits `from` to `to` pass over a tile, 32 per warp. First each lane probes
// one of them; those that may match something are then taken one by one, and the cells of the next
// are loaded meanwhile.
template <bool ARE_PROBED>
__device__ __forceinline__ void pass_over(
    const Filters &filters, const Events &events, const Tile &tile, long long from, long long to,
    const unsigned char (*is_open)[MOST_ROWS], Queue &queue)
{
    const int *visits = events.visits;
    const unsigned char *cells = events.cells;
    const long long n_bit_slots = filters.n_bit_slots;
    const int n_probes = ARE_PROBED ? min(PROBES, tile.n_listed) : 0;
    const auto rows_of = [&](int event) {
        const int row = tile.n_listed ? tile.row + cells[event * n_bit_slots + tile.slot] : 0;
        return (unsigned) row | (unsigned) __shfl_down_sync(ALL, row, 1) << 16;
    };
    for (long long i = from + threadIdx.x / LANES * LANES; i < to; i += WARPS * LANES) {
        const int own = visits[min(i + lane_of(), to - 1)];
        bool is_left = i + lane_of() < to;
        for (int j = 0; j < n_probes; ++j)
            is_left &= is_open[j][cells[own * n_bit_slots + __shfl_sync(ALL, tile.slot, j)]];
        unsigned left = __ballot_sync(ALL, is_left);
        if (!left)
            continue;
        int event = __shfl_sync(ALL, own, __ffs(left) - 1);
        unsigned rows = rows_of(event);
        while (left) {
            left &= left - 1;
            const int next = left ? __shfl_sync(ALL, own, __ffs(left) - 1) : event;
            const unsigned next_rows = rows_of(next);
            put(filters, events, queue, event, tile.first, filters_alive(tile, rows));
            event = next;
            rows = next_rows;
        }
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * LANES, 2)
    sift(const Filters *given_filters, const Events *given_events)
{
    __shared__ Word queues[WARPS][2 * LANES];
    __shared__ unsigned char is_open[PROBES][MOST_ROWS];
    const Filters &filters = *given_filters;
    const Events &events = *given_events;
    const int number = blockIdx.x / events.n_chunks;
    const int place = filters.tile_place[number];
    const long long start = place ? events.ends[place - 1] : 0;
    const long long end = events.ends[place];
    // An event whose values repeat may visit a posting several times: there can be more visits than
    // events.
    const long long chunk = max(events.chunk, (end - start + events.n_chunks - 1) / events.n_chunks);
    const long long from = start + blockIdx.x % events.n_chunks * chunk;
    const long long to = min(end, from + chunk);
    if (from >= to)
        return;
    Queue queue = {queues[threadIdx.x / LANES], 0, 0};
    const unsigned *rows = filters.rows + filters.row_start[number];
    if (to - from > FEW) {
        const int n_quads = (filters.row_start[number + 1] - filters.row_start[number]) / 4;
        for (int i = threadIdx.x; i < n_quads; i += blockDim.x)
            memory[i] = ((const uint4 *) rows)[i];
        __syncthreads();
        const Tile tile = tile_of(filters, number, (const unsigned *) memory);
        probe(filters, tile, is_open);
        __syncthreads();
        pass_over<true>(filters, events, tile, from, to, is_open, queue);
    } else {
        const Tile tile = tile_of(filters, number, rows);
        pass_over<false>(filters, events, tile, from, to, is_open, queue);
    }
    if (queue.n_queued)
        check_queued(filters, events, queue);
    if (lane_of() == 0 && queue.n_compared)
        atomicAdd(events.counters + N_COMPARED, queue.n_compared);
}

// ---- Keys ----

// Where the keys of each event begin, and the keys. Pairs are those of keys, sorted, and none is there
// twice.
template <class Key>
__device__ __forceinline__ void gather(
    const Word *__restrict__ pairs, long long n_pairs, long long n_events,
    const Key *__restrict__ keys, long long *__restrict__ start, Key *__restrict__ found)
{
    const long long i = (long long) blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_pairs)
        return;
    found[i] = keys[(unsigned) pairs[i]];
    const long long event = pairs[i] >> 32, before = i ? (long long) (pairs[i - 1] >> 32) : -1;
    for (long long other = before + 1; other <= event; ++other)
        start[other] = i;
    if (i == n_pairs - 1)
        for (long long other = event + 1; other <= n_events; ++other)
            start[other] = n_pairs;
}

extern "C" __global__ void gather_32(
    const Word *pairs, long long n_pairs, long long n_events, const int *keys, long long *start,
    int *found)
{
    gather(pairs, n_pairs, n_events, keys, start, found);
}

extern "C" __global__ void gather_64(
    const Word *pairs, long long n_pairs, long long n_events, const long long *keys,
    long long *start, long long *found)
{
    gather(pairs, n_pairs, n_events, keys, start, found);
}
