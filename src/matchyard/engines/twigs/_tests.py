"""What it means that a text satisfies a test."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

from matchyard.engines.twigs import _coded as coded
from matchyard.engines.twigs._twigs import Test

_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*")
_COMPARE: dict[coded.Test, Callable[[Any, Any], bool]] = {
    coded.Test.EQUAL: operator.eq,
    coded.Test.UNEQUAL: operator.ne,
    coded.Test.NUMBER_EQUAL: operator.eq,
    coded.Test.NUMBER_UNEQUAL: operator.ne,
    coded.Test.LESS: operator.lt,
    coded.Test.AT_MOST: operator.le,
    coded.Test.MORE: operator.gt,
    coded.Test.AT_LEAST: operator.ge,
}


def number(text: str) -> float:
    """The number that a text is in XPath: digits with a point or not; NaN if it is none.

    >>> number(" -1.50 "), number("1e3"), number("+1")
    (-1.5, nan, nan)
    """
    found = _NUMBER.fullmatch(text)
    return float(found[1]) if found else math.nan


def satisfies(text: str, test: Test) -> bool:
    """Does the text compare so?"""
    return compares(text, test.test, test.operand)


def compares(text: str, how: coded.Test, operand: str | float | None) -> bool:
    """The same by parts. A text that is no number differs from every number."""
    if how == coded.Test.EXISTS:
        return True
    is_of_text = how in (coded.Test.EQUAL, coded.Test.UNEQUAL)
    return _COMPARE[how](text if is_of_text else number(text), operand)
