"""A live view on a terminal; without a terminal, lines now and then."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

LINE_EVERY_S = 5.0  # without a terminal


class LiveView:
    """A context manager that shows the result of `render` four times a second."""

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
        """The content for the terminal."""
        raise NotImplementedError

    def line(self, text: str) -> None:
        """Print a line if there is no terminal."""
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)
