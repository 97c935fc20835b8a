"""The live view of the routers; without a terminal, a few plain lines."""

from __future__ import annotations

from itertools import pairwise

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from matchyard.bench.compare.report import short
from matchyard.bench.demo.live_view import LINE_EVERY_S, LiveView
from matchyard.bench.demo.network_story import Story

_BLOCKS = " ▁▂▃▄▅▆▇█"


class NetworkView(LiveView):
    """Shows the running demo."""

    def __init__(self, console: Console, story: Story) -> None:
        super().__init__(console)
        self.story = story
        self._said_s, self._n_told = -LINE_EVERY_S, 0

    def tick(self) -> None:
        """Without a terminal, print the state now and then."""
        story = self.story
        if self._live:
            return
        for moment, text in list(story.said)[self._n_told :]:
            self._n_told += 1
            self.line(f"{moment:5.0f} s  {text}")
        if story.elapsed() - self._said_s < LINE_EVERY_S or not story.sent:
            return
        self._said_s = story.elapsed()
        sent, got = self.rates()
        moment = story.rates[-1][0] - story.began
        self.line(
            f"{moment:5.0f} s  {len(story.sent):,} tweets ({short(sent)}/s), "
            f"{story.n_got():,} deliveries ({short(got)}/s)"
        )
        for line in story.trace[:6]:
            self.line(f"         {line}")

    def rates(self) -> tuple[float, float]:
        """Tweets and deliveries per second of the last seconds."""
        points = list(self.story.rates)[-12:]
        if len(points) < 2:
            return 0.0, 0.0
        (first, sent, got), (last, sent_now, got_now) = points[0], points[-1]
        return (sent_now - sent) / (last - first), (got_now - got) / (last - first)

    # ---------------------------------------------------------------- panels

    def render(self) -> RenderableType:
        """All panels."""
        story, height = self.story, self.console.size.height
        n_said = max(2, min(6, height - 30))
        said = [f"{moment:4.0f} s  {text}" for moment, text in list(story.said)[-n_said:]]
        return Group(
            self._head(),
            _panel(self._numbers(), "all routers"),
            _panel(self._routers(), "each router"),
            _panel(
                Text("\n".join(story.trace[: max(3, height - 26)]) or "…"), "the way of a tweet"
            ),
            _panel(Text("\n".join(said) or "…"), "what happened"),
        )

    def _head(self) -> RenderableType:
        story = self.story
        grid = Table.grid(padding=(0, 1))
        done = min(story.elapsed(), story.seconds) if story.sent else 0
        grid.add_row(
            Text(f"{story.state}  {story.elapsed():3.0f} s", style="bold"),
            ProgressBar(total=story.seconds, completed=done, width=30),
        )
        return grid

    def _numbers(self) -> RenderableType:
        story, (sent, got) = self.story, self.rates()
        grid = Table.grid(padding=(0, 2))
        grid.add_row(
            Text("tweets", style="dim"),
            Text(f"{len(story.sent):,}", style="bold"),
            Text(f"{short(sent)}/s"),
            Text(_bars([one[1] for one in story.rates]), style="cyan"),
        )
        grid.add_row(
            Text("deliveries", style="dim"),
            Text(f"{story.n_got():,}", style="bold"),
            Text(f"{short(got)}/s"),
            Text(_bars([one[2] for one in story.rates]), style="green"),
        )
        grid.add_row(
            Text("changes", style="dim"),
            Text(f"{story.n_changes:,}"),
            Text("of interests"),
            Text(""),
        )
        return grid

    def _routers(self) -> RenderableType:
        story = self.story
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for name in (
            "router",
            "",
            "sent on",
            "delivered",
            "waiting",
            "interests",
            "table",
            "updates",
        ):
            table.add_column(name, justify="left" if name in ("router", "") else "right")
        for name in story.routers.names:
            one = story.status.get(name)
            if name in story.down or one is None:
                table.add_row(
                    name, Text("down" if one else "starting", style="bold red" if one else "dim")
                )
                continue
            waiting = sum(link["waiting"] for link in one["neighbours"].values())
            table.add_row(
                name,
                Text("up", style="green"),
                f"{one['counts']['sent']:,}",
                f"{one['counts']['delivered']:,}",
                Text(f"{waiting:,}", style="yellow" if waiting else "dim"),
                f"{one['registrations']:,}",
                f"{one['filters']:,}",
                f"{one['counts']['updates']:,}",
            )
        return table


def _bars(totals: list[int], width: int = 40) -> str:
    """The increments between totals, as small bars."""
    added = [max(0, b - a) for a, b in pairwise(totals)][-width:]
    most = max(added, default=0) or 1
    return "".join(_BLOCKS[round(one / most * (len(_BLOCKS) - 1))] for one in added)


def _panel(content: RenderableType, title: str) -> Panel:
    return Panel(content, title=title, title_align="left", border_style="dim")
