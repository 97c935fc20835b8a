"""Convert conditions of any form to twigs in normal form.

An `or` becomes several trees, even from deep within: an element with one of two children is either
an element with the first or an element with the second. A `not` moves inwards until it applies to
single nodes. The children of a negated node are not negated: `not(a[b or c])` is one tree with two
negated nodes, `a[b]` and `a[c]`.

Nodes and trees are sorted and without duplicates, so that equal twigs compare equal however they
were written. A tree with only negated nodes also gets a root, which every document has except one
that was skipped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

from matchyard.engines.conditions import And, Not, Or
from matchyard.engines.twigs.language.model import (
    ANY,
    HALF,
    ROOT,
    TWIG,
    Axis,
    Comparison,
    Kept,
    Node,
    Source,
    Test,
    Twig,
    TwigError,
    is_name,
)

MAX_TREES = 1024  # of one twig, unless an option says otherwise
_NODES_EACH = 16  # a twig may have so many nodes per allowed tree…
_LEAST_NODES = 1 << 14  # …and at least so many in all; a twig of one tree has no limit
MAX_STEPS = 200  # nodes below each other
MAX_NESTING = 50  # brackets within each other in the text of a twig

Member = TypeVar("Member", bound=IntEnum)
Tree: TypeAlias = frozenset[Node]  # nodes that are to hold together


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a path; a test on the axis DESCENDANT is of the element or any descendant."""

    axis: Axis
    name: str | Test
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Path:
    """The condition that there are elements along the steps; true without steps."""

    steps: tuple[Step, ...]


Condition: TypeAlias = "Path | And[Condition] | Or[Condition] | Not[Condition]"


def twig_of(condition: Condition, max_trees: int = MAX_TREES) -> Twig:
    """The twig that a condition on the document stands for."""
    return _in_order(_expand(condition, False, max_trees))


def normalise(twig: Twig, max_trees: int = MAX_TREES) -> Twig:
    """Check a twig that was made by hand, and return its normal form."""
    trees = {
        frozenset(_checked(node, 1) for node in _listed(tree, "a tree"))
        for tree in _listed(twig.trees, "the trees of a twig")
    }
    _check_count(len(trees), max_trees)
    _check_nodes(len(trees), _n_nodes(trees), max_trees)
    for node in (node for tree in trees for node in tree):
        if isinstance(node.name, Test):
            message = "not a twig: {found} at the top; expected {expected}"
            raise _refused(message, str(node.name), "it below an element")
    return _in_order(trees)


def trunk(node: Node) -> Node | None:
    """The child that continues the path of a node in text; the others are in brackets."""
    for child in reversed(node.children):
        if not child.is_negated and not isinstance(child.name, Test):
            return child
    return None


def _expand(condition: Condition, is_negated: bool, limit: int) -> set[Tree]:
    """The alternatives of a condition."""
    if isinstance(condition, Not):
        return _expand(condition.part, not is_negated, limit)
    if isinstance(condition, Path):
        return _expand_path(condition.steps, is_negated, limit)
    parts = (_expand(part, is_negated, limit) for part in condition.parts)
    if isinstance(condition, And) != is_negated:
        return _joined(parts, limit)
    trees = {tree for part in parts for tree in part}
    _check_count(len(trees), limit)
    _check_nodes(len(trees), _n_nodes(trees), limit)
    return trees


def _joined(parts: Iterable[set[Tree]], limit: int) -> set[Tree]:
    """All combinations of one alternative of each part. They are counted before they are made."""
    given = list(parts)
    alone = [tree for part in given if len(part) == 1 for tree in part]
    trees: set[Tree] = {frozenset().union(*alone)}
    for part in given:
        if len(part) != 1:
            _check_count(len(trees) * len(part), limit)
            n_nodes = len(part) * _n_nodes(trees) + len(trees) * _n_nodes(part)
            _check_nodes(len(trees) * len(part), n_nodes, limit)
            trees = {tree | other for tree in trees for other in part}
    return trees


def _n_nodes(trees: set[Tree]) -> int:
    return sum(node.facts.n_nodes for tree in trees for node in tree)


def _expand_path(steps: tuple[Step, ...], is_negated: bool, limit: int) -> set[Tree]:
    if len(steps) > MAX_STEPS:
        _fail_of_depth()
    trees: set[Tree] = {frozenset()}  # nothing more must hold at the end of the path
    for step in reversed(steps):
        if isinstance(step.name, Test):
            trees = {frozenset([node]) for node in _tests(step.axis, step.name)}
            continue
        inner = (_expand(condition, False, limit) for condition in step.conditions)
        trees = _joined([trees, *inner], limit)
        _check_nodes(len(trees), _n_nodes(trees) + len(trees), limit)
        trees = {frozenset([Node(step.axis, step.name, False, _sorted(tree))]) for tree in trees}
    if is_negated:
        if frozenset() in trees:
            return set()
        return {frozenset(replace(node, is_negated=True) for tree in trees for node in tree)}
    return trees


def _tests(axis: Axis, test: Test) -> list[Node]:
    """The alternatives of a test: at an element or, on DESCENDANT, at any descendant."""
    leaf = Node(Axis.CHILD, test)
    if axis == Axis.CHILD:
        return [leaf]
    return [leaf, Node(Axis.DESCENDANT, ANY, False, (leaf,))]


