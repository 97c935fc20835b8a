"""What a RIB refuses, and numbers of any kind that it takes."""

from __future__ import annotations

import numpy as np
import pytest

from matchyard.errors import UsageError
from matchyard.kernels.routing import filter_room
from matchyard.routing import (
    Fib,
    Rib,
    Update,
    Vocabulary,
    from_links,
    links_at,
)


@pytest.mark.parametrize(
    ("tree", "interface", "reason"),
    [(1, 1, "tree 1; expected"), (-1, 1, "tree -1"), (0, 4, "interface 4 is not on tree 0"),
     (0, -1, "interface -1")],
)  # fmt: skip
def test_unknown_trees_and_interfaces_are_refused(tree: int, interface: int, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Rib([[1, 2, 3]]).apply(Update(["a"]), tree, interface)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="interface 0; expected 1"):
        Rib([[0, 1]])
    with pytest.raises(UsageError, match="3000 trees; expected at most"):
        Rib([[1]] * 3000)
    with pytest.raises(UsageError, match="expected one of tags, bloom"):
        Rib([[1]], descriptors="exact")
    with pytest.raises(UsageError, match="a vocabulary of bloom"):
        Rib([[1]], vocabulary=Vocabulary("bloom"))
    with pytest.raises(UsageError, match="bare signatures"):
        Rib([[1]]).apply(Update(np.zeros((1, 3), np.uint64)), 0, 1)
    with pytest.raises(UsageError, match="expected 3 of 64 bits"):
        Rib([[1]], descriptors="bloom").apply(Update(np.zeros((1, 2), np.uint64)), 0, 1)
    with pytest.raises(UsageError, match="told nothing"):
        Rib([[1]]).told(0, 0)
    bloom = Rib([[1, 2]], descriptors="bloom").apply(Update(["a"]), 0, 1)[2]
    with pytest.raises(UsageError, match="expected one form"):
        Rib([[1, 2]]).apply(bloom, 0, 1)
    with pytest.raises(UsageError, match="no node 7"):
        links_at(from_links([(0, 1)]), [], 7)


@pytest.mark.parametrize("number", [np.int8, np.int16, np.uint16, np.int64])
def test_numbers_of_any_width_are_the_same(number: type) -> None:
    rib = Rib([[1], [1, 2]])
    fib = Fib(rib)
    rib.apply(Update([f"x{k}" for k in range(100)]), 1, 1)
    fib.forward([], 1, 2)
    rib.apply(Update(["jazz"]), number(1), number(1))
    assert fib.forward(["jazz live"], number(1), number(2)).to_lists() == [[1]]


@pytest.mark.parametrize("odd", [True, 1.0, None, "1", [1], np.array([1])])
def test_what_is_no_whole_number_is_refused(odd: object) -> None:
    rib = Rib([[1], [1]])
    for act in (lambda: rib.apply(Update(["a"]), odd, 1), lambda: rib.covers(["a"], 0, odd)):
        if isinstance(odd, np.ndarray):
            continue  # NumPy takes an array of one number for that number
        with pytest.raises(UsageError, match="expected a whole number"):
            act()


def test_what_is_no_update_or_link_is_refused() -> None:
    with pytest.raises(UsageError, match="an update of list; expected"):
        Rib([[1]]).apply(["a"], 0, 1)  # type: ignore[arg-type]
    for links in (None, [1, 2], [["a"]], [[1.7]], [[True]], "12"):
        with pytest.raises(UsageError, match=r"not links|interface"):
            Rib(links)  # type: ignore[arg-type]


def test_offsets_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match=r"more than 2\^31"):
        filter_room._longer(np.empty(0, np.int32), 1 << 31, 0)
