"""Save a live index while other threads change it: the short form of the attack `tests.torture.saves`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import matchyard as my
from tests.torture.arena import Tally
from tests.torture.saves import Changed

_INDEX = str(Path(my.__file__).parent / "index")
_A_MOMENT_S = 0.05  # at most, for a thread that may have to wait for another lock of this one


@pytest.mark.usefixtures("cramped", "hasty", "quick_saves")
@pytest.mark.parametrize("engine", my.ENGINES)
def test_a_saved_version_is_the_state_of_one_moment_beside_four_threads(
    engine: str, tmp_path: Path
) -> None:
    tally = Tally("saves")
    Changed(engine, 1).save_often(tmp_path / "a.index", tally, engine, 6)
    assert tally.is_clean, tally.failures[0]
    assert tally.outcomes["saved"] == 6


@pytest.mark.usefixtures("quick_saves")
@pytest.mark.parametrize(
    ("engine", "has_recent"), [*((engine, False) for engine in my.ENGINES), ("tags", True)]
)
def test_another_thread_may_replace_a_rule_at_every_line_of_a_save(
    engine: str, has_recent: bool, tmp_path: Path
) -> None:
    changed = Changed(engine, 1, "a")
    changer = changed.changers[0]

    def replace() -> None:
        changer.replace(changer.always[0])
        changed.index.match_one(changer.event_of(changer.always[0]))

    def save(number: int) -> bool:
        changed.index.consolidate()
        if has_recent:
            changer.replace(changer.always[1])
        beside = _Beside(replace, number, changed.index._state.lock)
        wrong = changed.save_and_open(tmp_path / "a.index", beside)
        assert not wrong, f"line {number}: {wrong}"
        return beside.has_run

    with ThreadPoolExecutor(1) as pool:  # the main thread would leave the work to others
        save_beside = partial(pool.submit, save)
        lines = takewhile(lambda number: save_beside(number).result(), count())
        assert sum(1 for _ in lines) > 50


class _Beside:
    """Lets another thread work as soon as this one has come to the line `number` of the index. Each line counts as
    often as it runs without the lock: with it, the other thread would only wait for its release."""

    def __init__(self, work: Callable[[], None], number: int, lock: Any) -> None:
        self.thread, self.n_left, self.lock = threading.Thread(target=work), number, lock
        self.has_run = False

    def __enter__(self) -> None:
        self.before = sys.gettrace()
        sys.settrace(self._trace)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.has_run or not frame.f_code.co_filename.startswith(_INDEX):
            return None
        if event == "line" and not self.lock._is_owned():
            self.n_left -= 1
            self.has_run = self.n_left < 0
        if self.has_run:
            self.thread.start()
            self.thread.join(_A_MOMENT_S)
        return self._trace

    def __exit__(self, *error: object) -> None:
        sys.settrace(self.before)
        if self.has_run:
            self.thread.join()