def _in_order(trees: set[Tree]) -> Twig:
    if frozenset() in trees:
        return Kept(((ROOT,),))
    trees = {tree | {ROOT} if all(node.is_negated for node in tree) else tree for tree in trees}
    for tree in trees:
        for node in tree:
            if node.facts.depth > MAX_STEPS or _nesting(node) > MAX_NESTING:
                _fail_of_depth()
    return Kept(tuple(sorted(map(_sorted, trees), key=lambda tree: list(map(_key, tree)))))


def _sorted(tree: Iterable[Node]) -> tuple[Node, ...]:
    nodes = tuple(tree)
    return nodes if len(nodes) < 2 else tuple(sorted(nodes, key=_key))


def _key(node: Node) -> tuple[Any, ...]:
    return node.facts.key


def _nesting(node: Node) -> int:
    """How deeply brackets are nested in the text of a node."""
    along = trunk(node)
    inner = [_nesting(child) + (child is not along) for child in node.children]
    return node.is_negated + max(inner, default=0)


def _listed(parts: Any, what: str) -> tuple[Any, ...]:
    if not isinstance(parts, tuple | list):
        message, nodes = (
            "not {what}: {found}; expected {expected}",
            "a tuple of Nodes, or of such tuples",
        )
        raise _refused(message, f"{parts!r:.80}", nodes, what=what)
    return tuple(parts)


def _member(kind: type[Member], value: Any) -> Member:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(f"{kind.__name__}.{one.name}" for one in kind)
        message = "not {expected}: {found}"
        raise _refused(message, f"{value!r:.80}", f"one of {known}") from None


def _refused(
    message: str, found: str, expected: str, part: str = "syntax", **said: Any
) -> TwigError:
    return TwigError.of(message, part=part, found=found, expected=expected, example=TWIG, **said)


def _checked(node: Any, depth: int) -> Node:
    """Check a node and sort its children; a top node has depth 1."""
    if not isinstance(node, Node):
        raise _refused(
            "not a node of a twig: {found}; expected {expected}", f"{node!r:.80}", "a Node"
        )
    if depth > MAX_STEPS:
        _fail_of_depth()
    if isinstance(node.name, Test):
        if node.children or node.axis != Axis.CHILD:
            message = "{found} has children or an axis; a test is of its parent"
            raise _refused(message, str(node.name), "a test without children, on the axis CHILD")
        return Node(Axis.CHILD, _checked_test(node.name), bool(node.is_negated))
    if not isinstance(node.name, str) or not (node.name == ANY or is_name(node.name)):
        raise _refused("not {expected}: {found}", f"{node.name!r:.80}", "the name of an element")
    listed = _listed(node.children, f"the children of {node.name!r:.80}")
    children = _sorted({_checked(child, depth + 1) for child in listed})
    return Node(_member(Axis, node.axis), node.name, bool(node.is_negated), children)


def _checked_test(test: Test) -> Test:
    source, how = _member(Source, test.source), _member(Comparison, test.comparison)
    operand = test.operand
    if (source == Source.ATTRIBUTE) != (test.attribute is not None):
        rule = "Source.ATTRIBUTE, and nothing else, has the name of an attribute"
        raise _refused("{found}: {expected}", str(test), rule)
    attribute = test.attribute
    if attribute is not None and not (isinstance(attribute, str) and is_name(attribute)):
        raise _refused("not {expected}: {found}", f"{attribute!r:.80}", "the name of an attribute")
    if how == Comparison.EXISTS:
        if source == Source.VALUE or operand is not None:
            rule = "only attributes and texts can be absent, without an operand"
            raise _refused("{found}: {rule}", str(test), "a comparison with an operand", rule=rule)
        return Test(source, test.attribute, how, None)
    if how in (Comparison.EQUAL, Comparison.UNEQUAL):
        if not isinstance(operand, str) or HALF.search(operand):
            message = "{test}: EQUAL and UNEQUAL compare with {expected}, not {found}"
            raise _refused(message, repr(operand), "text", test=test)
        return Test(source, test.attribute, how, operand)
    if isinstance(operand, bool) or not isinstance(operand, (int, float)):
        message = "{test}: {how} compares with {expected}, not {found}"
        raise _refused(message, repr(operand), "a number", test=test, how=how.name)
    return Test(source, test.attribute, how, finite(operand))


def finite(number: float) -> float:
    """A number as a double, zero without a sign."""
    try:
        value = float(number)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        double = "a number that a double can hold"
        raise _refused("not {expected}: {found}", f"{number!r:.40}", double)
    return value + 0.0


def _check_count(n_trees: int, limit: int) -> None:
    if n_trees > limit:
        raise _refused(
            "not a twig: its alternatives (or, |) stand for {found}; expected {expected}",
            f"more than {limit} trees",
            "fewer, or a higher option max_trees",
            "limit",
        )


def _check_nodes(n_trees: int, n_nodes: int, limit: int) -> None:
    most = max(_LEAST_NODES, _NODES_EACH * limit)
    if n_trees > 1 and n_nodes > most:
        raise _refused(
            "not a twig: its alternatives (or, |) stand for {found}; expected {expected}",
            f"{n_trees} trees of {n_nodes} nodes in all",
            f"at most {most}, or a higher option max_trees",
            "limit",
        )


def _fail_of_depth() -> None:
    raise _refused(
        "not a twig: {found}; expected {expected}",
        "nested too deeply",
        f"at most {MAX_STEPS} steps below each other and {MAX_NESTING} brackets within each other",
        "limit",
    )
