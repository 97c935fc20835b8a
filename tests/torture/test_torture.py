"""The short form of the attacks, in every test run: a few tries of each, and none may fail."""

from __future__ import annotations

from pathlib import Path

import pytest

import matchyard as my
from tests.torture import (
    changes,
    crafted,
    disks,
    flips,
    fuzz,
    kills,
    memory,
    rules,
    signals,
    threads,
)
from tests.torture.arena import Tally, in_children


def check(tally: Tally, least: int) -> None:
    """Check that no try failed, and that there were enough tries."""
    assert tally.is_clean, "\n".join(tally.failures[:10])
    assert tally.tries >= least, tally


def test_kills_lose_nothing(tmp_path: Path) -> None:
    check(kills.run(tmp_path, 1, 0, least=40), 40)


def test_flips_are_noticed_with_default_settings(tmp_path: Path) -> None:
    for tally in flips.run(tmp_path, 1, 150, with_large=False):
        check(tally, 150)
        assert tally.outcomes["refused"] > 100


def test_crafted_indexes_are_refused_or_answer_wrongly_at_worst(tmp_path: Path) -> None:
    tally = crafted.run(tmp_path, 1, some=150)
    check(tally, 150)
    assert tally.outcomes["refused"] > 75


def test_a_disk_that_is_full_loses_nothing(tmp_path: Path) -> None:
    check(disks.run(tmp_path, 1, 0, least=20), 20)


def test_hostile_inputs_are_read_alike_everywhere() -> None:
    for tally in fuzz.run(1, 0, least=2000):
        check(tally, 400)
        assert tally.outcomes["compared"] > 100


@pytest.mark.parametrize("engine", my.ENGINES)
def test_changes_in_any_order_are_those_of_a_plain_list(tmp_path: Path, engine: str) -> None:
    check(changes.run(tmp_path, 1, engine, 0, least=300), 300)


def test_threads_see_what_was_acknowledged(tmp_path: Path) -> None:
    check(threads.run(tmp_path, 1, 1.5), 10)


def test_interrupts_and_forks_leave_an_index_that_answers() -> None:
    for tally in signals.run(1, 0, least=80):
        check(tally, 20)


def test_opens_leave_nothing_behind(tmp_path: Path) -> None:
    check(memory.run(tmp_path, 1, 0, least=40), 40)


def test_hostile_rules_are_left_and_others_are_read(tmp_path: Path) -> None:
    tally = rules.run(tmp_path, 1, 0, least=20)
    check(tally, 20)
    assert tally.outcomes["left"] > 5


def test_a_crash_a_hang_and_a_stray_exception_are_told_apart() -> None:
    """The arena must report failures: an attack that cannot fail would be worthless."""

    def work(job: str) -> str:
        if job == "dies":
            import os

            os.kill(os.getpid(), 9)
        if job == "hangs":
            import time

            time.sleep(60)
        if job == "raises":
            raise ZeroDivisionError
        if job == "refuses":
            raise my.UsageError("no")
        return job

    jobs = ["fine", "dies", "raises", "hangs", "refuses", "fine"]
    found = [outcome.split(":")[0] for _, outcome in in_children(jobs, work, patience_s=1.0)]
    assert found == ["fine", "crashed", "crashed", "hung", "refused", "fine"]
