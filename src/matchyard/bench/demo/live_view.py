"""A view that stays on a terminal while something goes on; without a terminal, lines now and then."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

LINE_EVERY_S = 5.0  # without a terminal


class LiveView:
    """Shows what `render` returns, four times a second, for as long as it is entered."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(
                console=self.console, refresh_per_second=4, get_renderable=self.render
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def render(self) -> RenderableType:
        """What a terminal shows."""
        raise NotImplementedError

    def line(self, text: str) -> None:
        """Say something where there is no terminal."""
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)
