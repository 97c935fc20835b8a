"""Lines of JSON that a kernel writes, against Python's."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchyard.kernels import json_lines
from matchyard.kernels.json_lines import Values, integers, pair_lines, texts

numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-1000, 1000)
names = st.text(max_size=70)


def column(values: list[Any]) -> Values:
    if values and isinstance(values[0], str):
        written = [json.dumps(value, ensure_ascii=False).encode() for value in values]
        return texts(np.arange(len(values)), written)
    return integers(np.array(values, np.int64))


@pytest.mark.parametrize("step", [1, 3, 1 << 14])
@given(rows=st.lists(st.tuples(numbers, numbers)) | st.lists(st.tuples(names, numbers)))
def test_lines_are_those_of_python(step: int, rows: list[tuple[Any, Any]]) -> None:
    rows = [row for row in rows for _ in range(2)]  # rows of one event follow each other
    first, second = ([row[place] for row in rows] for place in (0, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "_STEP", step)
        for one, other in ((first, second), (second, first)):
            some = [bytes(lines) for lines in pair_lines(("a", "b"), column(one), column(other))]
            want = "".join(
                json.dumps({"a": left, "b": right}, ensure_ascii=False) + "\n"
                for left, right in zip(one, other, strict=True)
            )
            assert b"".join(some) == want.encode()
            assert len(some) == -(-len(rows) // step)


def test_long_texts_take_few_rows_at_a_time_and_names_are_escaped() -> None:
    values = ['"' + "x" * 10_000_000, "y"]
    lines = [bytes(some) for some in pair_lines(('a"b', "c"), column([1, 2]), column(values))]
    assert len(lines) == 2
    want = [json.dumps({'a"b': 1, "c": values[0]}), json.dumps({'a"b': 2, "c": "y"})]
    assert b"".join(lines).decode() == "\n".join([*want, ""])
