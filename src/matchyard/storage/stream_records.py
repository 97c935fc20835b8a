"""Records of the version that each micro-batch of a stream is matched with: a file per batch.

`stream_versions` writes and reads them. Versions that a stream may need again are kept.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from matchyard.storage import Contents
from matchyard.storage.object_store import CURRENT_BYTES

_BATCHES_KEPT = 100  # records per stream: as many batches as Spark remembers
_STREAM_FORGOTTEN_S = 7 * 86400.0  # a stream that has not run for so long keeps no version
NAMELESS = "batches"  # the folder for streams whose names tasks do not know
_NAMELESS_KEPT_S = 3600.0
OF_SQL = "sql-"  # how the names of queries begin, which do not run again


def version_in(record: Path) -> str:
    """The version that a record of a micro-batch names."""
    line = Contents(record.parent).read(record.name, CURRENT_BYTES)
    return line.decode(errors="replace").strip()


def is_first(file: Path, version: str) -> bool:
    """Record a version; False if there is a record already."""
    descriptor, draft = tempfile.mkstemp(prefix=".", dir=file.parent)
    os.fchmod(descriptor, 0o644)  # other users' writers read it, too
    with os.fdopen(descriptor, "w") as line:
        line.write(f"{version}\n")
        line.flush()
        os.fsync(line.fileno())
    try:
        os.link(draft, file)
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
    return True


def forget_batches(folder: Path, stream: str, batch: int) -> None:
    """Remove records of batches that Spark does not run again."""
    is_sql = stream.startswith(OF_SQL)  # its queries run side by side: their numbers say nothing
    if stream and not is_sql:
        (folder / f"{batch - _BATCHES_KEPT:09}").unlink(missing_ok=True)
        return
    for old in _recorded(folder)[:-_BATCHES_KEPT]:
        try:
            age_s = time.time() - old.stat().st_mtime
        except FileNotFoundError:  # another task has removed it
            continue
        if age_s > (_NAMELESS_KEPT_S if is_sql else _STREAM_FORGOTTEN_S):
            old.unlink(missing_ok=True)


def keep_record(file: Path) -> None:
    """Note that a query in SQL still runs, now and then: its version stays for an hour from now."""
    try:
        if time.time() - file.stat().st_mtime > _NAMELESS_KEPT_S / 12:
            os.utime(file)
    except OSError:  # a worker that may only read
        return


def _recorded(stream: Path) -> list[Path]:
    """The batches of a stream, in their order."""
    names = (entry for entry in stream.iterdir() if entry.name.isascii())
    numbered = (entry for entry in names if entry.name.isdecimal())
    return sorted(numbered, key=lambda entry: int(entry.name))


def in_use(root: Path) -> set[str]:
    """The versions that streams may need again: of the last two batches of each stream and, for
    streams without names, of the last hour."""
    versions: set[str] = set()
    for stream in (entry for entry in (root / "streams").glob("*") if entry.is_dir()):
        batches = _recorded(stream)
        if stream.name.startswith(OF_SQL):
            fresh = [b for b in batches if time.time() - b.stat().st_mtime < _NAMELESS_KEPT_S]
            versions |= {version_in(batch) for batch in fresh}
            if not fresh:
                shutil.rmtree(stream, ignore_errors=True)
            continue
        if not batches or time.time() - batches[-1].stat().st_mtime > _STREAM_FORGOTTEN_S:
            continue
        asked = batches[-2:]
        if stream.name == NAMELESS:
            asked += [b for b in batches if time.time() - b.stat().st_mtime < _NAMELESS_KEPT_S]
        versions |= {version_in(batch) for batch in asked}
    return versions
