"""Run algorithms for twigs on documents of given numbers and sizes, in one run.

As in `harness`, what is timed is the whole job, here from bytes of XML to the keys of every document.
Besides, the first pass counts apart: it starts from an index that has met no document yet, so that
what an algorithm remembers of documents is not remembered for it. Every number of threads and every
shape of documents gets such an index.
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
_MOST_S = 60.0  # no pass begins after so long, but one does in any case
_COLD = 1 << 41  # the number of a document that is in no other pass


class Shape(NamedTuple):
    """What one pass matches."""

    n_documents: int | None = None  # None: as many as take about a second
    document_bytes: int | None = None  # None: as the workload has them


AS_IS = Shape()


class Job(NamedTuple):
    """Everything that the algorithms have in common."""

    workload: str | None
    size: int | None
    seed: int
    parameters: Mapping[str, Any]
    device: str
    passes: int
    form: str

    def source(self, shape: Shape = AS_IS) -> Any:
        """The workload with documents of that shape; its twigs are the same for all shapes."""
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
    """Results as they come: by algorithm, then by shape and by number of threads."""
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
    """Numbers of threads that the documents can be shared among, the first in any case."""
    n_most = shape.n_documents or max(threads)
    return [threads[0], *(number for number in threads[1:] if number <= n_most)]


def measure(job: Job, saved: Path, shape: Shape, threads: int, build_s: float) -> Result:
    """Time a first pass over documents that are like those checked, and then the others."""
    source, index = job.source(shape), my.open(saved)
    matcher = _Matcher(index, job.form, threads)
    n_documents = shape.n_documents
    if n_documents is None:  # found out with an index of its own, so that this one has met nothing
        other = _Matcher(my.open(saved), job.form, threads)
        n_documents = harness.affordable(
            lambda events, _: other.match(events), source, other.give, threads, harness.PASS_S
        )
    first_s, found = matcher.timed(source.events(n_documents, start=_COLD))
    seconds: list[float] = []
    arrow_s, encode_s, checked, begun = [], [], None, time.perf_counter()
    for number in range(job.passes):
        if seconds and time.perf_counter() - begun > _MOST_S:
            break
        documents = source.events(n_documents, start=number * n_documents)
        gc.collect()
        one_s, found = matcher.timed(documents)
        seconds.append(one_s)
        checked = checked or _some(found, min(_CHECKED, n_documents))
        encode_s.append(found.encode_s)
        start = time.perf_counter()
        found.to_arrow()
        arrow_s.append(one_s + time.perf_counter() - start)
    assert checked is not None
    info, work, median = index.info(), found.work, statistics.median(seconds)
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
    """An index that matches documents given in some form."""

    def __init__(self, index: Any, form: str, threads: int) -> None:
        self._index, self._form, self._threads = index, form, threads

    def give(self, documents: Any) -> Any:
        """Documents of a workload in the form."""
        return forms.given_as(self._form, documents, self._index.event_column)

    def match(self, given: Any) -> Matches:
        """The keys per document."""
        events = forms.taken_from(self._form, given, self._index.event_column)
        found: Matches = self._index.match(events, self._threads)
        return found

    def timed(self, documents: Any) -> tuple[float, Matches]:
        """Seconds until the keys are known, and the matches."""
        given = self.give(documents)
        start = time.perf_counter()
        found = self.match(given)
        found.to_arrays()
        return time.perf_counter() - start, found


def _some(found: Matches, n_documents: int) -> Matches:
    """The matches of the first documents only."""
    start = found.event_start[: n_documents + 1]
    return Matches([Part(start, found.keys[: start[-1]])])


def n_xml_bytes(documents: pa.Array) -> int:
    """Bytes of all documents together."""
    return sum(len(memoryview(document.as_buffer())) for document in documents)


def n_xml_tags(index: Any, documents: pa.Array) -> int:
    """Opening and closing tags of all documents together, an empty element's one counted as two."""
    (segment,) = index.segments()
    settings = segment.settings
    batch = segment.encode(settings.engine.encoder.column(documents, settings.reading))
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
    """A number of bytes as people say it.

    >>> in_bytes(25_000), in_bytes(30_000_000)
    ('25 kB', '30 MB')
    """
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number:.3g} bytes"
