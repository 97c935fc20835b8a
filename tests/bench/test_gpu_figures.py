"""Figures on a GPU, which the CPU stands in for: what is written, judged and drawn with the rest."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from benchmarks.shared import steps, twig_claims
from tests.bench.figures import FIGURES, tiny
from typer.testing import CliRunner

import matchyard as my
from matchyard import engine
from matchyard.bench.figures import claims, figures, reproduce
from matchyard.cli import app
from matchyard.gpu import devices
from matchyard.gpu.devices import Card
from matchyard.index import placement, workspaces

ON_GPU = [name for name in FIGURES if reproduce.gpu_algorithms(FIGURES[name])]
QUICK = [name for name in ON_GPU if not name.startswith(("ccm-fig", "twig-fig"))]
ONE_OF_EACH = [*QUICK, "ccm-fig8", "twig-fig7", "twig-fig10"]
STEPS = "ccm-fig5"  # of a launch, which the CPU cannot stand in for
LONG = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ON_GPU
    if name not in (*ONE_OF_EACH, STEPS)
]


@pytest.fixture
def card(monkeypatch):
    """A device "gpu" on which the algorithms of the CPU match."""
    find = engine.find_algorithm
    monkeypatch.setattr(engine, "pick", lambda devices, runs_on, what: devices)
    monkeypatch.setattr(
        engine, "find_algorithm", lambda found, name, device="cpu": find(found, name)
    )
    monkeypatch.setattr(placement, "cards_of", lambda devices: (Card(0, 0, 1),))
    monkeypatch.setattr(placement, "room", lambda place: 1 << 40)
    monkeypatch.setattr(workspaces, "on", lambda place: nullcontext())
    monkeypatch.setattr(devices, "card_state", lambda: devices.CardState("a card", 1, 1))
    used = iter(range(1_000, 10**9, 1_000))
    monkeypatch.setattr(devices, "used_bytes", lambda: next(used))
    monkeypatch.setattr(steps, "ON_GPU", {"tags": 256, "predicates": 256})


def quiet(message):
    pass


def run(name, folder, on_gpu=True):
    act = reproduce.run_on_gpu if on_gpu else reproduce.run_figure
    return act({name: tiny(name)}, name, None, 2, folder, True, quiet)


def read(path):
    return json.loads(path.read_text())


def test_figures_with_a_gpu_are_those_of_papers_that_had_one():
    assert {name.split("-")[0] for name in ON_GPU} == {"tagmatch", "thesis", "ccm", "twig"}
    assert "tagmatch-fig10" not in ON_GPU  # databases
    assert reproduce.gpu_algorithms(FIGURES["twig-fig7"]) == ["stacks"]


@pytest.mark.parametrize("name", [*ONE_OF_EACH, *LONG])
def test_what_runs_on_a_gpu_is_written_apart(name, card, quick, tmp_path):
    run(name, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.gpu.json"]
    report = read(tmp_path / f"{name}.gpu.json")
    assert (report["card"], report["size"]) == ("a card", tiny(name).size)
    assert report["machine"]["cpu"]
    places = [f"{row['series']} {row['x']} {row.get('panel')}" for row in report["rows"]]
    assert all("(GPU)" in place for place in places)
    assert all(row["y"] > 0 for row in report["rows"])


@pytest.mark.parametrize("name", ["tagmatch-fig5", "tagmatch-fig9", "ccm-table2", "twig-fig8"])
def test_both_are_judged_and_drawn_together(name, card, quick, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(reproduce, "draw", lambda figure, rows, *rest: drawn.append(rows))
    run(name, tmp_path, on_gpu=False)
    alone = read(tmp_path / f"{name}.json")
    assert "a card" not in alone["reason"]
    run(name, tmp_path)
    reproduce.redraw({name: tiny(name)}, name, tmp_path, True)
    both = read(tmp_path / f"{name}.json")
    assert both["rows"] == alone["rows"] == drawn[0]
    assert drawn[1] == alone["rows"] + read(tmp_path / f"{name}.gpu.json")["rows"]
    assert "a card" in both["reason"]


class Launches:
    """What `counting` has for single events, without a card."""

    def __init__(self):
        self.done, self._lane = [], SimpleNamespace(stream="a stream")
        self._halves, self._totals = (
            SimpleNamespace(nbytes=n_bytes, data=SimpleNamespace(memset_async=self.reset))
            for n_bytes in (800, 8)
        )

    def reset(self, value, n_bytes, stream):
        self.done.append((value, n_bytes, stream))

    def _launch(self, event):
        self.done.append(event)

    def _wait(self, number):
        return number

    def match(self, event):
        if event:  # one without constraints is not launched
            self._launch(event)
            self._wait(event)


@pytest.mark.parametrize("by_memset", [False, True])
def test_the_steps_of_an_event_are_those_of_its_launch(by_memset):
    code, one = figures.load(FIGURES[STEPS]), Launches()
    found = code._steps(one.match, [1, 0, 2, 3], one, by_memset)
    assert list(found) == ["there", "kernel", "back", "all"]
    assert min(found.values()) > 0
    resets = [(0, 800, "a stream"), (0, 8, "a stream")] if by_memset else []
    assert one.done == [*resets, 1, *resets, 2, *resets, 3]
    one.done.clear()
    one.match(4)
    assert one.done == [4]  # it is as it was


def test_steps_without_a_gpu_reproduce_nothing():
    judge = figures.load(FIGURES[STEPS]).judge
    rows = [{"series": "here", "panel": "counting", "x": "all", "y": 200.0}]
    assert judge(FIGURES[STEPS], rows)[0] == "not"
    for reset, there in (("in the kernel", 2.0), ("by memset", 9.0)):
        rows += [
            {"series": "here", "panel": f"counting (GPU), reset {reset}", "x": step, "y": y}
            for step, y in (("there", there), ("kernel", 10.0), ("back", 4.0), ("all", there + 14))
        ]
    word, reason = judge(FIGURES[STEPS]._replace(card="a card"), rows)
    assert word == "reproduced"
    assert "of 16.0 µs on a card the kernel takes 62%" in reason
    assert "with memset an event takes 1.44× as long" in reason


def test_a_gpu_with_another_size_is_left_out(card, quick, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "draw", lambda *given: None)
    name = "tagmatch-table1"
    reproduce.run_on_gpu({name: tiny(name)}, name, 1000, 2, tmp_path, True, quiet)
    run(name, tmp_path, on_gpu=False)
    assert "a card" not in read(tmp_path / f"{name}.json")["reason"]


def test_redrawing_keeps_that_others_worked_meanwhile(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "draw", lambda *given: None)
    monkeypatch.setattr(reproduce.machine.Others, "cores", lambda self: 1.5)
    name = "tagmatch-table1"
    run(name, tmp_path, on_gpu=False)
    before = read(tmp_path / f"{name}.json")
    reproduce.redraw({name: tiny(name)}, name, tmp_path, True)
    assert read(tmp_path / f"{name}.json") == before
    assert before["reason"].count("(measured while others used 1.5") == 1


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(my.UsageError, match="run `matchyard reproduce ccm-fig8` first"):
        reproduce.redraw(FIGURES, "ccm-fig8", tmp_path, True)
    with pytest.raises(my.UsageError, match="no algorithm of hem-fig5 runs on a GPU"):
        run("hem-fig5", tmp_path)


def test_the_gpu_answers_what_was_claimed_of_one():
    figure = FIGURES["ccm-fig8"]._replace(card="a card")
    found = {"counting": [4.0], "sff": [2.0]}
    assert claims.speedups(figure, found, "counting", "sff") == ([0.5], "counting")
    found["counting (GPU)"] = [0.2]
    assert claims.speedups(figure, found, "counting", "sff") == ([10.0], "counting on a card")


def test_the_gpu_stands_for_stacks_in_every_comparison():
    figure = FIGURES["twig-fig10"]._replace(card="a card")
    series = {
        "stacks / yfilter": [0.5],
        "stacks (GPU) / yfilter": [8.0],
        "lazy_dfa / yfilter": [2.0],
    }
    found, called = twig_claims.of_stacks(figure, {"p": series})
    assert (found["p"]["stacks / yfilter"], found["p"]["lazy_dfa / yfilter"]) == ([8.0], [2.0])
    assert called == "stacks on a card"


def test_a_figure_that_fails_does_not_keep_others_from_running(monkeypatch):
    tried = []

    def fail_first(figures, name, **given):
        tried.append(name)
        if len(tried) == 1:
            raise my.DeviceError("no memory")

    monkeypatch.setattr(reproduce, "run_on_gpu", fail_first)
    done = CliRunner().invoke(app, ["reproduce", "all", "--device", "gpu"])
    assert tried == ON_GPU
    assert done.exit_code == 1
    assert f"{ON_GPU[0]} failed: DeviceError: no memory" in done.output
    assert f"1 of {len(ON_GPU)} figures failed: {ON_GPU[0]}" in done.output
    assert f"{ON_GPU[1]} took " in done.output


@pytest.mark.parametrize("given", [["--device", "auto"], ["--device", "gpu", "--redraw"]])
def test_only_what_there_is_can_be_asked_for(given):
    with pytest.raises(my.UsageError, match="device cpu or gpu"):
        CliRunner().invoke(app, ["reproduce", "all", *given], catch_exceptions=False)


def test_a_plot_shows_both(card, quick, tmp_path):
    rows = [{"series": name, "x": x, "y": x} for name in ("a", "a (GPU)") for x in (1, 2)]
    figures.draw(FIGURES["tagmatch-table1"], rows, "partly", tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000
