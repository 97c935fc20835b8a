// stacks: a lane per node of a twig; the paper has a thread per node [Twigs §4.2].
//
// The columns of a node in the push and in the pop stack are a word each, with a bit per level of the
// document, so that both stay in registers; the paper has a byte per level in shared memory
// [Twigs §4.5]. A tree is within a warp. Its nodes exchange values by shuffles and ballots, without
// barriers and atomics, and the children of a node are a mask of lanes [Twigs §4.6]. The last lane of
// a warp is the document, for all its trees. A thread has a node in each of SETS sets of 32, so that
// the work per signal is done once for all of them.
//
//     match       a block per document and WARPS * SETS sets, with signals staged in shared memory
//     match_wide  a block per tree that does not fit into a set, for one document after another
//     count       how many rows each document satisfies
//     write       these rows, in ascending order
//
// The launcher defines LEVELS, the bits of a word, which limit the depth of a document plus one;
// WARPS and SETS; STAGED, the signals that are staged at a time; DESCENDANT and NEGATED, bits of a
// personality above those of its prefix; ANY and CLOSE, as in `layout`.

#include "warp.cuh"

#if LEVELS == 32
typedef unsigned levels_t;
#else
typedef word_t levels_t;
#endif

#define THREADS (WARPS * LANES)
#define DOCUMENT_OPEN ((levels_t)1)  // the lowest level

struct Node {
    int symbol;
    int named;  // all bits, or none if the symbol is ANY
    int prefix;  // the lane of its parent
    unsigned children;  // their lanes
    levels_t descendant, negated;  // all bits or none
    levels_t matched;  // push stack; both stacks are 0 at levels that are not open
    levels_t reported;  // pop stack
};

__device__ __forceinline__ levels_t all_if(bool is_so) { return is_so ? ~(levels_t)0 : 0; }

// Keep a value in a register; the compiler would compute it again for every signal.
__device__ __forceinline__ int kept(int value) {
    asm volatile("" : "+r"(value));
    return value;
}

__device__ __forceinline__ levels_t kept_mask(bool is_so) {
    return (levels_t)(offset_t)kept(is_so ? -1 : 0);
}

// An element opens above the level `top` [Twigs Figure 5]. A node by `//` considers all open levels.
__device__ __forceinline__ void push(Node& node, int symbol, levels_t top) {
    levels_t prefix = __shfl_sync(ALL_LANES, node.matched, node.prefix);
    bool has_symbol = ((symbol ^ node.symbol) & node.named) == 0;
    bool is_below = (prefix & (top | node.descendant)) != 0;
    node.matched |= (has_symbol & is_below) ? top << 1 : 0;
}

// The lanes of nodes that were reported to the level, and of negated nodes that were not.
__device__ __forceinline__ unsigned as_asked(const Node& node, levels_t top) {
    return __ballot_sync(ALL_LANES, ((node.reported ^ node.negated) & top) != 0);
}

// The element of the level closes: nodes that hold there are reported to the level below, and reports
// of descendants are passed on [Twigs Figure 6].
__device__ __forceinline__ void pop(Node& node, levels_t top) {
    unsigned missing = node.children & ~as_asked(node, top);
    bool holds = ((node.matched & top) != 0) & (missing == 0);
    bool is_carried = (node.reported & node.descendant & top) != 0;
    node.matched &= ~top;
    node.reported = (node.reported & ~top) | ((holds | is_carried) ? top >> 1 : 0);
}

// The element of the level satisfies a value test; a `*` stands for no test.
__device__ __forceinline__ void satisfy(Node& node, int symbol, levels_t top) {
    levels_t prefix = __shfl_sync(ALL_LANES, node.matched, node.prefix);
    bool is_below = (prefix & (top | node.descendant)) != 0;
    node.reported |= (symbol == node.symbol) & is_below ? top : 0;
}

// Process one signal for all nodes of a warp; returns the level after it.
__device__ __forceinline__ levels_t step(Node (&nodes)[SETS], int signal, levels_t top) {
    if (signal >= 0) {
        #pragma unroll
        for (int i = 0; i < SETS; i++) push(nodes[i], signal, top);
        return top << 1;
    }
    if (signal == (CLOSE)) {
        #pragma unroll
        for (int i = 0; i < SETS; i++) pop(nodes[i], top);
        return top >> 1;
    }
    #pragma unroll
    for (int i = 0; i < SETS; i++) satisfy(nodes[i], -2 - signal, top);
    return top;
}

// The order does not matter: several trees of a row set the same bit.
__device__ __forceinline__ void add_hit(unsigned* hits, offset_t n_words, int document, int row) {
    atomicOr(hits + document * n_words + (row >> 5), 1u << (row & 31));
}

