"""Two revisions beside each other: what is called faster, slower or noise, and what each side answers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import matchyard as my
from matchyard.bench.compare import against
from matchyard.errors import UsageError

JOB = against.Job("tags", "twitter", 300, "rarest")
SOURCE = Path(my.__file__).parents[1]


def verdicts(monkeypatch, slower, spread, n_matches=7, job=JOB):
    """Verdicts where matching takes the working tree so many times as long, give or take."""
    rng = np.random.default_rng(1)

    class Side:
        def __init__(self, source, job):
            self.answers, self.is_new = {}, source == Path("new")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def ask(self, command):
            name = command.split()[0]
            taken = (slower if self.is_new else 1) * (1 + spread * rng.normal())
            return {"build": 1.0, "events": 512, "pass": [taken, n_matches if self.is_new else 7]}[
                name
            ]

    monkeypatch.setattr(against, "_Side", Side)
    monkeypatch.setattr(against, "_checkout", lambda: Path("new"))
    monkeypatch.setattr(against, "exported", lambda revision: Path("old"))
    return [verdict.word for verdict in against.compare(job, "HEAD")]


def test_what_is_slower_is_told_from_noise(monkeypatch):
    assert verdicts(monkeypatch, 1.1, 0.03) == ["noise", "slower"]
    assert verdicts(monkeypatch, 0.9, 0.03) == ["noise", "faster"]
    assert verdicts(monkeypatch, 1.0, 0.03) == ["noise", "noise"]
    assert verdicts(monkeypatch, 1.01, 0.0001) == ["noise", "noise"]  # too little to matter


def test_on_a_card_each_way_to_use_the_matches_has_a_verdict(monkeypatch):
    job = JOB._replace(device="gpu")
    assert verdicts(monkeypatch, 1.1, 0.03, job=job) == ["noise", "slower", "slower", "slower"]
    told = [str(verdict) for verdict in against.compare(job, "HEAD")]
    assert [one.partition(":")[0] for one in told] == ["build", "counted", "read", "kept"]
    assert all("of its wall time" in one for one in told)


def test_a_folder_of_sources_is_as_good_as_a_revision(tmp_path, monkeypatch):
    (tmp_path / "old" / "src" / "matchyard").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "old" / "src"
    assert against.sources_of("old") == against.sources_of(str(source)) == source
    assert against._checkout() == SOURCE  # without a repository


def test_revisions_that_match_differently_are_not_compared(monkeypatch):
    with pytest.raises(UsageError, match="match differently"):
        verdicts(monkeypatch, 1.0, 0.01, n_matches=8)


def test_the_interval_holds_the_median_in_most_cases():
    rng = np.random.default_rng(2)
    found = [against.judge("match", rng.lognormal(0, 0.1, 9).tolist()) for _ in range(2_000)]
    assert np.mean([one.low <= 1 <= one.high for one in found]) > 0.94


def test_a_side_builds_and_matches_for_itself():
    with against._Side(SOURCE, JOB) as side:
        assert side.ask("build") > 0
        assert side.ask("events 0.001") >= 512
        first, second, third = (side.ask(f"pass {number} 600 match") for number in (0, 0, 1))
        ways = [side.ask(f"pass 0 600 {way}")[1] for way in ("counted", "read", "kept")]
    assert first[1:] == second[1:] != third[1:]
    assert ways == [first[1]] * 3
    source = my.workload("tags", "twitter", 300, 1)
    index = my.TagIndex().add_many(*source.subscriptions(0, 300)).consolidate()
    found = index.match(source.events(600))
    assert first[1:] == [found.work.matches, int(found.keys.sum())]


def test_a_side_that_fails_is_an_error(capfd):
    with (
        against._Side(SOURCE, JOB._replace(algorithm="none")) as side,
        pytest.raises(UsageError, match="failed at 'build'"),
    ):
        side.ask("build")
    assert "none" in capfd.readouterr().err


def test_a_revision_is_exported_once(tmp_path, monkeypatch):
    def git(*words):
        subprocess.run(["git", "-C", tmp_path, *words], check=True, capture_output=True)

    (tmp_path / "src" / "matchyard").mkdir(parents=True)
    (tmp_path / "src" / "matchyard" / "__init__.py").write_text("old = 1\n")
    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one")
    (tmp_path / "src" / "matchyard" / "__init__.py").write_text("new = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = against.exported("HEAD")
    assert (folder / "matchyard" / "__init__.py").read_text() == "old = 1\n"
    assert against.exported("HEAD") == folder
    with pytest.raises(UsageError, match="no revision 'nowhere'"):
        against.exported("nowhere")


def test_fewer_than_nine_pairs_are_refused():
    with pytest.raises(UsageError, match="expected at least 9"):
        next(against.compare(JOB, "HEAD", pairs=3))
