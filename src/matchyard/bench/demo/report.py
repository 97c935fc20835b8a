"""The demo's report: one self-contained HTML file, with plots if Matplotlib is installed."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from matchyard.bench.compare.machine import describe
from matchyard.bench.compare.report import short
from matchyard.bench.demo.tally import NEW_KEY, Tally, hashtags, user

if TYPE_CHECKING:
    from matchyard.bench.demo.check import Checked

_BLUE, _ORANGE, _GREEN = "#2f6db3", "#d9822b", "#3a9a5b"
_MOST_ROWS = 20  # in a table of samples

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Matchyard demo: {title}</title>
<style>
:root {{ color-scheme: light; }}
body {{ font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: #1f2933;
  background: #f5f7fa; margin: 0; }}
main {{ max-width: 1040px; margin: 0 auto; padding: 28px 20px 60px; }}
h1 {{ font-size: 26px; margin: 0 0 2px; }}
h2 {{ font-size: 17px; margin: 0 0 10px; }}
p {{ margin: 0 0 10px; }}
.dim {{ color: #66788a; }}
.numbers {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(155px, 1fr)); gap: 12px;
  margin: 20px 0; }}
.number, section {{ background: #fff; border: 1px solid #dfe5ec; border-radius: 8px; }}
.number {{ padding: 12px 14px; }}
.number b {{ display: block; font-size: 23px; line-height: 1.25; }}
section {{ padding: 16px 18px; margin: 0 0 16px; overflow-x: auto; }}
.verdict {{ border-left: 5px solid {verdict}; }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(400px, 1fr)); gap: 16px;
  margin-bottom: 16px; }}
.plots section {{ margin: 0; }}
.plots section:first-child {{ grid-column: 1 / -1; }}
svg {{ max-width: 100%; height: auto; display: block; }}
table {{ border-collapse: collapse; width: 100%; font-size: 14px; }}
th, td {{ text-align: left; padding: 5px 20px 5px 0; border-bottom: 1px solid #edf1f5;
  vertical-align: top; }}
th {{ color: #66788a; font-weight: 600; white-space: nowrap; }}
tr:last-child td, tr:last-child th {{ border-bottom: 0; }}
td.n, th.n {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }}
td:first-child {{ white-space: nowrap; }}
.new {{ color: #1d7a41; font-weight: 600; }}
code {{ background: #edf1f5; border-radius: 4px; padding: 1px 5px; font-size: 13px; }}
</style>
</head>
<body><main>
{body}
</main></body>
</html>
"""


class Facts(NamedTuple):
    """The facts of the report besides the tally."""

    rows: list[tuple[str, str]]  # the summary
    seed: int
    threads: int
    whole_s: float  # of the whole demo so far
    checked: Checked | None


def write_report(path: Path, tally: Tally, facts: Facts, dead_letters: Path) -> None:
    """Write the page."""
    is_right = facts.checked is not None and facts.checked.problem is None
    parts = [
        f"<h1>Tweets against {tally.size:,} interests</h1>",
        f'<p class="dim">Matchyard on Spark, in local mode, {facts.whole_s:.0f} s from start to '
        f"end on {escape(describe()['date'])}. Tweets and interests are generated.</p>",
        _headline(tally),
        _verdict(facts.rows),
        *_plots(tally),
        _section("Interests that changed while the stream ran", _changes(tally)),
        _section("Some tweets and who gets them", _tweets(tally)),
        _section("Dead letters", _dead(tally, dead_letters)),
        _section("In short", _table([], facts.rows)),
        _section("Settings and machine", _table([], _settings(tally, facts))),
    ]
    page = _PAGE.format(
        title=f"{tally.size:,} interests",
        verdict=_GREEN if is_right else "#c0392b",
        body="\n".join(parts),
    )
    path.write_text(page, encoding="utf-8")


# -------------------------------------------------------------------- parts


