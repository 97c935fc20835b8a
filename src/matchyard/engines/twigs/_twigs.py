"""What a twig consists of: trees of nodes, with tests of values as their leaves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from matchyard.engines.twigs import _coded as coded
from matchyard.engines.twigs._coded import Axis, Source
from matchyard.errors import ParseError

ANY = "*"  # the name of a node that any element has
_FIRST = (
    r"A-Z_a-z\xC0-\xD6\xD8-\xF6\xF8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C-\u200D\u2070-\u218F"
    r"\u2C00-\u2FEF\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFEFE\uFF00-\uFFFD\U00010000-\U000EFFFF"
)
WORD = rf"[{_FIRST}][{_FIRST}\-.0-9\xB7\u0300-\u036F\u203F-\u2040]*"  # a name without a prefix
HALF = re.compile(r"[\ud800-\udfff]")  # of a character: nothing that can be written in XML
_NAME = re.compile(rf"{WORD}(?::{WORD})?")


class TwigError(ParseError):
    """A text that is no twig; `part` says what kind of thing is wrong with it.

    `syntax` and `limit` aside, it names the part of XPath that is not supported: `arithmetic`,
    `axis`, `comparison`, `constant`, `document`, `function`, `group`, `node`, `position`,
    `predicate`, `variable` or `wildcard`.
    """

    def __init__(self, message: str, part: str = "syntax") -> None:
        super().__init__(message, part)
        self.message, self.part = message, part

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class Test:
    """What an attribute, a text or the value of an element is to satisfy."""

    __test__: ClassVar[bool] = False  # pytest takes names that start so for its own
    source: Source
    attribute: str | None  # of Source.ATTRIBUTE
    test: coded.Test
    operand: str | float | None  # text for (UN)EQUAL, none for EXISTS, else a number


@dataclass(frozen=True, slots=True)
class Node:
    """An element that is to be there, and what is to be there in it; or a test of the parent.

    It holds at an element that has its name and in which each child holds at some element on the
    child's axis, or at none for a negated one. A test holds at an element whose value satisfies
    it; it has no children, and its axis is CHILD.
    """

    axis: Axis
    name: str | Test
    is_negated: bool = False
    children: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Twig:
    """A document matches when one of the trees holds: all its top nodes, seen from the document.

    A twig without trees matches none.
    """

    trees: tuple[tuple[Node, ...], ...]


ROOT = Node(Axis.CHILD, ANY)  # every document has it


def is_name(text: str) -> bool:
    """Can an element or attribute be called so in a twig?"""
    return _NAME.fullmatch(text) is not None
