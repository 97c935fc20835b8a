"""A PostgreSQL server for a comparison: in a temporary folder, on a socket there, for as long as it is needed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
import weakref
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from matchyard.errors import UsageError

_START_S = 60.0
_SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "2GB",
    "work_mem": "256MB",
    "maintenance_work_mem": "1GB",
    "random_page_cost": "1.1",  # everything is in memory
    "fsync": "off",
    "autovacuum": "off",
    "jit": "off",
    # A connection takes one core: callers open as many as they have threads.
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
}


def missing() -> str | None:
    """The part of PostgreSQL that this machine lacks, with advice; None if it has everything."""
    if _programs() is None:
        return "PostgreSQL is not installed; in Debian: apt install postgresql"
    if find_spec("adbc_driver_postgresql") is None:
        return "its client is not installed: pip install adbc-driver-postgresql"
    return None


def _programs() -> Path | None:
    """The folder of the newest server's programs. Debian does not put it on the PATH."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else []
    debian = Path("/usr/lib/postgresql")
    found += sorted(debian.glob("*/bin"), key=lambda bin: (len(bin.parent.name), bin.parent.name))
    usable = [
        folder
        for folder in found
        if (folder / "initdb").exists() and (folder / "postgres").exists()
    ]
    return usable[-1] if usable else None


class Server:
    """A running server. It ends with this object, at the latest with the process."""

    def __init__(self) -> None:
        lack = missing()
        programs = _programs()
        if lack or programs is None:
            raise UsageError(f"this rival needs PostgreSQL: {lack}")
        self._folder = tempfile.mkdtemp(prefix="matchyard-postgres-")
        process = None
        try:
            run_as = _unprivileged(self._folder)
            data = f"{self._folder}/data"
            made = subprocess.run(
                [programs / "initdb", "-D", data, "-A", "trust", "-U", "matchyard", "--no-sync",
                 "-E", "UTF8", "--locale=C"],
                capture_output=True, text=True, cwd=self._folder, check=False, **run_as,
            )  # fmt: skip
            if made.returncode:
                raise UsageError(f"initdb failed: {made.stderr.strip()[-500:]}")
            settings = [word for item in _SETTINGS.items() for word in ("-c", "=".join(item))]
            with open(f"{self._folder}/log", "wb") as log:
                process = subprocess.Popen(
                    [*_with_parent(), programs / "postgres", "-D", data, "-k", self._folder, *settings],
                    stdout=log, stderr=log, cwd=self._folder, **run_as,
                )  # fmt: skip
            self._wait(process)
        finally:  # also if it does not start
            self.close = weakref.finalize(self, _stop, process, self._folder)

    def connect(self) -> Any:
        """A connection of its own, whose statements take effect at once."""
        from adbc_driver_postgresql import dbapi

        return dbapi.connect(
            f"postgresql:///postgres?host={self._folder}&user=matchyard", autocommit=True
        )

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        from adbc_driver_manager import Error

        deadline = time.monotonic() + _START_S
        while True:
            try:
                self.connect().close()
                return
            except Error as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    said = Path(self._folder, "log").read_text(errors="replace").strip()[-500:]
                    _stop(process, self._folder)
                    raise UsageError(f"PostgreSQL does not start: {said or error}") from None
                time.sleep(0.05)


def _unprivileged(folder: str) -> dict[str, Any]:
    """Arguments of `subprocess` for a user that is not root, who gets the folder."""
    if os.geteuid():
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(folder, user.pw_uid, user.pw_gid)
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise UsageError("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _with_parent() -> list[str]:
    """A command that ends what it runs when this process is killed, if the system has it."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "INT"] if setpriv else []


def _stop(process: subprocess.Popen[bytes] | None, folder: str) -> None:
    if process is not None and process.poll() is None:
        process.terminate()  # ends when all connections are closed…
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            process.send_signal(2)  # …and now at once
            process.wait()
    shutil.rmtree(folder, ignore_errors=True)
