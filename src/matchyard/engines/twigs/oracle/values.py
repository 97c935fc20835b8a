"""Define when a text satisfies a test."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from matchyard.engines.twigs.language.model import Comparison, Test, number

_COMPARE: dict[Comparison, Callable[[Any, Any], bool]] = {
    Comparison.EQUAL: operator.eq,
    Comparison.UNEQUAL: operator.ne,
    Comparison.NUMBER_EQUAL: operator.eq,
    Comparison.NUMBER_UNEQUAL: operator.ne,
    Comparison.LESS: operator.lt,
    Comparison.AT_MOST: operator.le,
    Comparison.MORE: operator.gt,
    Comparison.AT_LEAST: operator.ge,
}


def satisfies(text: str, test: Test) -> bool:
    """True if the text satisfies the test. A text that is no number differs from every number."""
    how = test.comparison
    if how == Comparison.EXISTS:
        return True
    is_of_text = how in (Comparison.EQUAL, Comparison.UNEQUAL)
    return _COMPARE[how](text if is_of_text else number(text), test.operand)
