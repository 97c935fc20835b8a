"""Names to ids against a dict, with hashes that collide on purpose."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from matchyard.kernels.hashing import xxh64
from matchyard.kernels.strings import (
    Interner,
    Names,
    find_block,
    find_names,
    home,
    n_slots_for,
    rank_names,
    string_buffers,
)

words = st.lists(st.text(st.sampled_from("abé🦉"), max_size=9), max_size=80)


def as_text(names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    start, text = string_buffers(pa.array(names, pa.large_string()))
    return start, text


def find(known: Names, names: list[str]) -> list[int]:
    return find_names(known, pa.array(names, pa.large_string())).tolist()


def table_over(names: list[str]) -> Names:
    start, text = as_text(names)
    bare = Names(np.zeros(0, np.uint64), start, text, np.zeros((0, 2), np.int64))
    return rank_names(bare, np.ones(len(names), np.int64))[0]


@given(st.lists(words, max_size=4))
def test_the_interner_numbers_names_in_order_of_appearance(batches: list[list[str]]) -> None:
    interner, model = Interner(), {}
    for names in batches:
        start, text = as_text(names)
        want = [model.setdefault(name, len(model)) for name in names]
        assert interner.intern(text, start).tolist() == want
    assert interner.n_names == len(model)
    assert interner.names().to_arrow().to_pylist() == list(model)
    assert [interner.find(name.encode()) for name in model] == list(model.values())
    assert interner.find(b"not there") < 0


def test_the_interner_grows_past_its_first_tables() -> None:
    names = [f"name {number}" for number in range(5000)]
    interner = Interner()
    for first in range(0, 5000, 700):
        start, text = as_text(names[first : first + 700])
        interner.intern(text, start)
    more = Interner(interner.names())  # and one that goes on where this one ended
    start, text = as_text([*names, "new"])
    assert more.intern(text, start).tolist() == list(range(5001))
    assert find(interner.names(), ["new", *names]) == [-1, *range(5000)]


@given(known=words.map(set).map(sorted), asked=words)
def test_known_names_are_found_and_no_others(known: list[str], asked: list[str]) -> None:
    want = [known.index(name) if name in known else -1 for name in asked]
    assert find(table_over(known), asked) == want


def test_a_name_is_found_behind_another_with_the_same_hash() -> None:
    start, text = as_text(["first", "second", "third"])
    n_slots = n_slots_for(3)
    slots = np.zeros(n_slots, np.uint64)
    wanted, absent = "second", "absent"
    for name, ids in ((wanted, (0, 2, 1)), (absent, (0, 1))):
        data = np.frombuffer(name.encode(), np.uint8)
        code = np.uint64(xxh64(data, 0, len(data)))
        at = int(home(code, n_slots))
        for number in ids:  # impostors: this name's hash beside another name's id
            while slots[at]:
                at = (at + 1) % n_slots
            slots[at] = code >> np.uint64(32) << np.uint64(32) | np.uint64(number + 1)
    names = Names(slots, start, text, np.zeros((0, 2), np.int64))
    assert find(names, [wanted, absent]) == [1, -1]
    codes, ids = np.empty(1, np.uint64), np.empty(1, np.int64)
    asked_start, asked = as_text([wanted])
    assert find_block(names, asked, asked_start, 0, codes, ids) == 1
    assert ids.tolist() == [1]


@given(words.map(set).map(sorted), st.integers(0, 99))
def test_rank_names_numbers_by_falling_count_and_drops_the_unused(
    names: list[str], seed: int
) -> None:
    counts = np.random.default_rng(seed).integers(0, 4, len(names))
    ranked, new_ids = rank_names(table_over(names), counts)
    order = [n for n in sorted(range(len(names)), key=lambda n: -counts[n]) if counts[n]]
    assert [ranked.name(number) for number in range(ranked.n_names)] == [names[n] for n in order]
    assert ranked.counts().tolist() == [counts[n] for n in order]
    want = [order.index(n) if n in order else -1 for n in range(len(names))]
    assert new_ids.tolist() == find(ranked, names) == want


def test_slices_of_string_columns_are_read_at_their_place() -> None:
    for kind in (pa.string(), pa.large_string()):
        column = pa.array(["aa", "b", "", "cc", "d"], kind).slice(1, 3)
        interner = Interner()
        assert interner.intern_arrow(column).tolist() == [0, 1, 2]
        assert interner.names().to_arrow().to_pylist() == ["b", "", "cc"]
