"""Names to ids against a dict, with hashes that collide on purpose."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from matchyard.kernels.hashing import xxh64
from matchyard.kernels.names import (
    Interner,
    Names,
    find_block,
    home,
    index_names,
    n_slots_for,
    string_buffers,
    take_names,
)

words = st.lists(st.text(st.sampled_from("abé🦉"), max_size=9), max_size=80)


def as_text(names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    start, text = string_buffers(pa.array(names, pa.large_string()))
    return start, text


def find(known: Names, names: list[str]) -> list[int]:
    start, text = as_text(names)
    found = []
    codes, ids = np.empty(32, np.uint64), np.empty(32, np.int64)
    for first in range(0, len(names), 32):
        n_block = find_block(
            known.slots, known.text_start, known.text, text, start, first, codes, ids
        )
        found += ids[:n_block].tolist()
    return found


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
def test_find_block_finds_known_names_and_no_others(known: list[str], asked: list[str]) -> None:
    start, text = as_text(known)
    names = index_names(start, text, np.ones(len(known), np.int64))
    want = [known.index(name) if name in known else -1 for name in asked]
    assert find(names, asked) == want


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
    names = Names(slots, start, text, np.zeros(0, np.int64))
    assert find(names, [wanted, absent]) == [1, -1]


@given(names=words.map(set).map(sorted), seed=st.integers(0, 99))
def test_take_names_gives_new_ids(names: list[str], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(names))
    start, text = as_text(names)
    before = index_names(start, text, np.zeros(len(names), np.int64))
    after = take_names(before, order, order + 100)
    assert [after.name(number) for number in range(after.n_names)] == [names[n] for n in order]
    assert after.counts.tolist() == (order + 100).tolist()
    assert find(after, names) == np.argsort(order).tolist()


def test_slices_of_string_columns_are_read_at_their_place() -> None:
    for kind in (pa.string(), pa.large_string()):
        column = pa.array(["aa", "b", "", "cc", "d"], kind).slice(1, 3)
        interner = Interner()
        assert interner.intern_arrow(column).tolist() == [0, 1, 2]
        assert interner.names().to_arrow().to_pylist() == ["b", "", "cc"]
