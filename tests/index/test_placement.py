"""Which card has which table. Cards are made up here: on them, what the CPU does is done."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import matchyard as my
from matchyard.engine import configure
from matchyard.gpu.devices import Card
from matchyard.index import placement, workspaces
from matchyard.index.removals import Removals
from matchyard.index.segment import Segment
from matchyard.kernels.strings import n_bytes

CARDS = Card(0, 0, 1), Card(1, 0, 1)
EVENTS = ["a b c", "b c d", "x", "c d e f g"]


class Cards:
    """Cards with so much room; notes what was done on which."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 1 << 30
        self.used: list[int] = []
        self.forgotten: list[Any] = []
        monkeypatch.setattr(placement, "cards_of", lambda device: CARDS)
        monkeypatch.setattr(placement, "room", lambda place: self.room)
        monkeypatch.setattr(workspaces, "on", self.on)
        monkeypatch.setattr(workspaces, "forget", self.forgotten.extend)
        monkeypatch.setattr(workspaces, "forget_host_memory", lambda: None)

    @contextmanager
    def on(self, place: Card) -> Iterator[None]:
        self.used.append(place.number)
        yield


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Cards:
    return Cards(monkeypatch)


def segment_of(n_tables: int) -> Segment:
    """An index of small tables, as if it were on two cards."""
    letters = "abcdefgh"
    index = my.TagIndex(shard_size=len(letters) // n_tables).add_many(
        [{letter, other} for letter, other in zip(letters, letters[1:] + "a", strict=True)],
        keys=np.arange(len(letters)),
    )
    (segment,) = index.consolidate().segments()
    assert len(segment.tables) == n_tables
    return Segment(segment.settings._replace(device="gpu:0,1"), segment.vocabulary, segment.tables)


def found(segment: Segment) -> list[list[int]]:
    column = segment.settings.engine.encoder.column(EVENTS, segment.settings.input_options)
    part = segment.match(column.rows(0, len(EVENTS)))
    start = part.event_start
    return [sorted(part.keys[start[i] : start[i + 1]].tolist()) for i in range(len(EVENTS))]


WANTED = [[0, 1], [1, 2], [], [2, 3, 4, 5]]


def test_cards_that_have_room_for_all_tables_take_batches_in_turn(cards: Cards) -> None:
    segment = segment_of(2)
    first, second = segment.workspaces.borrow(), segment.workspaces.borrow()
    assert [place for place, _ in first] == [CARDS[0]] * 2
    assert [place for place, _ in second] == [CARDS[1]] * 2
    segment.workspaces.give_back(first)
    segment.workspaces.give_back(second)
    cards.used.clear()
    assert found(segment) == WANTED
    assert len(set(cards.used)) == 1
    assert not cards.forgotten


def test_threads_spread_over_the_cards(cards: Cards) -> None:
    segment = segment_of(2)
    with ThreadPoolExecutor(4) as pool:
        assert all(one == WANTED for one in pool.map(lambda _: found(segment), range(40)))


def test_threads_take_the_card_that_the_fewest_are_using(cards: Cards) -> None:
    workspaces = segment_of(2).workspaces
    lent = [workspaces.borrow() for _ in range(4)]
    first, second = ([one for one in lent if one[0][0] == card] for card in CARDS)
    assert len(first) == len(second) == 2
    for one in (*first, *second):  # the last of which are both of one card
        workspaces.give_back(one)
    two = workspaces.borrow(), workspaces.borrow()
    assert {one[0][0] for one in two} == set(CARDS)
    assert all(any(one is other for other in lent) for one in two)


