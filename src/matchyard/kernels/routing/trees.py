"""Trees as arrays: parents, depths, sizes of subtrees, and labels that route on them."""

import numpy as np
from numba import njit

from matchyard.kernels.search import first_at_least


@njit(nogil=True, cache=True, forceinline=True)
def _is_on_path(position, node, neighbours, links, weights, distance):
    """True if a shortest path to the root leads through this neighbour.
    The neighbour must be strictly nearer: otherwise a weight lost in rounding could make a cycle."""
    near = distance[neighbours[position]]
    return near < distance[node] and near + weights[links[position]] == distance[node]


@njit(nogil=True, cache=True)
def parents_of(start, neighbours, links, weights, distance, draws):
    """For each node, the neighbour on a shortest path to the root; -1 for the root.

    Among several neighbours, the least number wins, or the random number of the node in `draws`, if not
    empty, chooses.
    """
    parents = np.full(len(start) - 1, -1, np.int32)
    for node in range(len(parents)):
        n_near = 0
        for position in range(start[node], start[node + 1]):
            if _is_on_path(position, node, neighbours, links, weights, distance):
                n_near += 1
                if n_near == 1:
                    parents[node] = neighbours[position]
        if n_near < 2 or len(draws) == 0:
            continue
        left = np.int64(draws[node] * n_near)
        for position in range(start[node], start[node + 1]):
            if _is_on_path(position, node, neighbours, links, weights, distance):
                if left == 0:
                    parents[node] = neighbours[position]
                    break
                left -= 1
    return parents


@njit(nogil=True, cache=True)
def depths_of(parents, order):
    """The number of links from each node to the root."""
    depths = np.zeros(len(parents), np.int32)
    for node in order:
        if parents[node] >= 0:
            depths[node] = depths[parents[node]] + 1
    return depths


@njit(nogil=True, cache=True)
def sizes_of(parents, order):
    """The size of each node's subtree, with the node itself."""
    sizes = np.ones(len(parents), np.int32)
    for position in range(len(order) - 1, 0, -1):
        sizes[parents[order[position]]] += sizes[order[position]]
    return sizes


@njit(nogil=True, cache=True)
def children_of(parents):
    """The offsets of each node's children in a list of all nodes by parent: [n_nodes + 1]."""
    start = np.zeros(len(parents) + 1, np.int64)
    for parent in parents:
        if parent >= 0:
            start[parent + 1] += 1
    for node in range(len(parents)):
        start[node + 1] += start[node]
    return start


@njit(nogil=True, cache=True)
def interface_to(start, neighbours, node, other):
    """The interface of a node to a neighbour."""
    return first_at_least(neighbours, start[node], start[node + 1], other) - start[node] + 1


# The columns of a router's state for a tree. Most packets go up and need only `ups`, whose four numbers per
# router fit into the processor's cache for all routers.
NUMBER, LAST = 0, 1  # its own number, and the last number in its subtree
UP = 2  # the interface to its parent; 0 for the root
HEAVY = 3  # the number of its heavy child; LAST + 1 if it has none
# The columns of `downs`, for packets that go down:
DOWN = 0  # the interface to its heavy child
SHIFT = 1  # the number of rank bits on the path from the root
PORTS, N_LIGHT = 2, 3  # the offset of the interfaces to its light children in `ports`; their number
_BLOCK = 2048  # packets per block, which fits into the first-level cache


@njit(nogil=True, cache=True)
def labels_of(start, neighbours, parents, order, sizes, child_start, children):
    """The labels of all nodes and the state of routers: (numbers, ranks, ends, ups, downs, ports).

    Children are listed by parent, the largest subtree first. The subtree of a child of rank r has at most
    1 / (r + 1) of the nodes below its parent, so the ranks of 2^31 nodes need about 40 bits at most.
    """
    n_nodes = len(parents)
    numbers = np.zeros(n_nodes, np.int64)
    ranks = np.zeros(n_nodes, np.int64)
    ends = np.zeros(n_nodes, np.int64)
    ups = np.zeros((n_nodes, 4), np.int32)
    downs = np.zeros((n_nodes, 4), np.int32)
    ports = np.zeros(n_nodes, np.int32)
    n_ports = 0
    for node in order:
        up, down = ups[node], downs[node]
        first, stop = child_start[node], child_start[node + 1]
        up[NUMBER] = numbers[node]
        up[LAST] = numbers[node] + sizes[node] - 1
        down[PORTS] = n_ports
        if parents[node] >= 0:
            up[UP] = interface_to(start, neighbours, node, parents[node])
        number = numbers[node] + 1
        for position in range(first + 1, stop):
            child, rank = children[position], position - first
            numbers[child] = number
            number += sizes[child]
            shift = down[SHIFT]
            while rank >> (shift - down[SHIFT]):
                shift += 1
            ranks[child] = ranks[node] | rank << down[SHIFT]
            ends[child] = ends[node] | 1 << (shift - 1)
            downs[child, SHIFT] = shift
            ports[n_ports] = interface_to(start, neighbours, node, child)
            n_ports += 1
        down[N_LIGHT] = n_ports - down[PORTS]
        up[HEAVY] = number
        if stop > first:
            heavy = children[first]
            down[DOWN] = interface_to(start, neighbours, node, heavy)
            numbers[heavy], ranks[heavy], ends[heavy] = number, ranks[node], ends[node]
            downs[heavy, SHIFT] = down[SHIFT]
    return numbers, ranks, ends, ups, downs, ports[:n_ports]


