"""Arguments that several commands share, and the parsers of counts and options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

WORKLOADS = (
    "tags: twitter, twitter-popular, peers, skew, dense, active-web, blog-posts, video, short-messages, "
    "bittorrent, icn, congress or ego-twitter; predicates: hem, ccm, ccm-zipf, json-eq, json-range, "
    "sigma or kdd; twigs: dblp, dtd or docbook."
)
Engine = Annotated[str, typer.Argument(help="The engine: tags, predicates or twigs.")]
Parameter = Annotated[
    list[str] | None,
    typer.Option(help="name=value, a parameter of the workload; as often as needed."),
]
AlgorithmOption = Annotated[
    list[str] | None,
    typer.Option(
        help="name=value, an option of the algorithm or of how its engine reads; as often as needed."
    ),
]
Size = Annotated[str, typer.Option(help="How many subscriptions, e.g. 250k, 1M or 20M.")]
Seed = Annotated[int, typer.Option(help="Seed of the workload: the same seed, the same rows.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads that match.")]
Device = Annotated[
    str, typer.Option(help="Where to match: cpu, gpu, auto, or cards such as gpu:0,1.")
]
Format = Annotated[
    str | None,
    typer.Option(
        help="Format of the input: jsonl, csv, parquet or arrow, for documents also xml; by default "
        "from its ending, and jsonl for standard input."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def read_count(text: str) -> int:
    """Parse a count such as 250k, 1M or 20_000."""
    from matchyard.errors import UsageError

    factor = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000}.get(text[-1:].lower(), 1)
    try:
        return int(float((text[:-1] if factor > 1 else text).replace("_", "")) * factor)
    except (ValueError, OverflowError):
        raise UsageError(f"not a count: {text!r}; expected e.g. 250k, 1M or 20000") from None


def read_threads(text: str) -> int:
    """Parse one number of threads."""
    from matchyard.errors import UsageError

    numbers = read_several_threads(text)
    if len(numbers) > 1:
        raise UsageError(f"one number of threads is expected, not {text!r}; twigs take several")
    return numbers[0]


def read_several_threads(text: str) -> list[int]:
    """Parse numbers of threads, separated by commas."""
    from matchyard.errors import UsageError

    numbers = [read_count(part) for part in text.split(",")]
    if min(numbers) < 1:
        raise UsageError(f"threads must be at least 1, not {min(numbers)}")
    return numbers


def read_shapes(text: str) -> list[tuple[int, int]]:
    """Parse numbers of documents and their bytes, e.g. 1x30M,1000x25k."""
    from matchyard.errors import UsageError

    shapes = []
    for part in text.split(","):
        number, times, size = part.partition("x")
        if not times:
            raise UsageError(f"not documents: {part!r}; expected number and bytes, e.g. 1000x25k")
        shapes.append((read_count(number), read_count(size)))
    return shapes


def read_options(given: list[str] | None) -> dict[str, Any]:
    """Parse options of the form name=value; a value may be JSON, such as 3 or true."""
    from matchyard.errors import UsageError

    chosen: dict[str, Any] = {}
    for entry in given or []:
        name, equals, value = entry.partition("=")
        if not equals:
            raise UsageError(f"not an option: {entry!r}; expected name=value, e.g. leaf=32")
        try:
            chosen[name] = json.loads(value)
        except ValueError:
            chosen[name] = value
    return chosen


class BenchArguments(NamedTuple):
    """The arguments of `matchyard bench`, as given."""

    engine: str
    workload: str | None
    size: str | None
    algorithms: str
    threads: str
    device: str
    events: str | None
    documents: str | None
    rivals: bool
    common: str
    passes: int
    seed: int
    option: list[str] | None
    parameter: list[str] | None
    form: str | None
    plot: Path | None
    against: str | None
    as_json: bool

    @property
    def algorithm_names(self) -> list[str]:
        """The named algorithms; empty for all."""
        return [] if self.algorithms == "all" else self.algorithms.split(",")

    @property
    def n_subscriptions(self) -> int | None:
        """The size as a number; None for the workload's own."""
        return read_count(self.size) if self.size else None

    @property
    def n_events(self) -> int | None:
        """The events per pass; None for as many as take about a second."""
        return read_count(self.events) if self.events else None

    @property
    def options(self) -> dict[str, Any]:
        """The options of the algorithm."""
        return read_options(self.option)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the workload."""
        return read_options(self.parameter)
