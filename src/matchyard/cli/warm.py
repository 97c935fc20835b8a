"""`matchyard warm`: compile the kernels of engines ahead of the first match, e.g. for an image."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from matchyard.cli.terminal import clear, say


def warm(
    engines: Annotated[
        list[str] | None, typer.Argument(help="Engines: tags, predicates, twigs; all by default.")
    ] = None,
    algorithms: Annotated[
        str,
        typer.Option(help="default: the algorithm of each engine that is used unasked; or all."),
    ] = "default",
) -> None:
    """Compile the kernels that the first build and match would compile; they are kept on this machine."""
    import matchyard as my

    for name in engines or my.ENGINES:
        begun = time.perf_counter()
        n_kernels = my.warm(name, algorithms=algorithms)
        clear()
        say(f"{name}: {n_kernels} kernels compiled in {time.perf_counter() - begun:.1f} s")
