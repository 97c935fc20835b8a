"""Networks from files, lists and models; what is wrong with a file is told by line."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import matchyard as my
from matchyard.routing.formats import topology
from matchyard.routing.models import generate
from matchyard.routing.topology import from_links, largest_component

DATA = Path(os.environ.get("MATCHYARD_DATA", "")) / "topology"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs MATCHYARD_DATA")

# Nodes and links of Rocketfuel's maps without links of a router to itself, and of their largest part.
MAPS = {
    "1221": (378, 779, 318, 758),
    "1239": (700, 2268, 604, 2268),
    "1755": (172, 381, 172, 381),
    "2914": (1013, 2832, 960, 2821),
    "3257": (248, 405, 240, 404),
    "3356": (625, 5298, 624, 5298),
    "3967": (215, 443, 201, 434),
    "6461": (202, 310, 182, 294),
    "7018": (656, 2078, 631, 2078),
}


@pytest.mark.data
@needs_data
def test_the_internet_of_2012_is_read_as_its_readme_counts_it() -> None:
    internet = topology(DATA / "caida-as-rel-20120601.txt.gz")
    assert (internet.n_nodes, internet.n_links) == (41_203, 121_309)
    assert internet.degrees[internet.node(174)] == internet.degrees.max()


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", MAPS)
def test_maps_of_rocketfuel_are_read_as_their_readme_counts_them(name: str) -> None:
    path = DATA / "rocketfuel" / f"{name}.r0.cch.gz"
    whole, largest = topology(path, component="all"), topology(path)
    assert (whole.n_nodes, whole.n_links, largest.n_nodes, largest.n_links) == MAPS[name]


@pytest.mark.data
@needs_data
def test_weights_of_rocketfuel_are_lists_of_links() -> None:
    weights = topology(DATA / "rocketfuel-weights" / "1239" / "weights.intra")
    assert (weights.n_nodes, weights.n_links, weights.weights.min()) == (315, 972, 1)
    assert any("," in name for name in weights.names)


@pytest.mark.parametrize(
    "text",
    [
        "# a comment\n1|2|-1\n2|3|0\n3|1|2\n",
        "1 2\n2 3\n1 3\n3 3\n",
        "\ufeff3 2\r\n1 3\r\n2 1\r\n# the end",
        "1 , 2\n2 , 3\n1 , 3\n",
        "1,2\n2,3\n1,3\n",
        "1, 2, 1\n2, 3, 1\n1, 3, 1\n",
        "1\t2\t1.0\n% more\n2\t3\n\n3\t1\n",
        "1 @Oslo + bb (2) -> <2> <3> =a r0\n2 @Bonn (1) &4 -> <3> {-7} =b ! r0\n-7 =x.y r1\n",
    ],
)
@pytest.mark.parametrize("is_compressed", [False, True])
def test_the_format_is_told_by_looking(tmp_path: Path, text: str, is_compressed: bool) -> None:
    path = tmp_path / "network"
    path.write_bytes(gzip.compress(text.encode()) if is_compressed else text.encode())
    found = topology(path)
    assert found.names == ("1", "2", "3")
    assert found.ends().tolist() == [[0, 1], [0, 2], [1, 2]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no links"),
        ("# nothing\n", "no links"),
        ("1|2\n", "line 1: found '1|2', expected two AS numbers"),
        ("1|2|-1\n\n1|x|0\n", "line 3: found '1|x|0'"),
        ("1|2|7\n", "line 1"),
        ("1|2|-1\n1 2\n", "line 2: found '1 2'"),
        ("a b\na\n", "line 2: found 'a', expected two nodes"),
        ("a b c\n", "line 1"),
        ("a b 0\n", "line 1"),
        ("a b nan\n", "line 1"),
        ("a b 1 2\n", "line 1"),
        ("1 , 2\n1,,3\n", "line 2: found '1,,3'"),
        ("a,b 2.5\n", "line 1"),
        ("New York,Boston,3\n", "line 1"),
        ("-7 =x.y r1\n", "only routers of other networks"),
        ("1 @Oslo + bb (2) -> <2> =a r0\n2 @Bonn (1) -> 3 =b r0\n", "line 2: .* expected a router"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_by_line(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "network").write_text(text)
    with pytest.raises(my.ParseError, match=reason):
        topology(tmp_path / "network")


def test_an_error_of_a_line_has_its_fields(tmp_path: Path) -> None:
    (tmp_path / "network").write_text("a b\n\n  a b -1\n")
    with pytest.raises(my.ParseError) as caught:
        topology(tmp_path / "network")
    error = caught.value
    assert (error.line, error.column, error.found) == (3, 3, "a b -1")
    assert (error.expected, error.example) == ("two nodes and a weight above 0", "a b 2.5")


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(gzip.compress(b"1 2\n" * 1000)[:-9])
    (tmp_path / "binary").write_bytes(b"\xff\xfe1 2")
    for name, reason in (("cut", "damaged"), ("binary", "no text")):
        with pytest.raises(my.ParseError, match=reason):
            topology(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        topology(tmp_path / "absent")
    with pytest.raises(my.UsageError, match="component"):
        topology(tmp_path / "cut", component="some")


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 5)), max_size=30))
def test_interfaces_lead_to_all_neighbours_by_the_lightest_link(
    links: list[tuple[int, int, int]],
) -> None:
    found = from_links([link[:2] for link in links], [link[2] for link in links], n_nodes=10)
    want: dict[tuple[int, int], int] = {}
    for here, there, weight in links:
        for pair in ((here, there), (there, here)):
            if here != there:
                want[pair] = min(weight, want.get(pair, weight))
    have = {}
    for node in range(10):
        row = slice(found.start[node], found.start[node + 1])
        assert (np.diff(found.neighbours[row]) > 0).all()
        for other, link in zip(found.neighbours[row], found.links[row], strict=True):
            have[node, int(other)] = found.weights[link]
    assert have == want


@pytest.mark.parametrize(
    ("links", "more", "reason"),
    [
        ([(0, -1)], {}, "node -1"),
        ([(0, 1)], {"weights": [0]}, "weight 0"),
        ([(0, 1)], {"weights": [float("inf")]}, "weight inf"),
        ([(0, 1)], {"weights": [1, 1]}, "2 weights for 1 links"),
        ([(0, 1)], {"weights": 2}, "shape"),
        ([(0, 1)], {"weights": ["x"]}, "not weights"),
        ([(0, 1)], {"names": ["a"]}, "a link to node 1 of 1 nodes"),
        ([(0, 5)], {"n_nodes": 2}, "a link to node 5 of 2 nodes"),
        ([(0, 1, 5)], {}, "not links"),
        ([(0.5, 1.5)], {}, "not links"),
        ([(0, 1), (2,)], {}, "not links"),
        ([(0, 2**70)], {}, "not links"),
        ([(0, 1)], {"names": ["a", "a"]}, "two nodes have one name"),
    ],
)
def test_links_that_make_no_sense_are_refused(
    links: list[tuple[int, int]], more: dict[str, list[float]], reason: str
) -> None:
    with pytest.raises(my.UsageError, match=reason):
        from_links(links, **more)  # type: ignore[arg-type]


def test_an_unknown_node_is_named() -> None:
    with pytest.raises(my.UsageError, match="no node 'x' among 2; expected a name such as 0, 1"):
        from_links([(0, 1)]).node("x")


def test_the_largest_component_keeps_names_and_weights() -> None:
    network = from_links([(0, 1), (2, 4), (3, 4)], [9, 2, 3], ["a", "b", "c", "d", "e"])
    part = largest_component(network)
    assert part.names == ("c", "d", "e")
    assert dict(zip(map(tuple, part.ends().tolist()), part.weights, strict=True)) == {
        (0, 2): 2,
        (1, 2): 3,
    }


@pytest.mark.parametrize("kind", ["barabasi-albert", "grid", "tree"])
def test_models_are_connected_and_repeat_by_seed(kind: str) -> None:
    for n_nodes in (3, 10, 97):
        network = generate(kind, n_nodes, seed=3)
        assert network.n_nodes == largest_component(network).n_nodes == n_nodes
        again = generate(kind, n_nodes, seed=3)
        assert np.array_equal(network.neighbours, again.neighbours)
    assert generate("tree", 50).n_links == 49
    assert generate("barabasi-albert", 50, links_per_node=3).n_links == 3 * 47


def test_models_that_are_none_are_refused() -> None:
    for kind, n_nodes, n_links in (("ring", 5, 2), ("grid", 0, 2), ("barabasi-albert", 2, 2)):
        with pytest.raises(my.UsageError, match="expected"):
            generate(kind, n_nodes, links_per_node=n_links)
    with pytest.raises(my.UsageError, match="seed"):
        generate("tree", 5, seed=-1)


def test_nodes_are_numbered_by_name_whatever_the_order_of_lines(tmp_path: Path) -> None:
    (tmp_path / "network").write_text("b 10\n10 9\n9 007\n007 a\n")
    assert topology(tmp_path / "network").names == ("007", "9", "10", "a", "b")
