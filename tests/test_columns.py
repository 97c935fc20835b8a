"""Columns of other kinds of lists than Arrow's plain one are read as lists."""

from __future__ import annotations

import pyarrow as pa
import pytest

import matchyard as my
from matchyard.columns import as_arrow

KINDS = [
    pa.list_(pa.string(), 2),
    pa.list_view(pa.string()),
    pa.large_list_view(pa.string_view()),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_lists_of_fixed_size_and_views_become_plain_lists(kind: pa.DataType) -> None:
    whole = pa.array([["a", "b"], None, ["c", "d"], ["e", "f"]], kind)
    for some in (whole, whole[1:], whole[2:], whole[1:2], whole[:0]):
        plain = as_arrow(some)
        plain.validate(full=True)
        assert plain.to_pylist() == some.to_pylist()


def test_views_may_overlap_and_come_in_any_order() -> None:
    views = pa.ListViewArray.from_arrays([2, 0, 1], [1, 2, 2], pa.array(["a", "b", "c"]))
    index = my.TagIndex().add_many(views, [7, 8, 9]).consolidate()
    found = index.match([["c"], ["a", "b", "c"], ["b", "c"]])
    assert [sorted(keys) for keys in found] == [[7], [7, 8, 9], [7, 9]]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_null_list_is_refused_by_its_row(kind: pa.DataType) -> None:
    with pytest.raises(my.ParseError, match="row 1 is null"):
        my.TagIndex().add_many(pa.array([["a", "b"], None], kind), [1, 2])