def _headline(tally: Tally) -> str:
    steady, (median, _) = tally.steady(), tally.latency()
    numbers = [
        (short(tally.size), "interests"),
        (f"{short(tally.size / max(tally.build_s, 1e-9))}/s", "interests indexed"),
        (f"{short(steady.events_per_s)}/s", "tweets, steadily"),
        (f"{short(steady.matches_per_s)}/s", "matches, steadily"),
        (f"{median:.2f} s", "median batch"),
        (f"{len(tally.versions())}", "index versions"),
    ]
    cells = "".join(
        f'<div class="number"><b>{escape(value)}</b><span class="dim">{name}</span></div>'
        for value, name in numbers
    )
    return f'<div class="numbers">{cells}</div>'


def _verdict(rows: Sequence[tuple[str, str]]) -> str:
    said = dict(rows)
    return (
        f'<section class="verdict"><h2>Checked</h2><p>{escape(said["checked"])}.</p>'
        f'<p class="dim">Rates are means {escape(said["rates"])}.</p></section>'
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _table(
    head: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[int] = (), raw: int = -1
) -> str:
    """A table; columns in `numbers` are right-aligned, column `raw` is HTML already."""

    def cell(kind: str, place: int, value: Any) -> str:
        text = str(value) if place == raw and kind == "td" else escape(str(value))
        mark = ' class="n"' if place in numbers else ""
        return f"<{kind}{mark}>{text}</{kind}>"

    lines = ["<tr>" + "".join(cell("th", *one) for one in enumerate(head)) + "</tr>"] * bool(head)
    for row in rows:
        kinds = ["td" if head or place else "th" for place in range(len(row))]
        lines.append("<tr>" + "".join(map(cell, kinds, range(len(row)), row)) + "</tr>")
    return f"<table>{''.join(lines)}</table>"


def _changes(tally: Tally) -> str:
    rows = []
    for change in tally.changes:
        batch = tally.taken_up(change)
        tags, key = change.added[0]
        rows.append(
            (change.version, f"{change.asked_s:.1f} s", f"{change.published_s:.1f} s",
             f"batch {batch.number}, done at {batch.end_s:.1f} s" if batch else "no batch",
             f"{len(change.added):,}", f"{len(change.removed):,}",
             f"{tally.caught[change.number]:,}", f"{user(key)}: {hashtags(tags)}")
        )  # fmt: skip
    if not rows:
        return '<p class="dim">None.</p>'
    head = ["version", "asked", "published", "first used in", "joined", "left", "tweets caught",
            "for example"]  # fmt: skip
    return _table(head, rows, (0, 1, 2, 4, 5, 6))


def _tweets(tally: Tally) -> str:
    rows = []
    for seen in list(tally.seen)[-_MOST_ROWS:]:
        keys = [
            f'<span class="new">{user(key)}</span>' if key >= NEW_KEY else user(key)
            for key in seen.some_keys[:5]
        ]
        more = ", …" if seen.n_keys > 5 else ""
        rows.append((seen.id, hashtags(seen.tags), seen.n_keys, ", ".join(keys) + more,
                     seen.version))  # fmt: skip
    if not rows:
        return '<p class="dim">None.</p>'
    return (
        '<p class="dim">Users who joined while the stream ran are <span class="new">green</span>.'
        "</p>" + _table(["tweet", "tags", "users", "who", "version"], rows, (2, 4), raw=3)
    )


def _dead(tally: Tally, folder: Path) -> str:
    rows = [row for part in sorted(folder.glob("batch=*")) for row in _rows_of(part)]
    if not rows:
        return '<p class="dim">None.</p>'
    shown = [(row["id"], row["reason"], row["version"]) for row in rows[:6]]
    return (
        f"<p>{tally.total('bad'):,} tweets could not be read. They are set aside, and the stream "
        "goes on; the first of them:</p>" + _table(["tweet", "reason", "version"], shown, (2,))
    )


def _rows_of(folder: Path) -> Iterator[dict[str, Any]]:
    if any(folder.glob("*.parquet")):
        yield from pq.read_table(folder, columns=["id", "reason", "version"]).to_pylist()


def _settings(tally: Tally, facts: Facts) -> list[tuple[str, str]]:
    machine = describe()
    versions = {**machine["versions"], "pyspark": version("pyspark")}
    again = f"matchyard demo --size {tally.size} --seconds {tally.seconds:g} "
    return [
        ("again", f"{again}--threads {facts.threads} --seed {facts.seed}"),
        ("index", f"{tally.index_bytes / 1e6:,.1f} MB when built"),
        ("machine", f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB"),
        ("versions", ", ".join(f"{name} {number}" for name, number in versions.items())
         + f", Python {machine['python']}, commit {machine['commit']}"),
    ]  # fmt: skip


# -------------------------------------------------------------------- plots


def _plots(tally: Tally) -> list[str]:
    try:
        import matplotlib
    except ImportError:
        hint = "Plots need Matplotlib: <code>pip install 'matchyard[plot]'</code>"
        return [f'<section class="dim">{hint}, then run the demo again.</section>']
    if not tally.batches:
        return []
    style = {"svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif",
             "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#9aa8b6",
             "xtick.color": "#52616f", "ytick.color": "#52616f",
             "axes.labelcolor": "#52616f"}  # fmt: skip
    with matplotlib.rc_context(style):
        drawn = [
            ("Tweets per second", _rate_plot(tally, "events", _BLUE, wide=True)),
            ("Matches per second", _rate_plot(tally, "matches", _ORANGE)),
            ("Batch latency", _latency_plot(tally)),
            ("Index version", _version_plot(tally)),
            ("Matches per tweet", _spread_plot(tally)),
        ]
    cells = "".join(_section(title, svg) for title, svg in drawn)
    note = (
        "Each step is a batch; its width is its duration. Dashed lines: a change of the interests is "
        "published. A batch uses the version that is current when its first task begins."
    )
    return [f'<div class="plots">{cells}</div>', f'<p class="dim">{note}</p>']


def _figure(wide: bool = False) -> tuple[Any, Any]:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(11 if wide else 5.4, 2.6), layout="constrained")
    axes = figure.add_subplot()
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: short(value)))
    axes.grid(axis="y", alpha=0.3)
    return figure, axes