@njit(nogil=True, cache=True, forceinline=True)
def _rank(label, width, shift):
    """The rank of the light child to which a router forwards a packet; 0 at its destination."""
    mask = (np.uint64(1) << width) - np.uint64(1)
    end = (label & mask) >> shift
    return (label >> width & mask) >> shift & (end ^ (end - np.uint64(1)))


@njit(nogil=True, cache=True, forceinline=True)
def _is_odd(label, destination, n_nodes, above, tag):
    """True if a label is not of this tree. The tree's number is above the route's bits, if these leave room."""
    is_other = above < np.uint64(64) and label >> (above & np.uint64(63)) != tag
    return is_other | (destination >= n_nodes)


@njit(nogil=True, cache=True)
def _places_at_one(up, down, labels, n_rank_bits, above, tag, n_nodes, out):
    """Write the direction of each packet: 0 up, 1 heavy child, 2 here, 3 and more light children by rank."""
    width, above, tag = np.uint64(n_rank_bits), np.uint64(above), np.uint64(tag)
    number_mask = (np.uint64(1) << (above - width - width)) - np.uint64(1)
    number, last, heavy = np.uint64(up[NUMBER]), np.uint64(up[LAST]), np.uint64(up[HEAVY])
    shift, n_light, n_nodes = np.uint64(down[SHIFT]), np.uint64(down[N_LIGHT]), np.uint64(n_nodes)
    is_odd = False
    for packet in range(len(labels)):
        label = labels[packet]
        destination = label >> (width + width) & number_mask
        is_odd |= _is_odd(label, destination, n_nodes, above, tag)
        light = np.uint64(2) + min(_rank(label, width, shift), n_light)
        # Unsigned differences wrap around below 0, so that one comparison tests both bounds.
        is_heavy = destination - heavy < last - heavy + np.uint64(1)
        is_light = destination - number < heavy - number
        out[packet] = light if is_light else np.uint64(is_heavy)
    return is_odd


@njit(nogil=True, cache=True)
def hop_at_one(up, down, ports, labels, n_rank_bits, above, tag, n_nodes, out):
    """Write the interface of each packet at one router; True if a label is not of this tree."""
    interfaces = np.zeros(3 + down[N_LIGHT], np.int32)
    interfaces[0], interfaces[1] = up[UP], down[DOWN]
    interfaces[3:] = ports[down[PORTS] : down[PORTS] + down[N_LIGHT]]
    is_odd = False
    for first in range(0, len(labels), _BLOCK):
        # Two loops: in one loop, the compiler would have to assume that writes to `out` change
        # `interfaces`, and could not vectorise it.
        some, part = labels[first : first + _BLOCK], out[first : first + _BLOCK]
        is_odd |= _places_at_one(up, down, some, n_rank_bits, above, tag, n_nodes, part)
        for packet in range(len(part)):
            part[packet] = interfaces[np.uint32(part[packet])]
    return is_odd


@njit(nogil=True, cache=True)
def hop_at_each(ups, downs, ports, nodes, labels, n_rank_bits, above, tag, out):
    """Write the interface of each packet at its own router.
    Returns (True if a label is not of this tree, True if a node does not exist)."""
    width, above, tag = np.uint64(n_rank_bits), np.uint64(above), np.uint64(tag)
    number_mask = (np.uint64(1) << (above - width - width)) - np.uint64(1)
    n_nodes, is_odd, is_lost = np.uint64(len(ups)), False, False
    for packet in range(len(labels)):
        label, node = labels[packet], np.uint64(nodes[packet])
        if node >= n_nodes:  # also true for negative numbers, which wrap around
            is_lost = True
            continue
        up, destination = ups[node], label >> (width + width) & number_mask
        is_odd |= _is_odd(label, destination, n_nodes, above, tag)
        number = np.int64(destination)
        if number < up[NUMBER] or number > up[LAST]:
            out[packet] = up[UP]
            continue
        down = downs[node]
        if number >= up[HEAVY]:
            out[packet] = down[DOWN]
        else:
            rank = min(np.int64(_rank(label, width, np.uint64(down[SHIFT]))), down[N_LIGHT])
            out[packet] = ports[down[PORTS] + rank - 1] if rank > 0 else 0
    return is_odd, is_lost


@njit(nogil=True, cache=True)
def cuts_of(parents, depths, order, ends):
    """For each node, the number of network links between its subtree and the other nodes.

    A link adds 1 at both of its ends and subtracts 2 at their lowest common ancestor. In the sum over a
    subtree, links within the subtree cancel out.
    """
    cuts = np.zeros(len(parents), np.int64)
    for link in range(len(ends)):
        here, there = ends[link]
        cuts[here] += 1
        cuts[there] += 1
        while here != there:
            if depths[here] >= depths[there]:
                here = parents[here]
            else:
                there = parents[there]
        cuts[here] -= 2
    for position in range(len(order) - 1, 0, -1):
        cuts[parents[order[position]]] += cuts[order[position]]
    return cuts