extern "C" __global__ void __launch_bounds__(THREADS) match(
    const int* __restrict__ symbols, const unsigned* __restrict__ personalities,
    const unsigned* __restrict__ children, const unsigned* __restrict__ tops,
    const int* __restrict__ rows, int n_groups, const int* __restrict__ documents,
    int first_document, const offset_t* __restrict__ signal_start, const int* __restrict__ signals,
    unsigned* __restrict__ hits, offset_t n_words
) {
    __shared__ int staged[STAGED + 1];
    int document = documents[blockIdx.x / n_groups];
    offset_t warp = (offset_t)(blockIdx.x % n_groups) * WARPS + threadIdx.x / LANES;
    offset_t column = warp * SETS * LANES + lane_of();
    Node nodes[SETS];
    #pragma unroll
    for (int i = 0; i < SETS; i++) {
        unsigned personality = personalities[column + i * LANES];
        int symbol = symbols[column + i * LANES];
        nodes[i] = {
            symbol, kept(symbol == (ANY) ? 0 : -1), kept(personality % LANES),
            children[column + i * LANES],
            kept_mask(personality & DESCENDANT), kept_mask(personality & NEGATED),
            lane_of() == LANES - 1 ? DOCUMENT_OPEN : 0, 0
        };
    }
    levels_t top = DOCUMENT_OPEN;
    offset_t end = signal_start[document + 1];
    for (offset_t first = signal_start[document]; first < end; first += STAGED) {
        int n_staged = end - first < STAGED ? (int)(end - first) : STAGED;
        __syncthreads();  // all threads have read the signals before
        for (int i = threadIdx.x; i < n_staged; i += THREADS) staged[i] = signals[first + i];
        __syncthreads();
        int next = staged[0];
        for (int i = 0; i < n_staged; i++) {
            int signal = next;
            next = staged[i + 1];  // early, to hide the latency; the last value is not used
            top = step(nodes, signal, top);
        }
    }
    #pragma unroll
    for (int i = 0; i < SETS; i++) {
        unsigned missing = tops[column + i * LANES] & ~as_asked(nodes[i], DOCUMENT_OPEN);
        int row = rows[column + i * LANES];  // only one node of a tree has it
        if (row >= 0 && missing == 0) add_hit(hits, n_words, document - first_document, row);
    }
}

// A tree whose nodes are spread over the threads of a block, with the stacks in global memory.
struct Wide {
    const int* __restrict__ symbols;
    const int* __restrict__ prefixes;  // nodes of the tree, -1 for the document
    const unsigned* __restrict__ personalities;
    int n_nodes;
    levels_t* matched;
    levels_t* reported;
    int* is_refuted;  // a child of the node is not as it must be

    __device__ __forceinline__ levels_t descendant(int node) const {
        return all_if(personalities[node] & DESCENDANT);
    }

    // True if the prefix matched at the level, or for `//` at any level up to it. Levels above `top`
    // are masked out, because other threads may have written them already.
    __device__ __forceinline__ bool is_below(int node, levels_t top) const {
        levels_t prefix = prefixes[node] < 0 ? DOCUMENT_OPEN : matched[prefixes[node]];
        return (prefix & (top | ((top - 1) & descendant(node)))) != 0;
    }

    __device__ __forceinline__ bool is_as_asked(int node, levels_t top) const {
        return ((reported[node] ^ all_if(personalities[node] & NEGATED)) & top) != 0;
    }
};

__device__ void wide_push(const Wide& tree, int symbol, levels_t top) {
    for (int node = threadIdx.x; node < tree.n_nodes; node += THREADS) {
        bool has_symbol = tree.symbols[node] == symbol || tree.symbols[node] == (ANY);
        if (has_symbol && tree.is_below(node, top)) tree.matched[node] |= top << 1;
    }
}

__device__ void wide_pop(const Wide& tree, levels_t top) {
    for (int node = threadIdx.x; node < tree.n_nodes; node += THREADS)
        if (tree.prefixes[node] >= 0 && !tree.is_as_asked(node, top))
            tree.is_refuted[tree.prefixes[node]] = 1;  // all threads write the same value
    __syncthreads();
    for (int node = threadIdx.x; node < tree.n_nodes; node += THREADS) {
        levels_t matched = tree.matched[node], reported = tree.reported[node];
        bool holds = (matched & top) && !tree.is_refuted[node];
        bool is_carried = (reported & top & tree.descendant(node)) != 0;
        tree.is_refuted[node] = 0;
        tree.matched[node] = matched & ~top;
        tree.reported[node] = (reported & ~top) | (holds || is_carried ? top >> 1 : 0);
    }
}

