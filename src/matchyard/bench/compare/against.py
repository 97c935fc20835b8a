"""Compare two revisions of this package: faster, slower, or noise.

Each pair of measurements starts two fresh processes, one for each revision. Both build the same index,
then match the same events in turn, A B B A: if the machine slows down, it does so for both. Only CPU time
counts, so other processes do not matter; on a card it is wall time, of counted, read and kept results. The verdict
comes from the ratios of all pairs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from matchyard.errors import UsageError

PAIRS = 9
PASS_S = 0.4  # of one pass
# Two processes with the same code differ by this share: their memory layouts differ.
SAME = 0.02


class Job(NamedTuple):
    """The workload and settings of both revisions."""

    engine: str
    workload: str
    size: int
    algorithm: str
    threads: int = 1
    seed: int = 1
    device: str = "cpu"
    options: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None


class Verdict(NamedTuple):
    """The working tree compared with a revision, for one stage."""

    what: str  # build or match; on a card counted, read or kept
    ratio: float  # time of the working tree over that of the revision: the median of all pairs
    low: float  # of the 95 % confidence interval of the median…
    high: float  # …and its upper end
    pairs: int
    clock: str = "CPU"  # or wall

    @property
    def word(self) -> str:
        """The verdict: faster, slower or noise."""
        if self.low > 1 and self.ratio > 1 + SAME:
            return "slower"
        if self.high < 1 and self.ratio < 1 - SAME:
            return "faster"
        return "noise"

    def __str__(self) -> str:
        return (
            f"{self.what}: {self.ratio:.3f} of its {self.clock} time ({self.low:.3f} to {self.high:.3f}, {self.pairs} "
            f"pairs): {self.word}"
        )


def judge(what: str, ratios: list[float]) -> Verdict:
    """The verdict of ratios. The sign test gives the interval, so no distribution is assumed.

    >>> judge("match", [1.1, 1.08, 1.12, 1.09, 1.1, 1.11, 1.2, 1.07, 1.1]).word
    'slower'
    >>> judge("match", [1.1, 0.9, 1.02, 0.99, 1.1, 0.97, 1.0, 1.01, 0.98]).word
    'noise'
    """
    ordered, n = sorted(ratios), len(ratios)
    skipped, tail, ways = 0, 0.5**n, 1.0
    while skipped < n // 2 and 2 * tail <= 0.05:
        skipped += 1
        ways *= (n - skipped + 1) / skipped
        tail += ways * 0.5**n
    place = max(0, skipped - 1)
    return Verdict(what, statistics.median(ordered), ordered[place], ordered[n - 1 - place], n)


def compare(
    job: Job,
    revision: str,
    pairs: int = PAIRS,
    progress: Callable[[str], None] = lambda message: None,
) -> Iterator[Verdict]:
    """Compare the working tree with a revision, or a folder of sources: a verdict on building, then one on matching,
    or on each way to use the matches of a card."""
    if pairs < PAIRS:
        raise UsageError(f"{pairs} pairs; expected at least {PAIRS} for a verdict")
    here, there = _checkout(), sources_of(revision)
    ways, clock = (
        (("match",), "CPU") if job.device == "cpu" else (("counted", "read", "kept"), "wall")
    )
    ratios: dict[str, list[float]] = {what: [] for what in ("build", *ways)}
    n_events = 0
    for number in range(pairs):
        progress(f"{job.algorithm} beside {revision}: pair {number + 1} of {pairs}")
        order = [here, there] if number % 2 else [there, here]
        with _Side(order[0], job) as one, _Side(order[1], job) as other:
            new, old = (one, other) if number % 2 else (other, one)
            built = {side: float(side.ask("build")) for side in (one, other)}
            n_events = n_events or int(old.ask(f"events {PASS_S}"))
            ratios["build"].append(built[new] / max(built[old], 1e-9))
            for way in ways:
                seconds = {new: 0.0, old: 0.0}
                for place, side in enumerate((one, other, other, one)):
                    taken, *answer = side.ask(f"pass {place % 2} {n_events} {way}")
                    seconds[side] += taken
                    side.answers[place % 2] = answer
                if new.answers != old.answers:
                    raise UsageError(
                        f"{job.algorithm}: the working tree and {revision} match differently: {new.answers} "
                        f"and {old.answers} (matches and a checksum)"
                    )
                ratios[way].append(seconds[new] / max(seconds[old], 1e-9))
    for what, some in ratios.items():
        yield judge(what, some)._replace(clock=clock)


class _Side:
    """A process that measures one revision."""

    def __init__(self, source: Path, job: Job) -> None:
        self.answers: dict[int, Any] = {}
        script = Path(__file__).with_name("timed_side.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), json.dumps(job._asdict())],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> _Side:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.stdout.close()  # type: ignore[union-attr]
        self._process.wait()

    def ask(self, command: str) -> Any:
        """Send a command and wait for its answer."""
        try:
            print(command, file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()  # type: ignore[union-attr]
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise UsageError(f"the measuring process failed at {command!r}: see above")
        return json.loads(answer)


def sources_of(revision: str) -> Path:
    """The sources of a revision, or those in a folder: the machine with a card may have no repository."""
    for root in (Path(revision), Path(revision, "src")):
        if (root / "matchyard").is_dir():
            return root.resolve()
    return exported(revision)


def exported(revision: str) -> Path:
    """The sources of a revision, in a lasting folder: it also keeps the compiled kernels."""
    commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").decode().strip()
    if not commit:
        raise UsageError(
            f"no revision {revision!r}; expected e.g. HEAD~1, main or a commit of this checkout, or a folder of sources"
        )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "matchyard" / "revisions" / commit
    if not (folder / "src").exists():
        content = _git("-C", str(_checkout().parent), "archive", commit, "src")
        part = folder.with_name(f"{commit}.{os.getpid()}")
        with tarfile.open(fileobj=BytesIO(content)) as archive:
            archive.extractall(part, filter="data")
        part.rename(folder)
    return folder / "src"


def _checkout() -> Path:
    """The sources of the working tree, or those of this package if there is no repository."""
    root = _git("rev-parse", "--show-toplevel").decode().strip()
    source = Path(root, "src")
    return source if root and (source / "matchyard").exists() else Path(__file__).parents[3]


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], capture_output=True, check=False).stdout