def _svg(figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def _over_time(axes: Any, tally: Tally) -> None:
    for change in tally.changes:
        axes.axvline(change.published_s, color="#7b8794", linestyle="--", linewidth=1)
    axes.set_xlim(0, 1.01 * max(tally.seconds, tally.batches[-1].end_s))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds since the stream was started")


def _steps(axes: Any, tally: Tally, heights: Sequence[float], color: str) -> None:
    """Draw each batch as a step; its width is its duration."""
    for batch, height in zip(tally.batches, heights):
        times = [batch.end_s - batch.seconds, batch.end_s]
        axes.fill_between(times, height, color=color, alpha=0.2, linewidth=0)
        axes.plot(times, [height, height], color=color, linewidth=1.8, solid_capstyle="butt")
    _over_time(axes, tally)


def _rate_plot(tally: Tally, name: str, color: str, wide: bool = False) -> str:
    figure, axes = _figure(wide)
    rates = [getattr(batch, name) / batch.seconds for batch in tally.batches]
    _steps(axes, tally, rates, color)
    return _svg(figure)


def _latency_plot(tally: Tally) -> str:
    figure, axes = _figure()
    _steps(axes, tally, [batch.seconds for batch in tally.batches], _BLUE)
    axes.set_ylabel("seconds")
    return _svg(figure)


def _version_plot(tally: Tally) -> str:
    from matplotlib.ticker import MaxNLocator

    figure, axes = _figure()
    _steps(axes, tally, [batch.version for batch in tally.batches], _GREEN)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return _svg(figure)


def _spread_plot(tally: Tally) -> str:
    """A histogram of tweets with 0, 1, 2–3, 4–7, … matches."""
    figure, axes = _figure()
    last = int(np.flatnonzero(tally.spread).max(initial=1))
    edges = [0, 1, *(2**power for power in range(1, last.bit_length() + 1))]
    bins = list(itertools.pairwise(edges))
    counts = [int(tally.spread[low:high].sum()) for low, high in bins]
    names = [f"{low}" if high - low == 1 else f"{low}–{high - 1}" for low, high in bins]
    axes.bar(names, counts, color=_BLUE, width=0.85)
    axes.tick_params(axis="x", labelsize=8, rotation=0 if len(names) < 8 else 30)
    axes.set_xlabel("users who get a tweet")
    axes.set_ylabel("tweets")
    return _svg(figure)