__device__ void wide_satisfy(const Wide& tree, int symbol, levels_t top) {
    for (int node = threadIdx.x; node < tree.n_nodes; node += THREADS)
        if (tree.symbols[node] == symbol && tree.is_below(node, top)) tree.reported[node] |= top;
}

// Process the signals of a document; true if it has the tree.
__device__ bool wide_holds(const Wide& tree, const int* signals, offset_t n_signals) {
    for (int node = threadIdx.x; node < tree.n_nodes; node += THREADS) {
        tree.matched[node] = tree.reported[node] = 0;
        tree.is_refuted[node] = 0;
    }
    __syncthreads();
    levels_t top = DOCUMENT_OPEN;
    for (offset_t i = 0; i < n_signals; i++) {
        int signal = signals[i];
        if (signal >= 0) {
            wide_push(tree, signal, top);
            top <<= 1;
        } else if (signal == (CLOSE)) {
            wide_pop(tree, top);
            top >>= 1;
        } else {
            wide_satisfy(tree, -2 - signal, top);
        }
        __syncthreads();
    }
    bool is_missing = false;
    for (int node = threadIdx.x; node < tree.n_nodes; node += THREADS)
        is_missing |= tree.prefixes[node] < 0 && !tree.is_as_asked(node, DOCUMENT_OPEN);
    return !__syncthreads_or(is_missing);
}

extern "C" __global__ void __launch_bounds__(THREADS) match_wide(
    const int* __restrict__ symbols, const int* __restrict__ prefixes,
    const unsigned* __restrict__ personalities, const int* __restrict__ tree_start,
    const int* __restrict__ rows, int n_trees, const int* __restrict__ documents, int n_documents,
    int first_document, const offset_t* __restrict__ signal_start, const int* __restrict__ signals,
    levels_t* matched, levels_t* reported, int* is_refuted,
    unsigned* __restrict__ hits, offset_t n_words
) {
    int number = blockIdx.x % n_trees, slot = blockIdx.x / n_trees, n_slots = gridDim.x / n_trees;
    int start = tree_start[number], n_nodes = tree_start[number + 1] - start;
    offset_t offset = (offset_t)slot * tree_start[n_trees] + start;
    Wide tree = {
        symbols + start, prefixes + start, personalities + start, n_nodes,
        matched + offset, reported + offset, is_refuted + offset
    };
    for (int i = slot; i < n_documents; i += n_slots) {
        int document = documents[i];
        offset_t first = signal_start[document];
        bool holds = wide_holds(tree, signals + first, signal_start[document + 1] - first);
        if (holds && threadIdx.x == 0)
            add_hit(hits, n_words, document - first_document, rows[number]);
    }
}

// The rows of a word of a document's hits; `always` has the rows that match every document.
__device__ __forceinline__ unsigned rows_at(
    const unsigned* hits, const unsigned* always, offset_t n_words, int document, offset_t word
) {
    return word < n_words ? hits[document * n_words + word] | always[word] : 0;
}

extern "C" __global__ void __launch_bounds__(THREADS) count(
    const unsigned* __restrict__ hits, const unsigned* __restrict__ always, offset_t n_words,
    int n_documents, offset_t* __restrict__ counts
) {
    int document = blockIdx.x * WARPS + threadIdx.x / LANES;
    if (document >= n_documents) return;
    offset_t n_hits = 0;
    for (offset_t word = lane_of(); word < n_words; word += LANES)
        n_hits += __popc(rows_at(hits, always, n_words, document, word));
    n_hits = sum_of_all(n_hits);
    if (lane_of() == 0) counts[document] = n_hits;
}

extern "C" __global__ void __launch_bounds__(THREADS) write(
    const unsigned* __restrict__ hits, const unsigned* __restrict__ always, offset_t n_words,
    int n_documents, const offset_t* __restrict__ hit_start, int* __restrict__ rows
) {
    int document = blockIdx.x * WARPS + threadIdx.x / LANES;
    if (document >= n_documents) return;
    int* out = rows + hit_start[document];
    for (offset_t first = 0; first < n_words; first += LANES) {
        unsigned word = rows_at(hits, always, n_words, document, first + lane_of());
        int up_to = sum_up_to(__popc(word));
        int* next = out + up_to - __popc(word);
        for (; word; word &= word - 1) *next++ = (int)(first + lane_of()) * 32 + __ffs(word) - 1;
        out += __shfl_sync(ALL_LANES, up_to, LANES - 1);
    }
}
