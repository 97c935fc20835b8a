"""An address with a secret opens what it names, and no error, log, message or plan shows the secret."""

from __future__ import annotations

import logging
import pickle
import traceback
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest
from typer.testing import CliRunner

import matchyard as my
from matchyard.cli import app, terminal
from matchyard.errors import without_secrets
from matchyard.storage import file_places
from matchyard.storage.object_store import Remote

SECRET = "wJalr/XUtn"
QUOTED = "wJalr%2FXUtn"
ADDRESSES = {
    "no such scheme": f"s9://AKIA:{QUOTED}@bucket/a.index",
    "no such scheme, a query": f"s9://bucket/a.index?secret_key={QUOTED}&region=eu",
    "no such option": f"s3://AKIA:{QUOTED}@bucket/a.index?colour=red",
    "a slash": f"s3://AKIA:{SECRET}@bucket/a.index",
    "no such file": f"memory://AKIA:{SECRET}@bucket/a.index",
    "no such file, a query": f"memory://bucket/a.index?token={SECRET}",
    "no port": f"s3://AKIA:{SECRET}@bucket:port/a.index",
}


def is_told(error: BaseException | None) -> bool:
    """True if an error, its causes or what Python prints of it have the secret."""
    assert error is not None
    forms = [str(error), repr(error), repr(error.args), "".join(traceback.format_exception(error))]
    lines = [line for form in forms for line in form.splitlines() if not line.startswith("  ")]
    return any(secret in line for line in lines for secret in (SECRET, QUOTED))


@pytest.mark.parametrize("name", ADDRESSES)
@pytest.mark.parametrize("verb", ["open", "save", "read", "write", "sigma"])
def test_no_error_of_an_address_has_its_secret(name: str, verb: str) -> None:
    address = ADDRESSES[name]

    def act() -> Any:
        if verb == "open":
            return my.open(address)
        if verb == "save":
            refused = "\0" if address.startswith("memory") else ""
            return my.TagIndex().add("jazz", 1).save(f"{address}{refused}")
        if verb == "write":
            return file_places.create_file(f"{address}/\ud800").__enter__()
        if verb == "read":
            return file_places.open_file(address).__enter__()
        return my.sigma(f"{address}\0")

    with pytest.raises((my.MatchyardError, ValueError)) as caught:
        act()
    assert not is_told(caught.value)
    assert not is_told(pickle.loads(pickle.dumps(caught.value)))


@pytest.mark.parametrize("quoted", ["{}", "PUT {}: 403", "'{}' is denied", "AKIA:{}@bucket/a"])
def test_what_a_store_says_is_told_without_the_secret(
    quoted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = ADDRESSES["no such file"]

    def fail(*given: object, **named: object) -> None:
        raise PermissionError(quoted.format(address if "AKIA" not in quoted else SECRET))

    for verb in ("open_output_stream", "open_input_file", "create_dir", "get_file_info"):
        monkeypatch.setattr(pyarrow.fs.FSSpecHandler, verb, fail)
    for act in (
        lambda: my.TagIndex().add("jazz", 1).save(address),
        lambda: file_places.open_file(address).__enter__(),
        lambda: file_places.create_file(address).__enter__(),
        lambda: file_places.parquet_files(address),
    ):
        with pytest.raises(my.StorageError, match=r"cannot be (read|written|reached)") as caught:
            act()
        assert not is_told(caught.value)
        assert "bucket/a" in str(caught.value)


def test_the_file_system_still_gets_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    whole = pyarrow.fs.FileSystem

    class Spied:
        @staticmethod
        def from_uri(address: str) -> Any:
            seen.append(address)
            return whole.from_uri(f"file://{Path.cwd()}")

    monkeypatch.setattr(file_places, "FileSystem", Spied)
    address = f"s3://AKIA:{QUOTED}@bucket/a.index"
    assert pickle.loads(pickle.dumps(Remote(address).address)) == address
    assert seen == [address]
    assert SECRET not in repr(Remote(address))


def test_logs_and_messages_have_no_secret(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    address = ADDRESSES["a slash"]
    with caplog.at_level(logging.INFO, "matchyard"):
        logging.getLogger("matchyard").info(
            "old versions of %s stay: %s", address, OSError(address)
        )
    assert caplog.messages == [f"old versions of {without_secrets(address)} stay: "
                               f"{without_secrets(address)}"]  # fmt: skip
    terminal.note(f"{'x' * 500}{address}{'y' * 900}")
    terminal.summary(f"{address}: 5 subscriptions")
    assert SECRET[:5] not in capsys.readouterr().err + caplog.text
    done = CliRunner().invoke(app, ["info", address])
    assert not is_told(done.exception)


@pytest.mark.parametrize("text", [
    "hdfs://host:9000/a@b", "abfs://container@account/a", "s3://bucket/a@b:c", "https://host:80",
    "x:y@z", "s3://bucket/a?region=eu&scheme=http", "memory://a/b=c@d", "http://[::1]:80/a",
])  # fmt: skip
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert without_secrets(f"{text} and '{text}'") == f"{text} and '{text}'"
