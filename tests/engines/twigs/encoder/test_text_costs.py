"""What a text costs to read and to compile is bounded before it is made: counted in nodes and bytes."""

from __future__ import annotations

import pickle
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest

import matchyard as my
from matchyard.engine import find_engine
from matchyard.engines.twigs.language import Axis, Node, Twig, TwigError, model, normal_form, parse

LONGEST = 8192  # bytes of the texts below, at most
MOST_NODES = 8 * normal_form._LEAST_NODES  # made on the way, also of what is refused
MOST_BYTES = 32 << 20


def names(n: int, first: int = 0) -> list[str]:
    return [f"n{i}" for i in range(first, first + n)]


def pairs(n: int) -> str:
    return "".join(f"[{a} or {b}]" for a, b in zip(names(n), names(n, n), strict=True))


TEXTS = {
    "alternatives before many conditions": f"//a{pairs(10)}[{' and '.join(names(800, 20))}]",
    "alternatives before a long path": f"//a{pairs(10)}{'//*' * 180}",
    "alternatives on every step": "".join(f"//{name}[p or q]" for name in names(10)) + "//b" * 150,
    "alternatives of branches": "//a" + "".join(f"[{n}[x][y]/z or {n}y]" for n in names(10)),
    "alternatives deep within": "//a[" + "b[c or d" * 10 + "]" * 11,
    "alternatives of long paths": " | ".join("//*" * 50 + f"/{name}" for name in names(50)),
    "alternatives at the top": " and ".join(f"(//{n} or //{n}y)" for n in names(10))
    + "".join(f" and //{name}" for name in names(600, 20)),
    "alternatives in a negation": f"//a[not(b{pairs(10)})]" + "".join(f"[{n}]" for n in names(900)),
    "negations of conjunctions": "//a" + "".join(f"[not({n} and {n}y)]" for n in names(10)) + "[b]" * 999,
    "a negated conjunction": f"//a[not({' and '.join(names(900))})]",
    "a negated disjunction": f"//a[not({' or '.join(names(900))})]",
    "texts at any depth": "//a" + "".join(f"[.//@{n}]" for n in names(10)) + f"[{'b[c]/' * 190}d]",
    "many conditions": "//a" + "".join(f"[{name}]" for name in names(1100)),
    "one condition many times": "//a" + "[b]" * 2700,
    "a long conjunction": f"//a[{' and '.join(names(800))}]",
    "a long union": " | ".join(f"//{name}" for name in names(800)),
    "a compared union": f"//a[({' | '.join(names(800))}) = 1]",
    "a long path": "//*" * 200,
    "a longer path": "//*" * 2700,
    "deep brackets": "//a" + "[b][c][d" * 49 + "]" * 49,
    "many negations": "//a" + "[not(b" * 24 + ")]" * 24,
    "quotes": '//a[b="' + '""' * 4000 + '"]',
    "open quotes": "//a[" + "'" * 8001,
    "an error at the end": "//a" + "[b]" * 2600 + "!",
}  # fmt: skip


@pytest.fixture
def n_made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts nodes for which something was found out, as each node of a tree is."""
    made, find = [0], model._facts_of

    def counted(node: Any) -> Any:
        made[0] += 1
        return find(node)

    monkeypatch.setattr(model, "_facts_of", counted)
    return made


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_makes_few_nodes_or_is_refused(name: str, n_made: list[int]) -> None:
    assert len(TEXTS[name]) <= LONGEST
    tracemalloc.start()
    with suppress(TwigError):
        parse(TEXTS[name])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_made[0] <= MOST_NODES
    assert peak <= MOST_BYTES


@pytest.mark.parametrize("algorithm", find_engine("twigs").algorithms)
def test_a_text_is_compiled_in_little_memory(algorithm: str) -> None:
    for name in ("alternatives of long paths", "alternatives in a negation", "deep brackets"):
        index = my.TwigIndex(algorithm=algorithm)
        tracemalloc.start()
        index.add(TEXTS[name], key=1).consolidate()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= MOST_BYTES, name


def test_the_limit_on_nodes_follows_the_one_on_trees() -> None:
    with pytest.raises(
        TwigError, match=r"trees of \d+ nodes in all; .* option max_trees"
    ) as caught:
        parse(TEXTS["alternatives before a long path"])
    assert caught.value.part == "limit"
    assert len(parse(TEXTS["alternatives before a long path"], 1 << 14).trees) == 1024
    assert len(parse(f"//a[{' and '.join(names(1 << 15))}]").trees) == 1


def test_a_twig_made_by_hand_has_the_same_limit() -> None:
    long = tuple(Node(Axis.CHILD, name) for name in names(1 << 13))
    trees = tuple((Node(Axis.CHILD, "a", False, (*long, Node(Axis.CHILD, x))),) for x in "xyz")
    with pytest.raises(TwigError, match="nodes in all"):
        parse(Twig(trees))


def test_a_node_is_sent_without_its_hash() -> None:
    node = parse("//a[b = 'c']/d").trees[0][0]
    assert hash(node) == node.facts.code
    sent = pickle.loads(pickle.dumps(node))
    assert sent == node
    assert sent._kept is None
