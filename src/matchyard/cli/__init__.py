"""The library's verbs as commands. Each command imports the heavy modules that it needs."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

import typer

from matchyard.cli.bench import bench, demo
from matchyard.cli.geo import geo
from matchyard.cli.index import build, explain, info, match
from matchyard.cli.latency import latency
from matchyard.cli.reproduce import reproduce
from matchyard.cli.router import notify, register, router, status, tail
from matchyard.cli.simulate import route
from matchyard.cli.terminal import clear, note, shown
from matchyard.cli.warm import warm
from matchyard.cli.workload import workload

app = typer.Typer(
    name="matchyard",
    help="Match every event of a stream against millions of standing subscriptions.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
for _command in (workload, build, match, explain, info, bench, latency, warm, reproduce, demo):
    app.command()(_command)
for _of_routers in (router, register, notify, tail, status):
    app.command(rich_help_panel="Routers that run")(_of_routers)
app.add_typer(route)
app.add_typer(geo)


def main() -> None:
    """Run a command. An error is one line on standard error, with exit status 1."""
    from matchyard.errors import MatchyardError
    from matchyard.threads.interrupts import raised_behind

    try:
        sys.exit(app(standalone_mode=False))
    except MatchyardError as error:
        _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        clear()
        sys.exit(130)
    except Exception as error:
        if hasattr(error, "show") and hasattr(
            error, "exit_code"
        ):  # of Click, or of Typer's copy of it
            _refuse(error)
        if isinstance(raised_behind(error), KeyboardInterrupt):
            clear()
            sys.exit(130)
        if os.environ.get("MATCHYARD_DEBUG"):
            raise
        _fail(f"{type(error).__name__}: {error} (MATCHYARD_DEBUG=1 shows where)")


def _refuse(error: Any) -> NoReturn:
    """Print the error of the arguments; the message quotes them."""
    from matchyard.errors import without_secrets

    if error.message:  # empty if Typer has shown the help instead
        error.message = shown(without_secrets(error.message))
        error.show()
    sys.exit(error.exit_code)


def _fail(message: str) -> None:
    note(message)
    sys.exit(1)


__all__ = ["main"]
