"""The demo's live view: panels that fit the terminal; without a terminal, a few plain lines."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from matchyard.bench.compare.report import short
from matchyard.bench.demo.live_view import LINE_EVERY_S, LiveView
from matchyard.bench.demo.tally import NEW_KEY, Change, Seen, Tally, hashtags, user

_WIDE = 100  # columns; details need at least these
_FIXED = 14  # lines of the view besides tweets and changes


class View(LiveView):
    """Shows a growing tally."""

    def __init__(self, console: Console, tally: Tally) -> None:
        super().__init__(console)
        self.tally = tally
        self._said_s, self._told = 0.0, 0

    def tick(self) -> None:
        """Without a terminal, print the state now and then."""
        if self._live:
            return
        tally = self.tally
        for change in tally.changes[self._told :]:
            if tally.taken_up(change) is None:
                break
            self._told += 1
            self.line(f"{tally.elapsed():5.0f} s  {change_line(tally, change)}")
        if tally.elapsed() - self._said_s < LINE_EVERY_S or not tally.batches:
            return
        self._said_s = tally.elapsed()
        batch = tally.batches[-1]
        self.line(
            f"{tally.elapsed():5.0f} s  {tally.total('events'):,} tweets, "
            f"{tally.total('matches'):,} matches; batch {batch.number}: "
            f"{short(batch.events / batch.seconds)} tweets/s, "
            f"{short(batch.matches / batch.seconds)} matches/s"
        )
        if tally.seen:
            self.line(f"         {seen_line(tally.seen[-1], 4).plain}")

    # ---------------------------------------------------------------- panels

    def render(self) -> RenderableType:
        """All panels, cut to the height of the terminal."""
        width, height = self.console.size
        room = max(4, min(height, 44) - 1 - _FIXED)
        n_changes = min(3, room // 2) if height < 30 else 6
        n_seen = min(14, room - n_changes)
        return Group(
            self._head(width),
            _panel(self._numbers(width), "stream"),
            _panel(self._bars(width), "batch by batch"),
            _panel(self._tweets(width, n_seen), "some tweets and who gets them"),
            _panel(self._changes(width, n_changes), "interests changed while it runs"),
        )

    def _head(self, width: int) -> RenderableType:
        tally = self.tally
        done = min(tally.elapsed(), tally.seconds)
        grid = Table.grid(padding=(0, 1))
        grid.add_row(
            Text(f"{tally.state} {tally.elapsed():3.0f} s of {tally.seconds:.0f} s", style="bold"),
            ProgressBar(total=tally.seconds, completed=done, width=max(10, width - 28)),
        )
        return grid

    def _numbers(self, width: int) -> RenderableType:
        tally = self.tally
        last = tally.batches[-1] if tally.batches else None
        speed = [f"{short(n / last.seconds)}/s" if last else "–" for n in
                 ((last.events, last.matches) if last else (0, 0))]  # fmt: skip
        waiting = max(0, tally.written - tally.total("events"))
        grid = Table.grid(padding=(0, 2), expand=False)
        for _ in range(3):
            grid.add_column(style="dim", no_wrap=True)
            grid.add_column(justify="right", no_wrap=True)
        grid.add_row("tweets", _bold(f"{tally.total('events'):,}"), "now", _bold(speed[0]),
                     "waiting", f"{waiting:,}")  # fmt: skip
        grid.add_row("matches", _bold(f"{tally.total('matches'):,}"), "now", _bold(speed[1]),
                     "dead letters", f"{tally.total('bad'):,}")  # fmt: skip
        grid.add_row("interests", f"{tally.size:,}", "batch",
                     f"{last.seconds:.2f} s" if last else "–",
                     "index version", f"{last.version if last else 1}")  # fmt: skip
        return grid

    def _bars(self, width: int) -> RenderableType:
        batches = list(self.tally.batches)[-max(10, width - 34) :]
        grid = Table.grid(padding=(0, 2))
        for name, values in (
            ("tweets/s", [batch.events / batch.seconds for batch in batches]),
            ("matches/s", [batch.matches / batch.seconds for batch in batches]),
        ):
            top = max(values, default=0.0)
            grid.add_row(Text(name, style="dim"), Text(bars(values), style="cyan"),
                         Text(f"top {short(top)}" if values else "", style="dim"))  # fmt: skip
        return grid

    def _tweets(self, width: int, most: int) -> RenderableType:
        chosen = list(self.tally.seen)[-most:]
        return _lines([seen_line(seen, 6 if width >= _WIDE else 3) for seen in chosen], most)

    def _changes(self, width: int, most: int) -> RenderableType:
        lines = []
        for change in self.tally.changes:
            lines.append(Text(change_line(self.tally, change)))
            if most > 3:
                tags, key = change.added[0]
                lines.append(Text(f"   e.g. {user(key)} asks for {hashtags(tags)}", style="dim"))
        return _lines(lines[-most:], most)


def bars(values: Sequence[float]) -> str:
    """Numbers as a line of bars.

    >>> bars([1, 4, 8])
    '▂▅█'
    """
    levels, top = "▁▂▃▄▅▆▇█", max(values, default=0.0) or 1.0
    return "".join(levels[min(7, int(8 * value / top))] for value in values)


def seen_line(seen: Seen, most_tags: int) -> Text:
    """A tweet and its receivers, on one line."""
    keys = ", ".join(user(key) for key in seen.some_keys[:2])
    line = Text(f"{hashtags(seen.tags, most_tags)} ", no_wrap=True, overflow="ellipsis")
    users = "user" if seen.n_keys == 1 else "users"
    line.append(f"→ {seen.n_keys} {users}", style="bold")
    is_new = any(key >= NEW_KEY for key in seen.some_keys)
    line.append(f" {keys}" + (", …" if seen.n_keys > 2 else ""), style="green" if is_new else "dim")
    line.append(f" v{seen.version}", style="dim")
    return line


def change_line(tally: Tally, change: Change) -> str:
    """A change on one line: its numbers, its time, and the first batch that used it."""
    batch = tally.taken_up(change)
    text = (
        f"v{change.version} at {change.published_s:.1f} s: "
        f"{len(change.added):,} joined, {len(change.removed):,} left"
    )
    if batch is None:
        return f"{text}; waiting for a batch"
    got = tally.caught[change.number]
    return f"{text}; from batch {batch.number} on, the new got {got:,} tweets"


def _lines(lines: list[Text], n_lines: int) -> Text:
    """Lines in a block of constant height, so that the view does not jump."""
    block = Text("\n", no_wrap=True, overflow="ellipsis").join(
        [*lines, *([Text(" ")] * (n_lines - len(lines)))]
    )
    return block


def _bold(text: str) -> Text:
    return Text(text, style="bold")


def _panel(content: RenderableType, title: str) -> Panel:
    return Panel(content, title=title, title_align="left", border_style="dim")
