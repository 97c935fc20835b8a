"""A vocabulary from the counts of parts is that of the whole, whatever the parts are."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from matchyard.engines.predicates import encoder
from matchyard.engines.predicates.encoder.layout import Filters, Vocabulary
from tests.engines.predicates.strategies import predicates

OPTIONS = encoder.Options()


def whole(rows: object) -> tuple[Filters, Vocabulary]:
    staging = encoder.Staging()
    column = encoder.subscription_column(rows, OPTIONS)
    staging.add(column, np.zeros(column.n_rows, np.int64))
    return staging.take()[:2]


def by_parts(*parts: object) -> Vocabulary:
    return encoder.merge_counts(encoder.counts(*whole(part)) for part in parts)


def spelled(vocabulary: Vocabulary) -> dict[str, list[object]]:
    """A vocabulary by name, since names may be numbered otherwise where uses are counted once."""
    found = {}
    for number in range(vocabulary.n_names):
        first, last = vocabulary.slot_start[number : number + 2]
        found[vocabulary.names.name(number)] = [
            (
                vocabulary.kind[slot], vocabulary.mode[slot],
                vocabulary.domain[slice(*vocabulary.domain_start[slot : slot + 2])].tolist(),
                vocabulary.domain_rest[slice(*vocabulary.domain_start[slot : slot + 2])].tolist(),
            )
            for slot in range(first, last)
        ]  # fmt: skip
    return found


@settings(deadline=None, max_examples=80)
@given(st.lists(predicates(), max_size=6), st.integers(0, 6))
def test_parts_make_the_vocabulary_of_the_whole(rows, cut) -> None:
    filters, wanted = whole(rows)
    found = by_parts(rows[:cut], rows[cut:])
    assert spelled(found) == spelled(wanted)
    assert found.texts.to_arrow() == wanted.texts.to_arrow()
    known = encoder.recode(filters, wanted, found)
    assert [encoder.decode(known, row, found) for row in range(len(rows))] == [
        encoder.decode(filters, row, wanted) for row in range(len(rows))
    ]


def test_constraints_are_counted_once_for_each_time_they_are_there() -> None:
    rows = ["x = 1 and y = 2", "x = 1", 'x in {1, "a"} or x = 1', "not (x = 1)"]
    found = encoder.counts(*whole(rows))
    assert sorted(found["count"].to_pylist()) == [1, 1, 4]


def test_names_and_texts_may_have_any_characters() -> None:
    words = ["", " ", "1 2 3", "\x01", "\x00", "日本 🦉", "a\nb"]
    rows = [f"`{name} x` = 1" for name in words if name.isprintable()] + [
        {"name": [word, {"suffix": word + "z"}, {"wildcard": word + "*z*"}]} for word in words
    ]
    assert by_parts(rows[:5], rows[5:]).texts.to_arrow() == whole(rows)[1].texts.to_arrow()


def test_the_slot_of_a_row_does_not_depend_on_other_rows() -> None:
    rows = ["x = 1 and y = 2", "y = 3", "y = 4 and z = 1", "x = 1 or y = 2"]
    vocabulary = by_parts(rows)
    together = encoder.rarest(encoder.recode(*whole(rows), vocabulary))
    alone = [encoder.rarest(encoder.recode(*whole([row]), vocabulary))[0] for row in rows]
    assert together.tolist() == alone


def test_no_subscriptions_make_an_empty_vocabulary() -> None:
    assert (
        by_parts(
            [], pa.array([], pa.list_(pa.struct({"name": pa.string(), "op": pa.string()})))
        ).n_names
        == 0
    )
