"""Tables of routers: built at once, by updates, in parts, and as the definition has them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import matchyard as my
from matchyard.errors import UsageError
from matchyard.routing import (
    Registrations,
    Rib,
    Update,
    Vocabulary,
    from_links,
    generate,
    grow,
    links_at,
    merge,
    place,
    register_workload,
    sizes_table,
    table_by_parts,
)
from tests.routing.connected_ribs import ConnectedRibs, content
from tests.routing.plain_rib import minimal

FILTERS = st.frozensets(st.sampled_from("abcde"), max_size=4)


def plain_table(topology, trees, registrations, at) -> list:
    """What the definition says: nodes beyond each interface, found by walking the tree."""
    found = []
    near = topology.neighbours[topology.start[at] : topology.start[at + 1]].tolist()
    for number, tree in enumerate(trees):
        beyond: dict[int, list] = {}
        for one, node in registrations:
            interface = 0
            if node != at:
                up, last = node, node
                while up not in (at, -1):
                    last, up = up, int(tree.parent[up])
                interface = near.index(last if up == at else int(tree.parent[at])) + 1
            beyond.setdefault(interface, []).append(one)
        for interface, filters in beyond.items():
            kept = minimal(filters) if interface else Counter(filters).elements()
            found += [(sorted(one), number << 20 | interface) for one in kept]
    return sorted(found)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(FILTERS, st.integers(0, 7)), max_size=25), st.integers(0, 7), st.data())
def test_tables_are_those_of_the_definition(registrations, at, data) -> None:
    network = generate("barabasi-albert", 8, seed=data.draw(st.integers(0, 3)))
    trees = grow(network, "L", 3, seed=data.draw(st.integers(0, 3)))
    filters, nodes = [one for one, _ in registrations], [node for _, node in registrations]
    table = Registrations(filters, np.array(nodes, int)).table(network, trees, at)
    assert content(table) == plain_table(network, trees, registrations, at)
    middle = len(filters) // 2
    vocabulary = Vocabulary()
    parts = [
        Registrations(filters[some], np.array(nodes[some], int), vocabulary).table(
            network, trees, at
        )
        for some in (slice(middle), slice(middle, None))
    ]
    assert content(merge(parts)) == content(table)
    rib = table.rib(links_at(network, trees, at))
    assert content(rib) == content(table)
    for one, tree in enumerate(trees):  # and it finds them
        for interface in links_at(network, [tree], at)[0]:
            assert rib.covers(rib.wanted(one, interface), one, interface).all()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(FILTERS, st.integers(0, 5)), max_size=12), st.integers(0, 5))
def test_equal_trees_have_equal_entries(registrations: list, at: int) -> None:
    ring = from_links([(node, (node + 1) % 6) for node in range(6)])
    trees = grow(ring, "LC", 8)  # 4 of them are different
    filters, nodes = [one for one, _ in registrations], [node for _, node in registrations]
    table = Registrations(filters, np.array(nodes, int)).table(ring, trees, at)
    assert (content(table), table.n_trees) == (plain_table(ring, trees, registrations, at), 8)
    falls = np.flatnonzero(np.diff(table.entries) < 0) + 1
    assert set(falls) <= set(table.start)  # entries rise within a filter


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_updates_through_a_network_lead_to_the_same_tables(data: st.DataObject) -> None:
    network = generate("barabasi-albert", 9, seed=data.draw(st.integers(0, 5)))
    trees = grow(network, data.draw(st.sampled_from(["L", "LC"])), 2)
    ribs = ConnectedRibs(network, trees, shared=data.draw(st.booleans()))
    registered: Counter = Counter()
    for _ in range(data.draw(st.integers(1, 12))):
        node = data.draw(st.integers(0, 8))
        came = data.draw(st.lists(FILTERS, max_size=3))
        there = sorted({one for one, at in +registered if at == node}, key=sorted)
        gone = data.draw(st.lists(st.sampled_from(there), unique=True)) if there else []
        ribs.apply(node, Update(came, gone))
        registered.subtract((one, node) for one in gone)
        registered.update((one, node) for one in came)
    assert_rebuilt(ribs, list(registered.elements()))


def assert_rebuilt(ribs: ConnectedRibs, registered: list) -> None:
    nodes = np.array([node for _, node in registered], int)
    everything = Registrations([one for one, _ in registered], nodes)
    for node, rib in enumerate(ribs.ribs):
        assert content(rib) == content(everything.table(ribs.topology, ribs.trees, node))


def churn(n_nodes: int, n_changes: int, batch: int) -> None:
    """Registrations and withdrawals in batches through a network, then all tables built anew."""
    network = generate("barabasi-albert", n_nodes, seed=2)
    ribs = ConnectedRibs(network, grow(network, "L", 1))
    rows, _ = my.workload("tags", "icn", n_changes, 1).subscriptions(0, n_changes)
    rows = [frozenset(row[:2]) for row in rows.to_pylist()]  # few tags, so that many subsume others
    random = np.random.default_rng(3)
    registered: dict[int, list] = {node: [] for node in range(n_nodes)}
    done = 0
    while done < n_changes:
        node = int(random.integers(n_nodes))
        mine = registered[node]
        n_gone = min(len(mine), int(random.integers(batch // 2)))
        random.shuffle(mine)
        gone, registered[node] = mine[:n_gone], mine[n_gone:]
        came = [rows[int(one)] for one in random.integers(len(rows), size=batch - n_gone)]
        registered[node] += came
        ribs.apply(node, Update(came, gone))
        done += batch
    assert_rebuilt(ribs, [(one, node) for node, mine in registered.items() for one in mine])


def test_churn_leaves_what_building_anew_gives() -> None:
    churn(20, 4_000, 50)


@pytest.mark.slow
def test_much_churn_through_200_nodes_leaves_what_building_anew_gives() -> None:
    churn(200, 100_000, 50)


def test_a_workload_in_parts_gives_the_same_table() -> None:
    network = generate("barabasi-albert", 60)
    trees = grow(network, "LC", 2)
    workload = my.workload("tags", "icn", 6_000)
    whole = register_workload(workload, network).table(network, trees, 5)
    done: list[int] = []
    parts = table_by_parts(workload, network, trees, 5, part=1_100, progress=done.append)
    assert sum(done) == 6_000
    assert (parts.n_filters, len(parts.entries)) == (whole.n_filters, len(whole.entries))
    assert np.array_equal(np.sort(parts.entries), np.sort(whole.entries))


def test_sizes_are_those_of_all_choices_of_trees() -> None:
    network = generate("barabasi-albert", 40)
    trees = grow(network, "LC", 3)
    registered = register_workload(my.workload("tags", "icn", 1_200), network)
    sizes = registered.table(network, trees, 3).sizes()
    alone = [registered.table(network, [tree], 3) for tree in trees]
    assert sizes[0].filters == spread([table.n_filters for table in alone])
    assert sizes[0].entries == spread([len(table.entries) for table in alone])
    pairs = [[trees[i], trees[j]] for i, j in ((0, 1), (0, 2), (1, 2))]
    assert sizes[1].filters == spread(
        [registered.table(network, two, 3).n_filters for two in pairs]
    )
    assert sizes[2].filters[2] == registered.table(network, trees, 3).n_filters
    table = sizes_table(network, trees, registered, [3, 4])
    assert table.num_rows == 6
    assert table["node"].to_pylist()[0] == "3"


def spread(values: list[int]) -> tuple[int, float, int]:
    return min(values), sum(values) / len(values), max(values)


def test_bad_registrations_are_refused() -> None:
    network = generate("grid", 9)
    trees = grow(network, "L", 1)
    with pytest.raises(UsageError, match="2 nodes for 1 descriptors; expected a node for each"):
        Registrations(["a"], [1, 2])
    with pytest.raises(UsageError, match="expected whole numbers"):
        Registrations(["a"], ["oslo"])
    with pytest.raises(UsageError, match="node -1; expected"):
        Registrations(["a"], [-1])
    with pytest.raises(UsageError, match="node 9 of 9"):
        Registrations(["a"], [9]).table(network, trees, 0)
    with pytest.raises(UsageError, match="no node 12"):
        Registrations(["a"], [1]).table(network, trees, 12)
    with pytest.raises(UsageError, match="another network"):
        Registrations(["a"], [1]).table(from_links([(0, 1), (1, 2)]), trees, 0)
    with pytest.raises(UsageError, match="no placement 'random'; expected one of zipf"):
        place([1], network, "random")
    with pytest.raises(UsageError, match="seed -1"):
        place([1], network, seed=-1)
    with pytest.raises(UsageError, match="at least one"):
        merge([])
    for at in (True, 1.0, None, "1"):
        with pytest.raises(UsageError, match="expected a whole number"):
            Registrations(["a"], [1]).table(network, trees, at)
    for users in ([1.5], [2**64 - 1], [None], ["a"], [[1]], 3):
        with pytest.raises(UsageError, match="expected whole numbers"):
            place(users, network)
    with pytest.raises(UsageError, match="seed"):
        place([1], network, seed=2**63)
    with pytest.raises(UsageError, match="parts of 0"):
        table_by_parts(my.workload("tags", "icn", 12), network, trees, 0, part=0)
    with pytest.raises(UsageError, match="no node to place"):
        place([1], from_links([]))


def test_no_registrations_make_empty_tables() -> None:
    network = generate("grid", 4)
    table = Registrations([], np.empty(0, int)).table(network, grow(network, "L", 2), 0)
    assert (table.n_filters, len(table.entries)) == (0, 0)
    assert isinstance(table.rib([[1], [1]]), Rib)


def test_tables_without_text_are_numbers_alone() -> None:
    network = generate("grid", 9)
    trees = grow(network, "LC", 2)
    table = table_by_parts(my.workload("tags", "icn", 600), network, trees, 4, part=200)
    for use in (
        lambda: table.rib(links_at(network, trees, 4)),
        table.descriptors.to_arrow,
    ):
        with pytest.raises(UsageError, match="numbers that their vocabulary does not have"):
            use()


def test_a_table_needs_the_links_of_its_entries() -> None:
    network = generate("grid", 9)
    table = Registrations(["a"], [0]).table(network, grow(network, "LC", 2), 4)
    with pytest.raises(UsageError, match="not among the links"):
        table.rib([[1]])


def test_narrow_numbers_of_nodes_do_not_wrap_around() -> None:
    network = generate("grid", 400)
    trees = grow(network, "LC", 1)
    for node in (np.uint8(255), np.int8(127)):
        assert links_at(network, trees, node) == links_at(network, trees, int(node))
        table = Registrations(["a"], [0]).table(network, trees, node)
        assert content(table) == content(Registrations(["a"], [0]).table(network, trees, int(node)))


def test_many_trees_have_one_size() -> None:
    network = generate("barabasi-albert", 20)
    trees = grow(network, "H3")
    registered = register_workload(my.workload("tags", "icn", 240), network)
    (size,) = registered.table(network, trees, 0).sizes()
    assert size.n_trees == 20
    assert size.filters[0] == size.filters[2] == registered.table(network, trees, 0).n_filters
    assert len(registered.table(network, trees[:16], 0).sizes()) == 16
