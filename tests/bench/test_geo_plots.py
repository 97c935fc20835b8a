"""Pictures of meshes with their load, small and large."""

import numpy as np
import pytest

from matchyard import geo
from matchyard.bench.compare.report import load_pyplot
from matchyard.bench.figures import plots
from matchyard.bench.figures.geo_plots import MOST_NAMED, Panel, draw_load, draw_loads


@pytest.fixture
def texts(monkeypatch):
    """All texts of the plots that were drawn."""
    from matplotlib.figure import Figure

    found, save = [], Figure.savefig

    def savefig(plot, *args, **options):
        found.extend(text.get_text() for text in plot.findobj(load_pyplot().Text))
        return save(plot, *args, **options)

    monkeypatch.setattr(Figure, "savefig", savefig)
    return found


def sending(n_nodes):
    mesh = geo.uniform(n_nodes, side=3, r_c=1.5, seed=1)
    return geo.send(mesh, geo.workload.uniform(mesh, 3, 3), seed=1)


@pytest.mark.parametrize("n_nodes", [MOST_NAMED, MOST_NAMED + 1])
def test_only_small_meshes_have_names(n_nodes, texts, tmp_path):
    found = sending(n_nodes)
    draw_load(found.mesh, found.load, tmp_path / "a.png", trees=[found.follow("0")])
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert f"{n_nodes} nodes" in texts
    assert (found.mesh.name(n_nodes - 1) in texts) == (n_nodes <= MOST_NAMED)


def test_panels_stand_beside_each_other(texts, tmp_path):
    found = sending(50)
    silent = np.zeros(50)
    draw_loads([Panel(found.mesh, found.load, "busy"), Panel(found.mesh, silent, "silent")],
               tmp_path / "b.png", "both")  # fmt: skip
    assert {"busy", "silent", "both"} <= set(texts)


def test_bars_for_comparison_leave_room_for_others(texts, tmp_path):
    rows = [{"series": "a", "x": "ours", "y": 2.0}, {"series": "a", "x": "other", "y": 2.2, "beside": True},
            {"series": "a", "x": "huge", "y": 48_000.0, "beside": True}]  # fmt: skip
    plots.draw("title", plots.Axes("x", "y", False, False), rows, [], tmp_path / "c.png")
    assert {"2", "2.2", "» 48 k"} <= set(texts)
