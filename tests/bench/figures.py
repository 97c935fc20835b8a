"""Figures at a tiny size, for tests that run them."""

from pathlib import Path

from matchyard.bench.figures.figures import find_figures

ROOT = Path(__file__).parents[2]
FIGURES = find_figures(ROOT)
SIZE = 2000
_IN_SMALL_MESHES = {
    "requests": 20, "runs": 2, "paths": 20, "networks": 2, "meshes": 1, "nodes": [500, SIZE],
    "asked": [500, SIZE], "look_ups": [1, 4],
}  # fmt: skip


def tiny(name):
    """A figure with few subscriptions and events."""
    figure = FIGURES[name]
    short = {"pass_s": 0.001, "seconds": 0.05, "loads": [25, 50]}
    if "requests" in figure.settings or "paths" in figure.settings:  # of meshes
        short |= _IN_SMALL_MESHES
    settings = figure.settings | {k: v for k, v in short.items() if k in figure.settings}
    if (
        settings.get("varies") == "attributes"
    ):  # hundreds of them have hundreds of thousands of cells
        settings["values"] = settings["values"][:3]
    if name.startswith("twig"):
        return figure._replace(size=64, settings=_with_little_xml(settings))
    return figure._replace(size=SIZE if name.startswith("t") else SIZE // 4, settings=settings)


def _with_little_xml(settings):
    """Settings of a figure of twigs with a few short documents, and fewer numbers of twigs."""
    little = {"document_bytes": 2_000, "batch": 2, "batches": [2, 4], "kilobytes": [1, 2, 3],
              "shares": [0.1, 0.5, 1.0]}  # fmt: skip
    chosen = settings | {name: value for name, value in little.items() if name in settings}
    if "factors" in settings:
        chosen["base"] = settings["base"] | {"document_bytes": 2_000, "share": 0.5}
        chosen["factors"] = [
            factor | {end: {name: _little(name, value) for name, value in factor[end].items()}
                      for end in ("from", "to")}
            for factor in settings["factors"]
        ]  # fmt: skip
    return chosen


def _little(name, value):
    return {"document_bytes": min(value, 3_000), "n_documents": min(value, 3)}.get(name, value)
