"""Running streams: write their rows to files, and report their progress.

matched = match(events, index, follow=True, bad="keep")
spark.streams.addListener(Progress(console=True))
matched.writeStream.foreachBatch(to_files("pairs", dead_letters="bad")).start()
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQueryListener

from matchyard.errors import UsageError
from matchyard.spark.match import METRICS


def to_files(
    pairs: str, dead_letters: str | None = None, format: str = "parquet"
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that writes each micro-batch into a folder of its own.

    A replayed batch replaces its earlier rows, so every row is written exactly once. With
    `dead_letters`, bad events of `match(…, bad="keep")` go to that folder with the reason.
    """

    def write(batch: DataFrame, number: int) -> None:
        def save(rows: DataFrame, folder: str) -> None:
            rows.write.mode("overwrite").format(format).save(f"{folder}/batch={number}")

        if "batch" in batch.columns:
            raise UsageError("the files have a column 'batch' of their own: rename yours")
        if dead_letters is None:
            save(batch, pairs)
            return
        if "reason" not in batch.columns:
            raise UsageError("dead_letters needs match(…, bad='keep'), which gives the reasons")
        key_column = "key" if "key" in batch.columns else "keys"
        batch.persist()  # otherwise Spark would match it twice
        try:
            save(batch.where("reason is null").drop("reason"), pairs)
            save(batch.where("reason is not null").drop(key_column), dead_letters)
        finally:
            batch.unpersist()

    return write


class Sample(NamedTuple):
    """A stream as of its last micro-batch."""

    name: str  # of the query, or its id
    batch: int
    events: int  # in that batch…
    matches: int
    bad: int
    seconds: float  # …and how long it took
    version: int  # of the index; 0 before the first match
    total_events: int  # since the listener was added
    total_matches: int
    total_bad: int
    batches: int

    @property
    def events_per_s(self) -> float:
        """Events of the last batch by its duration."""
        return self.events / self.seconds if self.seconds else 0.0

    @property
    def matches_per_s(self) -> float:
        """Matches of the last batch by its duration."""
        return self.matches / self.seconds if self.seconds else 0.0


_METRICS: list[tuple[str, str, str, Callable[[Sample], float]]] = [
    ("events_total", "counter", "Events read.", lambda s: s.total_events),
    ("matches_total", "counter", "Matches found.", lambda s: s.total_matches),
    ("bad_events_total", "counter", "Events set aside.", lambda s: s.total_bad),
    ("batches_total", "counter", "Micro-batches done.", lambda s: s.batches),
    ("events_per_second", "gauge", "Events/s of the last batch.", lambda s: s.events_per_s),
    ("matches_per_second", "gauge", "Matches/s of the last batch.", lambda s: s.matches_per_s),
    ("batch_seconds", "gauge", "Duration of the last batch.", lambda s: s.seconds),
    ("index_version", "gauge", "Version of the index in the last batch.", lambda s: s.version),
]


class Progress(StreamingQueryListener):  # type: ignore[misc]
    """Watches streams that match: events/s, matches/s, latency and the version of the index.

    On the console, a line per micro-batch; as Prometheus text by `prometheus()`, or on a port by
    `serve()`. Streams without `match` are left out.
    """

    def __init__(self, console: bool = False) -> None:
        self.samples: dict[str, Sample] = {}  # by query id
        self._console = console
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing: there are no numbers yet."""

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing: there are no new numbers."""

    def onQueryTerminated(self, event: Any) -> None:
        """Do nothing: the last numbers stay."""

    def onQueryProgress(self, event: Any) -> None:
        """Record the numbers of one micro-batch."""
        progress = event.progress
        metrics = [
            row for name, row in progress.observedMetrics.items() if name.startswith(METRICS)
        ]
        if not metrics:
            return
        matches, bad, version = (
            [int(row[field] or 0) for row in metrics] for field in ("matches", "bad", "version")
        )
        with self._lock:
            last = self.samples.get(str(progress.id))
            sample = Sample(
                progress.name or str(progress.id),
                progress.batchId,
                progress.numInputRows,
                sum(matches),
                sum(bad),
                progress.batchDuration / 1000,
                max(version) or (last.version if last else 0),
                progress.numInputRows + (last.total_events if last else 0),
                sum(matches) + (last.total_matches if last else 0),
                sum(bad) + (last.total_bad if last else 0),
                1 + (last.batches if last else 0),
            )
            self.samples[str(progress.id)] = sample
        if self._console and sample.events:
            print(_line(sample), file=sys.stderr, flush=True)

    def prometheus(self) -> str:
        """All streams in Prometheus' text format."""
        with self._lock:
            samples = list(self.samples.values())
        lines = []
        for name, kind, text, value in _METRICS:
            lines += [f"# HELP matchyard_{name} {text}", f"# TYPE matchyard_{name} {kind}"]
            for sample in samples:
                label = sample.name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
                lines.append(f'matchyard_{name}{{query="{label}"}} {value(sample):.15g}')
        return "\n".join(lines) + "\n"

    def serve(self, port: int = 0, host: str = "127.0.0.1") -> str:
        """Answer GET /metrics in the background; returns the address."""
        progress = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_metrics = self.path.partition("?")[0] == "/metrics"
                body = progress.prometheus().encode() if is_metrics else b"see /metrics\n"
                self.send_response(200 if is_metrics else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Log no requests."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True, name="metrics").start()
        return f"http://{host}:{self._server.server_address[1]}/metrics"

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


def _line(sample: Sample) -> str:
    bad = f", {sample.bad:,} bad" if sample.bad else ""
    return (
        f"{sample.name[:36]} batch {sample.batch}: {sample.events:,} events in "
        f"{sample.seconds:.2f} s ({sample.events_per_s:,.0f}/s), {sample.matches:,} matches "
        f"({sample.matches_per_s:,.0f}/s){bad}, index version {sample.version}"
    )
