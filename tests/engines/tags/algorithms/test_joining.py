"""Tables of tagmatch that are joined are one table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from matchyard.engine import find_engine
from matchyard.engines.tags.algorithms.tagmatch import tagmatch
from matchyard.errors import UsageError
from matchyard.index.segment import Segment
from tests.cases import CRAMPED_TAGMATCH, build

ENCODER: Any = find_engine("tags").encoder


def rows(n_rows: int, seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    return [[str(tag) for tag in rng.integers(0, 40, rng.integers(0, 5))] for _ in range(n_rows)]


@pytest.mark.parametrize("n_tables", [1, 2, 5])
@pytest.mark.parametrize("options", [{}, {"max_partition": 7}, CRAMPED_TAGMATCH])
def test_a_joined_table_finds_what_its_parts_find(n_tables: int, options: dict[str, Any]) -> None:
    index = build(rows(400, 1), None, "tagmatch", options)
    (segment,) = index.segments()
    settings = segment.settings
    living = segment.living()
    size = -(-len(living.keys) // n_tables)
    tables = [
        tagmatch.compile(
            living.batch.rows(first, min(first + size, len(living.keys))),
            living.keys[first : first + size],
            living.vocabulary,
            settings.options,
        )
        for first in range(0, len(living.keys), size)
    ]
    joined = tagmatch.join(tables, settings.options)
    for name in tagmatch.Table._fields:
        assert getattr(joined, name).dtype == getattr(tables[0], name).dtype, name
        assert getattr(joined, name).flags.c_contiguous, name
    column = ENCODER.column(rows(60, 2), settings.input_options)
    one = Segment(settings, segment.vocabulary, [joined]).match(column)
    several = Segment(settings, segment.vocabulary, tables).match(column)
    assert one.candidates == several.candidates
    assert one.event_start.tolist() == several.event_start.tolist()
    for first, last in zip(one.event_start, one.event_start[1:], strict=False):
        assert sorted(one.keys[first:last]) == sorted(several.keys[first:last])
    stored = tagmatch.subscriptions(joined, np.arange(len(joined.key_start) - 1))
    assert stored.n_rows == sum(len(table.key_start) - 1 for table in tables)


def test_more_tags_than_offsets_can_say_are_refused() -> None:
    (segment,) = build([["a"], ["b"]], None, "tagmatch", {}).segments()
    (table,) = segment.tables
    long = table._replace(tag_start=np.array([0, 1, 1 << 30], np.int32))
    tagmatch.join([long], segment.settings.options)
    with pytest.raises(UsageError, match="in one table"):
        tagmatch.join([long, long], segment.settings.options)