def test_a_workspace_that_cannot_be_made_is_not_reckoned_with(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspaces = segment_of(2).workspaces

    def fail(*_: Any) -> Any:
        raise my.DeviceError("no room")

    with monkeypatch.context() as broken:
        broken.setattr(workspaces, "_make", fail)
        with pytest.raises(my.DeviceError, match="no room"):
            workspaces.borrow()
    assert [workspaces.borrow()[0][0] for _ in range(2)] == list(CARDS)


def test_tables_are_dealt_out_where_no_card_has_room_for_all(cards: Cards) -> None:
    cards.room = int(2.5 * max(n_bytes(table) for table in segment_of(4).tables))
    segment = segment_of(4)
    dealt = [place for place, _ in segment.workspaces.borrow()]
    assert dealt == [CARDS[0], CARDS[1], CARDS[0], CARDS[1]]
    assert found(segment) == WANTED
    assert not cards.forgotten


def test_tables_take_turns_where_all_cards_together_have_too_little_room(cards: Cards) -> None:
    cards.room = int(1.5 * max(n_bytes(table) for table in segment_of(8).tables))
    segment = segment_of(8)
    assert segment.launch == workspaces.IN_TURNS * 4096
    assert found(segment) == WANTED
    assert [id(table) for table in cards.forgotten] == [id(table) for table in segment.tables]
    assert set(cards.used) == {0, 1}
    with ThreadPoolExecutor(4) as pool:
        assert all(one == WANTED for one in pool.map(lambda _: found(segment), range(20)))


def test_a_table_that_failed_is_forgotten_all_the_same(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards.room = int(1.5 * max(n_bytes(table) for table in segment_of(8).tables))
    segment = segment_of(8)

    def fail(*_: Any) -> Any:
        raise my.DeviceError("the card is gone")

    with pytest.raises(my.DeviceError, match="gone"):
        segment.workspaces.match(fail, None)
    assert len(cards.forgotten) == 1
    assert found(segment) == WANTED


@pytest.mark.parametrize("engine", ["tags", "predicates", "twigs"])
def test_a_table_that_is_too_large_for_a_card_is_cut(engine: str, cards: Cards) -> None:
    subscriptions, events = {
        "tags": (["a", "a b", "b", "b", "c"], ["a b", "b c", "c"]),
        "predicates": (["x > 1", "x > 2", "y = 3", "y = 3", "x < 0"], [{"x": 3}, {"y": 3}, {}]),
        "twigs": (["//a", "//a/b", "//b", "//b", "/c"], ["<a><b/></a>", "<c><b/></c>", "<d/>"]),
    }[engine]
    index = my.create(engine)
    index.add_many(subscriptions, keys=[1, 2, 3, 4, 5]).add(subscriptions[0], 6).consolidate()
    index.remove(3).consolidate()
    wanted = [sorted(row) for row in index.match(events)]
    (segment,) = index.segments()
    cards.room = n_bytes(segment.tables[0]) // 3 + 1
    on_cards = segment.settings._replace(device="gpu:0,1")
    cut = Segment(on_cards, segment.vocabulary, segment.tables)
    assert len(cut.tables) == 3
    assert sum(len(table.keys) for table in cut.tables) == 5
    column = on_cards.engine.encoder.column(events, on_cards.input_options)
    part = cut.match(column.rows(0, 3))
    rows = np.split(part.keys, part.event_start[1:-1])
    assert [sorted(row.tolist()) for row in rows] == wanted


def test_an_index_that_moves_away_frees_what_cards_have(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = my.TagIndex().add("jazz", 1).consolidate()
    index.move("cpu")
    assert not cards.forgotten  # it was on none
    index._state.move(configure("tags", None, {})._replace(device="gpu:0,1"))
    assert index.match(["jazz"])[0] == [1]
    (table,) = index.segments()[0].tables
    index.move("cpu")
    assert cards.forgotten == [table]
    assert index.match(["jazz"])[0] == [1]


def test_who_matches_while_an_index_moves_away_leaves_nothing_on_a_card(cards: Cards) -> None:
    index = my.TagIndex().add("jazz", 1).consolidate()
    index._state.move(configure("tags", None, {})._replace(device="gpu:0,1"))
    (before,) = index.segments()
    index.move("cpu")
    cards.forgotten.clear()
    borrowed = before.workspaces.borrow()  # by a match that began before
    before.workspaces.give_back(borrowed)
    assert cards.forgotten == list(before.tables)
    assert not borrowed  # and nobody has the workspace
    assert before.workspaces.borrow()


def test_who_matches_an_older_state_while_an_index_moves_away_leaves_nothing_either(
    cards: Cards,
) -> None:
    index = my.TagIndex(live=True).add("jazz", 1).add("jazz", 2).consolidate()
    index._state.move(configure("tags", None, {})._replace(device="gpu:0,1"))
    (before,) = index.segments()
    borrowed = before.workspaces.borrow()
    assert index.remove(2).match(["jazz"])[0] == [1]
    index.move("cpu")
    cards.forgotten.clear()
    before.workspaces.give_back(borrowed)
    assert cards.forgotten == list(before.tables)


def test_copies_of_an_index_that_moves_to_other_cards_are_forgotten_once(cards: Cards) -> None:
    index = my.TagIndex().add("jazz", 1).consolidate()
    for device in ("gpu:0,1", "gpu:1,0"):
        index._state.move(configure("tags", None, {})._replace(device=device))
        (segment,) = index.segments()
        borrowed = segment.workspaces.borrow()
    assert len(cards.forgotten) == 1
    index._state.move(configure("tags", None, {})._replace(device="gpu:0,1"))
    cards.forgotten.clear()
    segment.workspaces.give_back(borrowed)  # late, when others have copies
    assert not cards.forgotten


@pytest.mark.parametrize("room", [0, 1000])
def test_a_card_that_is_all_but_full_is_an_error(room: int, cards: Cards) -> None:
    index = my.TagIndex().add_many([{f"tag {i}"} for i in range(5000)], range(5000)).consolidate()
    (segment,) = index.segments()
    cards.room = room
    with pytest.raises(my.DeviceError, match=f"too little memory: room for {room:,} bytes"):
        Segment(segment.settings._replace(device="gpu:0,1"), segment.vocabulary, segment.tables)


def test_removals_are_seen_without_asking_a_card(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = segment_of(2)
    asked: list[Card] = []
    monkeypatch.setattr(placement, "room", asked.append)
    fewer = segment.remove(Removals(np.array([2, 3]), []))
    assert found(fewer) == [[0, 1], [1], [], [4, 5]]
    assert not asked
    places = {place for _ in range(2) for place, _ in fewer.workspaces.borrow()}
    assert places == set(CARDS)
