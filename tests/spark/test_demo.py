"""The demo in small: the stream, the changes that it takes up, the check and the report."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from rich.console import Console

import matchyard as my
from matchyard.bench.demo import demo, report
from matchyard.bench.demo.check import check
from matchyard.bench.demo.pipeline import Places
from matchyard.bench.demo.tally import NEW_KEY, PER_CHANGE, Batch, Change, Seen, Tally
from matchyard.bench.demo.view import View
from matchyard.errors import UsageError


class Done(NamedTuple):
    folder: Path
    is_right: bool
    tally: Tally
    said: str


@pytest.fixture(scope="module")
def done(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """One run of 2 000 interests that the tests below look at."""
    folder = tmp_path_factory.mktemp("run")
    kept: list[Tally] = []
    with pytest.MonkeyPatch.context() as patch, Path(folder / "said").open("w") as file:
        patch.setattr(demo, "Console", lambda: Console(file=file, width=100))
        patch.setattr(demo, "Tally", lambda *given: kept.append(Tally(*given)) or kept[0])
        patch.setattr(demo, "_LARGE", 2000)
        is_right = demo.run(2000, 4.0, folder / "demo", 2, 1)
    return Done(folder / "demo", is_right, kept[0], (folder / "said").read_text())


def test_the_demo_takes_up_changes_and_finds_what_a_batch_run_finds(done: Done) -> None:
    assert done.is_right
    assert len(done.tally.versions()) >= 2
    assert sum(done.tally.caught.values()) > 0
    assert done.tally.total("events") == done.tally.written
    pairs = re.search(r"([\d,]+) pairs of [\d,]+ tweets in \d versions: the same", done.said)
    assert pairs is not None
    assert int(pairs[1].replace(",", "")) == done.tally.total("matches") > 0
    assert "\x1b" not in done.said


def test_unreadable_tweets_become_dead_letters(done: Done) -> None:
    rows = pq.read_table(done.folder / "dead_letters").to_pylist()
    assert len(rows) == done.tally.total("bad") > 0
    assert all(row["reason"] for row in rows)


def test_the_report_holds_the_numbers_and_needs_no_other_file(done: Done) -> None:
    page = (done.folder / "report.html").read_text()
    assert page.count("<svg") == 5
    for number in ("matches", "events", "bad"):
        assert f"{done.tally.total(number):,}" in page
    assert not re.findall(r'(?:src|href)="(?!#)', page.replace("xlink:", ""))


def test_the_running_session_is_used_and_stays(done: Done, spark: Any) -> None:
    assert not (done.folder / "spark.log").exists()
    assert spark.range(3).count() == 3
    assert spark.streams.active == []


@pytest.mark.parametrize("victim", ["matches", "dead_letters"])
def test_the_check_sees_rows_that_are_missing(done: Done, victim: str, tmp_path: Path) -> None:
    places = Places(done.folder)
    assert check(places, done.tally.changes, 1).problem is None
    lost = tmp_path / victim
    setattr(places, victim, lost)
    for folder in sorted((done.folder / victim).glob("batch=*")):
        table = pq.read_table(folder, partitioning=None)
        (lost / folder.name).mkdir(parents=True)
        pq.write_table(table.slice(1), lost / folder.name / "part.parquet")
    assert check(places, done.tally.changes, 1).problem is not None


def test_the_check_sees_changes_that_the_stream_did_not_heed(done: Done) -> None:
    change = done.tally.changes[0]
    other = change._replace(added=[*change.added[1:], (["ba"], 5)])
    found = check(Places(done.folder), [other, *done.tally.changes[1:]], 1)
    assert "an embedded index of the same version finds" in str(found.problem)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
def test_the_view_fits_the_terminal(width: int, height: int) -> None:
    tally = Tally(1_000_000, 30.0, started=1.0, written=500_000)
    tags = ["ja_sivehoba", "ja_duga", "@dohubi", "ja_gezoga", "zh_jexora"] * 4
    for number in range(60):
        tally.batches.append(Batch(number, number / 2, 0.5, 10_000, 150_000, 2, 4))
        tally.seen.append(Seen("tweet-1", tags, 1234, [NEW_KEY + PER_CHANGE, 333_333], 4))
    for number in range(1, 4):
        added = [(tags[:2], NEW_KEY + number * PER_CHANGE)] * 500
        tally.changes.append(Change(number, number + 1, added, [1] * 100, 20.0, 21.5))
    console = Console(width=width, height=height, force_terminal=True)
    lines = console.render_lines(View(console, tally).render())
    assert len(lines) < height
    text = ["".join(part.text for part in line) for line in lines]
    assert sum("joined" in line for line in text) == 3
    assert sum("→ 1234 users" in line for line in text) >= 4


@pytest.mark.slow
def test_the_command_starts_its_own_spark_and_says_little(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "matchyard", "demo", "--size", "200", "--seconds", "1"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "the same as an embedded index finds" in " ".join(ran.stdout.split())
    assert "\x1b" not in ran.stdout
    assert (tmp_path / "demo" / "report.html").exists()
    assert (tmp_path / "demo" / "spark.log").exists()
    assert len(my.open(tmp_path / "demo" / "interests.index", verify=True)) >= 200


def test_folders_of_others_are_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "tweets").mkdir()
    with pytest.raises(UsageError, match="holds other things"):
        demo.run(10, 1.0, tmp_path, 1, 1)
    assert (tmp_path / "tweets").exists()


def test_without_pyspark_the_demo_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(my.UsageError, match=r"pip install 'matchyard\[spark,plot\]'"):
        demo.run(10, 1.0, tmp_path / "demo", 1, 1)


def test_without_matplotlib_the_report_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "matchyard[plot]" in report._plots(Tally(1, 1.0))[0]
