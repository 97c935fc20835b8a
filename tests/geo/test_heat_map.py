"""The page of a mesh: its data come back as they went in, and no text can break out of it."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.geo import heat_map
from matchyard.geo.heat_map import Tree, write_map

TEMPLATE = Path(heat_map.__file__).with_name("heat_map.html").read_text("utf-8")
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</script x",  # ends a script without a sign that follows
    "<!--<script>",
    "<!-- <script ",
    "]]>&lt;",
    "'\"`\\${1}\u2028\u2029\0",
    "/*DATA*/null",
    "\ud800 half a pair",
]


def mesh(n_nodes: int) -> dict[str, Any]:
    """The arguments of a mesh with random nodes and no trees."""
    random = np.random.default_rng(7)
    return {
        "title": "A mesh",
        "region": (-50.0, 10.0, 150.0, 60.0),
        "points": random.random((n_nodes, 2)) * [200, 50] + [-50, 10],
        "load": random.exponential(40, n_nodes),
        "sent": random.integers(0, 90, n_nodes).astype(np.float64),
        "degrees": random.integers(0, 40, n_nodes),
        "names": None,
        "unit": "km",
        "reach": 1.5,
        "facts": {"nodes": str(n_nodes)},
        "trees": [],
    }


def write(folder: Path, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """The page and the data in it."""
    write_map(folder / "map.html", **arguments)
    page = (folder / "map.html").read_bytes().decode("utf-8")
    return page, data_of(page)


def json_of(page: str) -> str:
    line = re.search(r"^const data = (.*);$", page, re.MULTILINE)
    assert line is not None
    return line[1]


def data_of(page: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json_of(page), parse_constant=pytest.fail)
    return data


def decode(text: str, dtype: str) -> NDArray[Any]:
    return np.frombuffer(b64decode(text), dtype)


class Elements(HTMLParser):
    """The elements of a page and their attributes, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))


def test_numbers_come_back_from_the_page(tmp_path: Path) -> None:
    given = mesh(500)
    _, data = write(tmp_path, **given)
    left, bottom, right, top = data["region"]
    assert (left, bottom, right, top) == given["region"]
    size = np.array([right - left, top - bottom])
    points = decode(data["points"], "<u2").reshape(-1, 2) / 65535 * size + [left, bottom]
    assert np.all(np.abs(points - given["points"]) <= size / 65535)
    np.testing.assert_array_equal(decode(data["load"], "<f4"), given["load"].astype(np.float32))
    np.testing.assert_array_equal(decode(data["sent"], "<f4"), given["sent"].astype(np.float32))
    np.testing.assert_array_equal(decode(data["degrees"], "<u2"), given["degrees"])
    assert (data["n_nodes"], data["reach"], data["unit"]) == (500, 1.5, "km")
    assert data["names"] is None


def test_names_facts_and_trees_come_back(tmp_path: Path) -> None:
    path = np.array([0, 2, 1], np.int32)
    tree = Tree("r 1", np.int64(0), [np.int32(1)], ["gone"], [path], [2])  # type: ignore[arg-type, list-item]
    given = mesh(3) | {"names": ["Zürich", "東", "c"], "facts": {"b": "1", "a": "2"}}
    _, data = write(tmp_path, **given | {"trees": [tree]})
    assert data["names"] == ["Zürich", "東", "c"]
    assert data["facts"] == [["b", "1"], ["a", "2"]]
    assert data["trees"] == [
        {"request": "r 1", "source": 0, "targets": [1], "undelivered": ["gone"],
         "paths": [[0, 2, 1]], "vias": [2]}
    ]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_can_break_out_of_the_script(text: str, tmp_path: Path) -> None:
    tree = Tree(text, 0, [1], [text], [np.array([0, 1], np.int32)], [])
    given = mesh(2) | {"title": text, "names": [text, text], "unit": text, "facts": {text: text}}
    page, data = write(tmp_path, **given | {"trees": [tree]})
    assert not set("<>&") & set(json_of(page))
    assert Elements(page).found == Elements(TEMPLATE).found
    assert [data["title"], data["unit"], *data["names"], *data["facts"][0]] == [text] * 6
    assert [data["trees"][0]["request"], *data["trees"][0]["undelivered"]] == [text] * 2
    script = page.split("<script>")[1].split("</script>")[0]
    assert script.count("\n") == TEMPLATE.split("<script>")[1].split("</script>")[0].count("\n")


def test_the_page_puts_texts_in_as_text_only() -> None:
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert way not in TEMPLATE


def test_the_page_asks_for_nothing_outside() -> None:
    for way in ("http://", "https://", "src=", "@import", "url(", "fetch(", "XMLHttpRequest"):
        assert way not in TEMPLATE
    assert "default-src 'none'" in TEMPLATE  # the browser is told so too
    for _, attributes in Elements(TEMPLATE).found:
        assert dict(attributes).get("href", "data:,") == "data:,"


def test_the_template_has_one_place_for_the_data() -> None:
    assert TEMPLATE.count("/*DATA*/null") == 1


def test_80000_nodes_take_less_than_2_megabytes(tmp_path: Path) -> None:
    write_map(tmp_path / "map.html", **mesh(80_000))
    assert (tmp_path / "map.html").stat().st_size < 2_000_000


def test_a_mesh_without_nodes_is_written(tmp_path: Path) -> None:
    given = mesh(0)
    _, data = write(tmp_path, **given | {"points": np.zeros(0), "names": []})
    assert (data["n_nodes"], data["points"], data["load"]) == (0, "", "")


def test_a_mesh_without_load_is_written(tmp_path: Path) -> None:
    given = mesh(4) | {"load": np.zeros(4), "sent": np.zeros(4), "region": (1.0, 1.0, 1.0, 1.0)}
    _, data = write(tmp_path, **given)
    assert not decode(data["load"], "<f4").any()
    assert len(decode(data["points"], "<u2")) == 8


def test_numbers_that_are_not_finite_or_too_large_do_no_harm(tmp_path: Path) -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 1e300])
    given = mesh(4) | {"load": odd, "reach": np.inf, "region": (0.0, 0.0, np.nan, np.inf)}
    given |= {"points": np.stack([odd, odd], axis=1), "degrees": np.array([-1, 70_000, 3, 4])}
    _, data = write(tmp_path, **given)
    assert data["region"] == [0, 0, 0, 0]
    assert data["reach"] == 0
    assert decode(data["points"], "<u2").tolist() == [0, 0, 65535, 65535, 0, 0, 65535, 65535]
    assert decode(data["degrees"], "<u2").tolist() == [0, 65535, 3, 4]
    np.testing.assert_array_equal(decode(data["load"], "<f4"), [np.nan, np.inf, -np.inf, np.inf])


@pytest.mark.parametrize("what", ["load", "sent", "degrees", "names"])
def test_a_list_of_another_length_is_refused(what: str, tmp_path: Path) -> None:
    wrong = ["a"] * 4 if what == "names" else np.zeros(4)
    with pytest.raises(UsageError, match=f"{what} has 4 entries; expected 5"):
        write_map(tmp_path / "map.html", **mesh(5) | {what: wrong})
    assert not (tmp_path / "map.html").exists()


def test_a_tree_with_an_unknown_node_is_refused(tmp_path: Path) -> None:
    tree = Tree("7", 0, [1], [], [np.array([0, 5], np.int32)], [])
    with pytest.raises(UsageError, match="request '7' names node 5; expected 0 to 4"):
        write_map(tmp_path / "map.html", **mesh(5) | {"trees": [tree]})
