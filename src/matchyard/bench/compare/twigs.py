"""Run algorithms for twigs on documents of given numbers and sizes, in one run.

As in `harness`, the clock covers the whole job, here from bytes of XML to the keys of every document.
The first pass is reported apart: its index has matched no document yet, so an algorithm that caches
parts of documents starts without a cache. Every number of threads and every shape of documents gets
such a fresh index.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import matchyard as my
from matchyard.bench.compare import forms, harness
from matchyard.bench.compare.harness import Result
from matchyard.matches import Matches, Part

_CHECKED = 64  # documents whose matches are compared, the same for every algorithm
_MOST_S = 60.0  # no further pass begins after this time
_COLD = 1 << 41  # first document of the first pass; no other pass has these numbers


class Shape(NamedTuple):
    """The documents of one pass."""

    n_documents: int | None = None  # None: as many as take about a second
    document_bytes: int | None = None  # None: the size of the workload


AS_IS = Shape()


class Job(NamedTuple):
    """The settings that all algorithms share."""

    workload: str | None
    size: int | None
    seed: int
    parameters: Mapping[str, Any]
    device: str
    passes: int
    form: str

    def source(self, shape: Shape = AS_IS) -> Any:
        """The workload with documents of that shape; all shapes have the same twigs."""
        given = dict(self.parameters)
        if shape.document_bytes is not None:
            given["document_bytes"] = shape.document_bytes
        name = self.workload or harness.default_workload("twigs")
        return my.workload("twigs", name, self.size or harness.size_of(name), self.seed, given)


def compare(
    job: Job,
    algorithms: Sequence[str],
    shapes: Sequence[Shape],
    threads: Sequence[int],
    options: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> Iterator[Result]:
    """Yield results by algorithm, then by shape and by number of threads."""
    if job.form not in forms.FORMS:
        raise my.UsageError(f"no form {job.form!r} of events; expected one of: {forms.FORMS}")
    for algorithm in algorithms:
        source = job.source()
        progress(f"building {algorithm} over {source.size:,} twigs")
        index = my.create("twigs", algorithm, {**source.options, **(options or {})}, job.device)
        harness.warm_up(index, source, max(threads))
        build_s = harness.build(index, source)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "saved.index"
            index.save(path)
            del index
            for shape in shapes:
                for n_threads in _useful(threads, shape):
                    progress(f"matching {said(shape)} with {algorithm}, {n_threads} threads")
                    yield measure(job, path, shape, n_threads, build_s)
                    gc.collect()


def _useful(threads: Sequence[int], shape: Shape) -> Sequence[int]:
    """The numbers of threads up to the number of documents, and always the first."""
    n_most = shape.n_documents or max(threads)
    return [threads[0], *(number for number in threads[1:] if number <= n_most)]


def measure(job: Job, saved: Path, shape: Shape, threads: int, build_s: float) -> Result:
    """Time a first pass over fresh documents, and then the other passes."""
    source, index = job.source(shape), my.open(saved)
    matcher = _Matcher(index, job.form, threads)
    n_documents = shape.n_documents
    if n_documents is None:  # estimated with another index, so that this one stays fresh
        other = _Matcher(my.open(saved), job.form, threads)
        n_documents = harness.affordable(
            lambda events, _: other.match(events), source, other.give, threads, harness.PASS_S
        )
    first_s, matches = matcher.timed(source.events(n_documents, start=_COLD))
    seconds: list[float] = []
    arrow_s, encode_s, checked, begun = [], [], None, time.perf_counter()
    for number in range(job.passes):
        if seconds and time.perf_counter() - begun > _MOST_S:
            break
        documents = source.events(n_documents, start=number * n_documents)
        gc.collect()
        one_s, matches = matcher.timed(documents)
        seconds.append(one_s)
        checked = checked or _some(matches, min(_CHECKED, n_documents))
        encode_s.append(matches.encode_s)
        start = time.perf_counter()
        matches.to_arrow()
        arrow_s.append(one_s + time.perf_counter() - start)
    assert checked is not None
    info, work, median = index.info(), matches.work, statistics.median(seconds)
    matching = statistics.median(threads * s - e for s, e in zip(seconds, encode_s))
    return Result(
        "twigs", source.name, index.algorithm, job.device, threads, source.size, n_documents, build_s,
        n_documents / median, work.matches / median, work.matches, work.candidates,
        info["index_bytes"] - info["key_bytes"], harness.checksum(checked), len(checked),
        sum(encode_s) / (sum(seconds) * threads), (max(seconds) - min(seconds)) / median, len(seconds),
        work.matches / statistics.median(arrow_s), job.form, 1e6 * matching / n_documents,
        xml_bytes=n_xml_bytes(documents), xml_tags=n_xml_tags(index, documents), first_s=first_s,
        document_bytes=shape.document_bytes,
    )  # fmt: skip


class _Matcher:
    """An index that matches documents in one form."""

    def __init__(self, index: Any, form: str, threads: int) -> None:
        self._index, self._form, self._threads = index, form, threads

    def give(self, documents: Any) -> Any:
        """Convert documents of a workload to the form."""
        return forms.given_as(self._form, documents, self._index.event_column)

    def match(self, given: Any) -> Matches:
        """The keys per document."""
        events = forms.taken_from(self._form, given, self._index.event_column)
        matches: Matches = self._index.match(events, self._threads)
        return matches

    def timed(self, documents: Any) -> tuple[float, Matches]:
        """Seconds until the keys are known, and the matches."""
        given = self.give(documents)
        start = time.perf_counter()
        matches = self.match(given)
        matches.to_arrays()
        return time.perf_counter() - start, matches


def _some(matches: Matches, n_documents: int) -> Matches:
    """The matches of the first documents only."""
    start = matches.event_start[: n_documents + 1]
    return Matches([Part(start, matches.keys[: start[-1]])])


def n_xml_bytes(documents: pa.Array) -> int:
    """The total bytes of all documents."""
    return sum(len(memoryview(document.as_buffer())) for document in documents)


def n_xml_tags(index: Any, documents: pa.Array) -> int:
    """The opening and closing tags of all documents; the tag of an empty element counts as two."""
    (segment,) = index.segments()
    settings = segment.settings
    batch = segment.encode(settings.engine.encoder.column(documents, settings.input_options))
    return 2 * int(np.count_nonzero(batch.signals < 0))


def said(shape: Shape) -> str:
    """A shape in words.

    >>> said(Shape(1, 30_000_000)), said(Shape())
    ('1 document of 30 MB', 'documents')
    """
    number = "" if shape.n_documents is None else f"{shape.n_documents:,} "
    size = "" if shape.document_bytes is None else f" of {in_bytes(shape.document_bytes)}"
    return f"{number}document{'s' * (shape.n_documents != 1)}{size}"


def in_bytes(number: float) -> str:
    """A readable number of bytes.

    >>> in_bytes(25_000), in_bytes(30_000_000)
    ('25 kB', '30 MB')
    """
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number:.3g} bytes"
