"""Every figure runs end to end at a tiny size, and says what came out of it."""

import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
from benchmarks.shared import steps
from tests.bench.figures import FIGURES, ROOT, SIZE, tiny

import matchyard as my
from matchyard.bench.compare import machine
from matchyard.bench.figures import figures, plots, reproduce
from matchyard.bench.rivals import postgres, subsets


def test_figures_are_listed_as_people_count():
    names = [name for name in FIGURES if name.startswith("tagmatch-fig")]
    assert names == [f"tagmatch-fig{number}" for number in range(2, 12)]


@pytest.mark.parametrize("name", FIGURES)
def test_folder_says_what_it_reproduces(name):
    figure, code = FIGURES[name], figures.load(FIGURES[name])
    assert callable(code.run)
    assert callable(code.judge)
    assert all((figure.title, figure.asks, figure.source, figure.x, figure.y))
    assert figure.size >= 1000
    assert all({"series", "x", "y"} <= set(point) for point in figure.published)
    assert figure.published or "no " in figure.source, "without numbers, the source says why"


# Figures of predicates share one runner, and those of twigs another: the others run with --slow.
SHARED = ("hem", "ccm", "twig")
ONE_OF_EACH = (
    "hem-fig3",
    "hem-fig11",
    "ccm-fig5",
    "ccm-table2",
    "twig-fig7",
    "twig-fig8",
    "twig-fig10",
)
QUICK = [name for name in FIGURES if name in ONE_OF_EACH or not name.startswith(SHARED)]
LONG = [pytest.param(name, marks=pytest.mark.slow) for name in FIGURES if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *LONG])
def test_figure_runs_and_is_judged(name, quick, tmp_path, capsys):
    found = {name: tiny(name)}
    verdict = reproduce.run_figure(found, name, None, 2, tmp_path, False, lambda message: None)
    assert verdict in figures.VERDICTS
    report = json.loads((tmp_path / f"{name}.json").read_text())
    assert report["reason"]
    assert all(row["y"] > 0 for row in report["rows"])
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert verdict in capsys.readouterr().out


@pytest.mark.parametrize("name", FIGURES)
def test_judge_can_say_not(name):
    """The opposite of what was found, with what it is compared to far ahead, is no reproduction."""
    report = json.loads((FIGURES[name].folder / f"{name}.json").read_text())
    figure = FIGURES[name]._replace(threads=report["threads"], size=report["size"])
    on_gpu = reproduce._of_same_size(figure.folder / f"{name}.gpu.json", figure)
    card, fed = reproduce.card_of(on_gpu, report["threads"])
    figure = figure._replace(cores=report["machine"]["cores"], card=card, fed=fed)
    contrary = [
        row
        | {"y": 1e9 if row.get("beside") else 1 / row["y"]}
        | {field: 1 / value for field, value in row.items() if field.endswith("_per_s")}
        for row in [*report["rows"], *on_gpu.get("rows", [])]
    ]
    assert figures.load(figure).judge(figure, contrary)[0] == "not"


def test_overview_agrees_with_results():
    overview = (ROOT / "benchmarks" / "figures" / "README.md").read_text()
    for name, figure in FIGURES.items():
        report = json.loads((figure.folder / f"{name}.json").read_text())
        (line,) = [line for line in overview.splitlines() if line.startswith(f"| [{name}]")]
        assert f"**[{report['verdict']}](" in line
        assert report["reason"] in line


def test_panels_have_tables_of_their_own(capsys):
    rows = [{"series": "a", "panel": panel, "x": 1, "y": y} for panel, y in (("p", 2), ("q", 3))]
    assert list(plots.series_of(rows, by_panel=True)) == [("p", "a"), ("q", "a")]
    figures.show(FIGURES["tagmatch-fig4"], rows, "not", "because")
    assert "a · p" in capsys.readouterr().out


def random_sets(seed, n_sets, most, names="abcdefghij"):
    chooser = random.Random(seed)
    sets = [chooser.sample(names, chooser.randint(1, most)) for _ in range(n_sets)]
    return pa.array(sets, pa.list_(pa.string()))


@pytest.fixture(scope="module")
def stored():
    keys = np.arange(400) // 3  # a key can have several sets, and equal sets occur
    return random_sets(1, 400, 4), keys


@pytest.fixture(scope="module")
def index(stored):
    return my.TagIndex().add_many(*stored).consolidate()


EVENTS = pa.array([*random_sets(2, 60, 8, "abcdefghijxyz").to_pylist(), ["x"], []])


