"""Text and values become sets of tags; what is neither is refused with an example."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import matchyard as my
from matchyard.engines.tags.encoder import Options, column
from matchyard.engines.tags.language import format, parse, parse_event


@pytest.mark.parametrize(
    "value",
    ["jazz live", "  live\tjazz\n", ["jazz", "live", "jazz"], ("live", "jazz"), {"jazz", "live"}],
    ids=lambda value: type(value).__name__,
)
def test_text_and_collections_mean_the_same_set(value: Any) -> None:
    assert parse(value) == {"jazz", "live"}
    assert parse(format(parse(value))) == {"jazz", "live"}


def test_a_blank_event_is_the_empty_set() -> None:
    assert parse_event("") == parse_event(" \n") == parse_event([]) == parse([]) == frozenset()


@pytest.mark.parametrize(
    "value",
    [5, None, b"jazz", {"jazz": 1}, 1.5, [["jazz"]]],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_set_is_refused_with_an_example(value: Any) -> None:
    with pytest.raises(my.ParseError, match=r"not a set of tags: .*expected a set of strings"):
        parse(value)


@pytest.mark.parametrize(
    "value",
    [["jazz", 5], [None], {b"jazz"}, bytearray(b"j")],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_tag_is_named(value: Any) -> None:
    with pytest.raises(my.ParseError, match=r"not a tag: .* expected a set of strings"):
        parse(value)


def test_arrow_text_is_split_at_every_kind_of_white_space_that_python_knows() -> None:
    codes = [chr(code) for code in range(0x3100) if not 0xD800 <= code < 0xE000]
    texts = [f"{code}a{code}{code}b{code}" for code in codes]
    split = np.diff(column(pa.array(texts), Options()).row_start).tolist()
    counts = [len(text.split()) for text in texts]
    assert [hex(ord(c)) for c, a, b in zip(codes, counts, split, strict=True) if a != b] == []
    assert counts.count(2) > 20


@given(st.lists(st.text(st.sampled_from("ab \t\n\u2003\u3000é"), max_size=8), max_size=8))
def test_text_means_the_same_in_a_list_and_in_arrow(texts: list[str]) -> None:
    found = [column(some, Options()) for some in (texts, pa.array(texts, pa.string()))]
    rows = [
        [
            {
                bytes(col.text[col.text_start[i] : col.text_start[i + 1]]).decode()
                for i in range(col.row_start[row], col.row_start[row + 1])
            }
            for row in range(col.n_rows)
        ]
        for col in found
    ]
    assert rows[0] == rows[1] == [set(text.split()) for text in texts]
