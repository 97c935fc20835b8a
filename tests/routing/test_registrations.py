"""Tables of routers: built at once, by updates, in parts, and as the definition has them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import matchyard as my
from matchyard.errors import UsageError
from matchyard.routing import (
    PLACEMENTS,
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
    sizes = registered.table(network, trees, 3).sizes(3)
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


CAIDA = Path(os.environ.get("MATCHYARD_DATA", ""), "topology/caida-as-rel-20120601.txt.gz")
NAMED = ("3356", "7018", "1239", "2914", "3257", "1221", "6461", "2")  # the last one is a stub
# icn, 240 000 rows, seed 1, users by zipf: filters and entries of 8 trees; the least of one tree.
PINNED = {
    "L": [(153145, 926479, 103039), (105056, 811358, 100336), (103960, 832456, 102937),
          (105498, 822910, 101339), (139020, 848559, 99712), (99727, 796639, 99452),
          (121379, 824273, 99580), (99106, 792848, 99106)],
    "LC": [(177201, 913773, 99506), (165846, 886874, 99802), (175276, 965743, 99217),
           (118864, 831137, 99166), (111684, 814102, 99876), (99757, 796510, 99435),
           (107598, 809221, 99778), (99106, 792848, 99106)],
}  # fmt: skip
# The same of 2.4 million rows, which take some seconds each.
PINNED_LARGE = {
    "L": [(1224519, 6892236, 731220), (752752, 5766078, 707775), (731349, 5868145, 720525),
          (759127, 5877957, 714349), (1067196, 6099836, 698116), (694705, 5544926, 691658),
          (890711, 5824695, 695099), (689365, 5514920, 689365)],
    "LC": [(1476362, 6782850, 697260), (1295340, 6467499, 700883), (1400025, 7178092, 691105),
           (892266, 5952828, 691295), (837466, 5784868, 699292), (694169, 5537272, 690782),
           (769835, 5692618, 697153), (689365, 5514920, 689365)],
}  # fmt: skip


def counts_of(rows: int) -> dict[str, list[tuple[int, int, int]]]:
    network = my.topology(CAIDA)
    registered = register_workload(my.workload("tags", "icn", rows), network)
    found: dict[str, list[tuple[int, int, int]]] = {}
    for rule in ("L", "LC"):
        trees = grow(network, rule, 8)
        for name in NAMED:
            sizes = registered.table(network, trees, network.node(name)).sizes(8)
            assert (
                sizes[7].memory().compact_bytes
                == 32 * sizes[7].filters[2] + 2 * sizes[7].entries[2]
            )
            assert sizes[7].memory().thesis_bytes == 60 * sizes[7].filters[2]
            found.setdefault(rule, []).append(
                (sizes[7].filters[2], sizes[7].entries[2], sizes[0].filters[0])
            )
    return found


@pytest.mark.data
@pytest.mark.skipif(not CAIDA.exists(), reason="needs the AS graph of CAIDA in MATCHYARD_DATA")
def test_tables_of_the_internet_are_as_they_were() -> None:
    assert counts_of(240_000) == PINNED


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not CAIDA.exists(), reason="needs the AS graph of CAIDA in MATCHYARD_DATA")
def test_large_tables_of_the_internet_are_as_they_were() -> None:
    assert counts_of(2_400_000) == PINNED_LARGE


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_users_stay_where_they_are_placed(placement: str) -> None:
    network = generate("barabasi-albert", 50)
    users = np.arange(20_000)
    nodes = place(users, network, placement, seed=3)
    assert np.array_equal(place(users[::-1], network, placement, 3), nodes[::-1])
    assert (nodes != place(users, network, placement, 4)).any()
    shares = np.sort(np.bincount(nodes, minlength=50))[::-1] / len(users)
    if placement == "zipf":
        wanted = 1 / np.arange(1, 51) / (1 / np.arange(1, 51)).sum()
        assert np.abs(shares - wanted).max() < 0.01
    if placement == "uniform":
        assert shares.max() < 0.03
    if placement == "degree":
        by_degree = np.bincount(nodes, minlength=50) / len(users)
        assert np.abs(by_degree - network.degrees / network.degrees.sum()).max() < 0.01


def test_bad_registrations_are_refused() -> None:
    network = generate("grid", 9)
    trees = grow(network, "L", 1)
    with pytest.raises(UsageError, match="expected the number of a node for each"):
        Registrations(["a"], [1, 2])
    with pytest.raises(UsageError, match="expected the number of a node for each"):
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
    with pytest.raises(UsageError, match="expected 1 to 16"):
        Registrations(["a"], [1]).table(network, trees, 0).sizes(17)
    with pytest.raises(UsageError, match="no node to place"):
        place([1], from_links([]))


def test_no_registrations_make_empty_tables() -> None:
    network = generate("grid", 4)
    table = Registrations([], np.empty(0, int)).table(network, grow(network, "L", 2), 0)
    assert (table.n_filters, len(table.entries)) == (0, 0)
    assert isinstance(table.rib([[1], [1]]), Rib)