@pytest.mark.parametrize("name", subsets.RIVALS)
def test_rivals_find_what_the_index_finds(name, stored, index):
    if name not in subsets.usable_rivals():
        pytest.skip(f"{name}: {postgres.missing()}")
    rival = subsets.RIVALS[name](*stored, 2)
    found, expected = rival.match(EVENTS), index.match(EVENTS)
    rival.close()
    assert [sorted(keys) for keys in found] == [sorted(keys) for keys in expected]


@pytest.mark.skipif(postgres.missing() is not None, reason="needs PostgreSQL")
def test_postgres_uses_its_index_and_leaves_nothing():
    tags, keys = my.workload("tags", "twitter", 20_000).subscriptions(0, 20_000)
    rival = subsets.Gin(tags, keys, 2)
    assert "Bitmap Index Scan on stored_tags_idx" in rival.plan()
    assert rival.n_bytes() > 1_000_000
    folder, process = (rival._server.close.peek()[2][n] for n in (1, 0))
    rival.close()
    assert process.returncode == 0
    assert not Path(folder).exists()


@pytest.mark.skipif(
    postgres.missing() is not None or postgres._with_parent() == [], reason="needs PostgreSQL"
)
def test_a_server_ends_with_a_killed_benchmark():
    code = "from matchyard.bench.rivals.postgres import Server; server = Server(); "
    code += "print(server.close.peek()[2][0].pid, server._folder, flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pid, folder = child.stdout.readline().split()
    child.kill()
    child.communicate()
    for _ in range(100):
        if not psutil.pid_exists(int(pid)):
            break
        time.sleep(0.1)
    else:
        pytest.fail("the server runs on")
    shutil.rmtree(folder)


def test_a_machine_without_postgres_is_told_so(monkeypatch, capsys):
    monkeypatch.setattr(postgres, "_programs", lambda: None)
    assert subsets.Gin not in subsets.usable_rivals().values()
    assert "PostgreSQL is left out: PostgreSQL is not installed" in capsys.readouterr().err
    with pytest.raises(my.UsageError, match="apt install postgresql"):
        subsets.Gin(pa.array([["a"]]), np.arange(1))


def test_a_server_that_does_not_start_says_why(monkeypatch):
    if postgres.missing() is not None:
        pytest.skip(postgres.missing())
    monkeypatch.setitem(postgres._SETTINGS, "shared_buffers", "nonsense")
    with pytest.raises(my.UsageError, match=r"PostgreSQL does not start: .*shared_buffers"):
        postgres.Server()


@pytest.mark.parametrize("n_shards", [1, 3])
def test_shards_together_find_everything(n_shards, stored, index):
    sharded = subsets.Shards(subsets.Join, *stored, n_shards)
    subsets.check(sharded.match(EVENTS), index.match(EVENTS))
    sharded.close()


def test_race_fails_loudly_when_matches_differ(stored):
    tags, keys = stored
    other = my.TagIndex().add_many(tags.slice(0, 399), keys[:399]).consolidate()
    source = my.workload("tags", "peers", 10)
    source.events = lambda n_events, start: pa.array([tags[399].as_py()] * n_events)
    with pytest.raises(subsets.Disagreement, match="event 0: the rival found"):
        subsets.race(subsets.Sets(*stored), other, source, 0.001)


def test_rivals_refuse_sets_without_tags():
    empty = pa.array([["a"], []], pa.list_(pa.string()))
    with pytest.raises(my.UsageError, match="without tags"):
        subsets.Gin(empty, np.arange(2))


def test_missing_duckdb_is_named(monkeypatch, stored):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(my.UsageError, match="development dependencies"):
        subsets.Join(*stored)


def test_memory_is_all_of_the_index(index):
    assert sum(index.memory().values()) == index.info()["index_bytes"]


def test_search_space_is_what_partitions_hold():
    source = steps.workload("peers", SIZE)
    whole = steps.filled(source, "tagmatch", {"max_partition": SIZE})
    small = steps.filled(source, "tagmatch", {"max_partition": 10})
    events = source.events(50)
    (few, many_sets), (many, few_sets) = (index.search_space(events) for index in (whole, small))
    assert few < many
    assert few_sets < many_sets <= small.info()["distinct"]


def test_workload_with_sets_of_one_size():
    source = steps.workload("peers", 500, extra_tags=3, tags_each=4)
    tags, _ = source.subscriptions(0, 500)
    assert {len(row) for row in tags.to_pylist()} == {4}
    assert {len(row) for row in source.events(50).to_pylist()} == {7}


def test_work_of_others_is_not_our_own():
    others, start = machine.Others(), time.perf_counter()
    while time.perf_counter() - start < 0.3:
        pass
    assert 0 <= others.cores() < machine.cores()
