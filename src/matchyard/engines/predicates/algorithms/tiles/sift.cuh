// AND the rows of a tile for events, and queue the remaining filters per warp.

#include "check.cuh"

#define STEP 4  // rows that are ANDed before a warp asks whether anything is left

// Pairs that passed the rows of a tile, to be checked 32 at a time.
struct Queue {
    word_t* pairs;  // room for 64
    int n_queued;
    word_t n_compared;
};

__device__ __forceinline__ void check_queued(
    const Filters& filters, const Events& events, Queue& queue
) {
    __syncwarp();
    word_t pair = queue.pairs[lane_of()], next = queue.pairs[LANES + lane_of()];
    check(filters, events, lane_of() < queue.n_queued, pair);
    __syncwarp();
    queue.pairs[lane_of()] = next;
    queue.n_compared += min(queue.n_queued, LANES);
    queue.n_queued = max(queue.n_queued - LANES, 0);
    __syncwarp();
}

// Queue the filters whose bits are left, the first of this lane's being `first`.
__device__ __forceinline__ void put(
    const Filters& filters, const Events& events, Queue& queue, int event, int first, unsigned alive
) {
    while (true) {
        unsigned who = __ballot_sync(ALL_LANES, alive != 0);
        if (!who) return;
        if (alive) {
            int filter = first + __ffs(alive) - 1;
            int at = queue.n_queued + __popc(who & lanes_below());
            queue.pairs[at] = (word_t)event << 32 | filter;
            alive &= alive - 1;
        }
        queue.n_queued += __popc(who);
        if (queue.n_queued >= LANES) check_queued(filters, events, queue);
    }
}

// A tile as a warp sees it; each lane has 32 of the filters, and one of the slots that have rows.
struct Tile {
    const unsigned* rows;
    int n_listed;
    int slot;  // of this lane; behind the last one it is repeated
    int row;  // where its rows begin
    int first;  // filter of this lane
    unsigned inside;  // which of its 32 there are
};

__device__ __forceinline__ Tile tile_of(const Filters& filters, int number, const unsigned* rows) {
    Tile tile = {rows, 0, 0, 0, 0, 0};
    int listed = filters.list_start[number];
    tile.n_listed = filters.list_start[number + 1] - listed;
    if (tile.n_listed) {
        int own = listed + min(lane_of(), tile.n_listed - 1);
        tile.slot = filters.list_slot[own];
        tile.row = filters.list_at[own] / LANES;
    }
    tile.first = filters.tile_first[number] + LANES * lane_of();
    int n_inside = filters.tile_last[number] - tile.first;
    tile.inside = n_inside >= LANES ? ALL_LANES : n_inside > 0 ? (1u << n_inside) - 1 : 0;
    return tile;
}

// The cells of the most selective slots that leave any filter; a warp takes a row.
__device__ __forceinline__ void probe(
    const Filters& filters, const Tile& tile, unsigned char (*is_open)[MOST_ROWS]
) {
    for (int i = 0; i < min(PROBES, tile.n_listed); i++) {
        int slot = __shfl_sync(ALL_LANES, tile.slot, i);
        int first = __shfl_sync(ALL_LANES, tile.row, i);
        int n_rows = filters.bound_start[slot + 1] - filters.bound_start[slot] + 3;
        for (int row = threadIdx.x / LANES; row < n_rows; row += WARPS) {
            unsigned bits = tile.rows[(first + row) * LANES + lane_of()] & tile.inside;
            bool is_any = __any_sync(ALL_LANES, bits != 0);
            if (lane_of() == 0) is_open[i][row] = is_any;
        }
    }
}

// The filters of a tile that an event may match, 32 per lane. `rows` has the event's row of a slot in
// the lower half and that of the next slot in the upper one, in every other lane.
__device__ __forceinline__ unsigned filters_alive(const Tile& tile, unsigned rows) {
    unsigned alive = tile.inside;
    const unsigned* own = tile.rows + lane_of();
    for (int step = 0; step < tile.n_listed; step += STEP) {
        #pragma unroll
        for (int j = 0; j < STEP; j += 2) {
            unsigned two = __shfl_sync(ALL_LANES, rows, step + j);
            alive &= own[(two & 0xffff) * LANES] & own[(two >> 16) * LANES];
        }
        if (!__any_sync(ALL_LANES, alive != 0)) break;
    }
    return alive;
}

// Let the events of the visits `from` to `to` pass over a tile, 32 per warp. First each lane probes
// one of them; those that may match something are then taken one by one, and the cells of the next
// are loaded meanwhile.
template <bool ARE_PROBED>
__device__ __forceinline__ void pass_over(
    const Filters& filters, const Events& events, const Tile& tile, offset_t from, offset_t to,
    const unsigned char (*is_open)[MOST_ROWS], Queue& queue
) {
    const int* visits = events.visits;
    const unsigned char* cells = events.cells;
    offset_t n_bit_slots = filters.n_bit_slots;
    int n_probes = ARE_PROBED ? min(PROBES, tile.n_listed) : 0;
    auto rows_of = [&](int event) {
        int row = tile.n_listed ? tile.row + cells[event * n_bit_slots + tile.slot] : 0;
        return (unsigned)row | (unsigned)__shfl_down_sync(ALL_LANES, row, 1) << 16;
    };
    for (offset_t i = from + threadIdx.x / LANES * LANES; i < to; i += WARPS * LANES) {
        int own = visits[min(i + lane_of(), to - 1)];
        bool is_left = i + lane_of() < to;
        for (int j = 0; j < n_probes; j++)
            is_left &= is_open[j][cells[own * n_bit_slots + __shfl_sync(ALL_LANES, tile.slot, j)]];
        unsigned left = __ballot_sync(ALL_LANES, is_left);
        if (!left) continue;
        int event = __shfl_sync(ALL_LANES, own, __ffs(left) - 1);
        unsigned rows = rows_of(event);
        while (left) {
            left &= left - 1;
            int next = left ? __shfl_sync(ALL_LANES, own, __ffs(left) - 1) : event;
            unsigned next_rows = rows_of(next);
            put(filters, events, queue, event, tile.first, filters_alive(tile, rows));
            event = next;
            rows = next_rows;
        }
    }
}
