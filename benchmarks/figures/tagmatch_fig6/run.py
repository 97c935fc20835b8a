"""Percentiles of the latency of a stream, by load, for several timeouts."""

from statistics import median

from benchmarks.shared.steps import prepared

from matchyard.bench.compare.latency import latencies
from matchyard.bench.figures.claims import ON_GPU

PERCENTILES = {"median": "p50_ms", "99 %": "p99_ms"}


def run(figure):
    settings = figure.settings
    shares = [load / 100 for load in settings["loads"]]
    for algorithm in settings["algorithms"]:
        index, source = prepared("twitter", figure.size, algorithm, device=figure.device)
        events = source.events(20_000).to_pylist()
        for timeout in settings["timeouts_ms"]:
            for measured in latencies(
                index, events, shares, settings["seconds"], max_delay_ms=timeout
            ):
                for name, field in PERCENTILES.items():
                    yield {"series": f"{algorithm}, {name}", "panel": f"timeout {timeout} ms",
                           "x": round(100 * measured.share), "y": getattr(measured, field),
                           "timeout_ms": timeout, "events_per_s": measured.events_per_s,
                           "peak_per_s": measured.events_per_s / measured.share}  # fmt: skip


def judge(figure, rows):
    shortest, longest = (figure.settings["timeouts_ms"][i] for i in (0, -1))
    on_cpu = [row for row in rows if ON_GPU not in row["series"]]
    medians = {
        timeout: median(row["y"] for row in on_cpu if row["timeout_ms"] == timeout)
        for timeout in (shortest, longest)
    }
    at_half = _worst_at_half(on_cpu, shortest)
    kept = _peak(on_cpu, shortest) / _peak(on_cpu, longest)
    is_effective = medians[shortest] < medians[longest]
    text = (
        f"a timeout of {shortest} ms in place of {longest} takes the time from "
        f"{medians[longest]:.1f} ms to {medians[shortest]:.1f} (paper: effective) and keeps "
        f"{kept:.0%} of the peak (paper: about 80 %, with 100 ms); at half load 99 % of events are "
        f"done within {at_half:.1f} ms (paper: 2 s at full load without a timeout)"
    )
    on_gpu = [row for row in rows if ON_GPU in row["series"]]
    if on_gpu:
        text += f", on {figure.card} within {_worst_at_half(on_gpu, shortest):.1f} ms"
    if is_effective and at_half < 2000:
        return "reproduced", text
    return ("partly" if is_effective else "not"), text


def _worst_at_half(rows, timeout):
    """The 99th percentile of the slowest algorithm, at the load nearest to half of its peak."""
    rows = [row for row in rows if row["timeout_ms"] == timeout and row["series"].endswith("99 %")]
    nearest = min(abs(row["x"] - 50) for row in rows)
    return max(row["y"] for row in rows if abs(row["x"] - 50) == nearest)


def _peak(rows, timeout):
    return median(row["peak_per_s"] for row in rows if row["timeout_ms"] == timeout)
