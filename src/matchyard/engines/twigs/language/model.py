"""The model of a twig: trees of nodes, with value tests as their leaves."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple, Self

from matchyard.errors import ParseError

ANY = "*"  # the name of a node that any element has
TWIG = '/dblp/article[author = "Ada"][@year > 1990]//title'  # an example, for errors
DOCUMENT = -1  # the parent of the top nodes of a tree
_FIRST = (
    r"A-Z_a-z\xC0-\xD6\xD8-\xF6\xF8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C-\u200D\u2070-\u218F"
    r"\u2C00-\u2FEF\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFEFE\uFF00-\uFFFD\U00010000-\U000EFFFF"
)
WORD = rf"[{_FIRST}][{_FIRST}\-.0-9\xB7\u0300-\u036F\u203F-\u2040]*"  # a name without a prefix
HALF = re.compile(r"[\ud800-\udfff]")  # half a character, which XML cannot contain
_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*")
_NAME = re.compile(rf"{WORD}(?::{WORD})?")


class TwigError(ParseError):
    """A text that is no twig; `part` names the kind of error.

    Besides `syntax` and `limit`, it is a part of XPath that is not supported: `arithmetic`,
    `axis`, `comparison`, `constant`, `document`, `function`, `group`, `node`, `position`,
    `predicate`, `variable` or `wildcard`.
    """

    def __init__(self, message: str, part: str = "syntax") -> None:
        super().__init__(message, part)
        self.message, self.part = message, part

    @classmethod
    def _made(
        cls, message: str, line: int | None, column: int | None, said: dict[str, Any]
    ) -> Self:
        error = cls(message, said["part"])
        error.line, error.column = line, column
        return error

    def __str__(self) -> str:
        return self.message


class Axis(IntEnum):
    """The relation of a node to its parent."""

    CHILD = 0  # /
    DESCENDANT = 1  # //


class Source(IntEnum):
    """The part of an element that a test compares."""

    ATTRIBUTE = 0  # @name: the attribute of the element
    TEXT = 1  # text(): each text directly in the element, apart from the others
    VALUE = 2  # .: all text in the element, also within elements in it, as one


class Comparison(IntEnum):
    """How a test compares a value with its operand; the last six compare numbers."""

    EXISTS = 0
    EQUAL = 1
    UNEQUAL = 2
    NUMBER_EQUAL = 3
    NUMBER_UNEQUAL = 4
    LESS = 5
    AT_MOST = 6
    MORE = 7
    AT_LEAST = 8


@dataclass(frozen=True, slots=True)
class Test:
    """A test of an attribute, a text or the value of an element."""

    __test__: ClassVar[bool] = False  # pytest would collect a class of this name
    source: Source
    attribute: str | None  # of Source.ATTRIBUTE
    comparison: Comparison
    operand: str | float | None  # text for (UN)EQUAL, none for EXISTS, else a number


@dataclass(frozen=True, slots=True)
class Node:
    """An element that a twig asks for, with children of its own; or a test of the parent.

    A node holds at an element that has its name if each child holds at some element on the child's
    axis; a negated child must hold at none. A test holds at an element whose value satisfies it; it
    has no children, and its axis is CHILD.
    """

    axis: Axis
    name: str | Test
    is_negated: bool = False
    children: tuple[Node, ...] = ()
    _kept: Facts | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def facts(self) -> Facts:
        """Facts about the node and its descendants; computed once, since trees share nodes."""
        kept = self._kept
        if kept is None:
            kept = _facts_of(self)
            object.__setattr__(self, "_kept", kept)
        return kept

    def __hash__(self) -> int:
        return self.facts.code

    def __reduce__(self) -> tuple[type[Node], tuple[Any, ...]]:
        """Pickle without the facts: hashes of texts differ from process to process."""
        return Node, (self.axis, self.name, self.is_negated, self.children)


class Facts(NamedTuple):
    """Facts about a node and its descendants."""

    code: int  # a hash
    key: tuple[Any, ...]  # differs for different nodes: tests come first, then names and axes
    n_nodes: int
    depth: int  # of nodes below each other


def _facts_of(node: Node) -> Facts:
    name: tuple[Any, ...] = (1, node.name)
    if isinstance(node.name, Test):
        operand = 0 if node.name.operand is None else node.name.operand
        about = (node.name.source, node.name.attribute or "", node.name.comparison)
        name = (0, *about, isinstance(operand, str), operand)
    below = [child.facts for child in node.children]
    return Facts(
        hash((node.axis, node.name, node.is_negated, tuple(one.code for one in below))),
        (*name, node.axis, node.is_negated, tuple(one.key for one in below)),
        1 + sum(one.n_nodes for one in below),
        1 + max((one.depth for one in below), default=0),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Twig:
    """A document matches if one of the trees holds: all its top nodes, seen from the document.

    A twig without trees matches no document.
    """

    trees: tuple[tuple[Node, ...], ...]

    def __eq__(self, other: object) -> bool:
        return self.trees == other.trees if isinstance(other, Twig) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.trees)


class Kept(Twig):
    """A twig that `parse` made: in normal form, so that nobody checks it again."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Twig(trees={self.trees!r})"


ROOT = Node(Axis.CHILD, ANY)  # every document has it


def is_name(text: str) -> bool:
    """True if the text is a name of an element or attribute in a twig."""
    return _NAME.fullmatch(text) is not None


def number(text: str) -> float:
    """The number in a text by XPath's rules: digits, perhaps with a point; NaN if it is none.

    >>> number(" -1.50 "), number("1e3"), number("+1")
    (-1.5, nan, nan)
    """
    digits = _NUMBER.fullmatch(text)
    return float(digits[1]) if digits else math.nan
