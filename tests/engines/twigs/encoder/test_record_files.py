"""A file becomes documents, one per record, whatever the size of the buffer."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from matchyard.engines.twigs.encoder.events import record_files
from matchyard.engines.twigs.encoder.events.record_files import records
from matchyard.engines.twigs.xml.expat import signals
from matchyard.errors import UsageError, XmlError

SIZES = [1, 2, 7, 64, 1 << 20]
FILE = """<?xml version="1.0" encoding="UTF-8"?>
<!-- <r>no record</r> -->
<!DOCTYPE all SYSTEM 'all.dtd'>
<all note='&lt;r>'>
<r>1</r><rr>no record</rr><r
 x="a>b">2<!-- </r> --><![CDATA[</r>]]><?pi </r>?></r>
<group><r/><r>3<r>within</r>4</r></group>
<![CDATA[<r>no</r>]]> <r >ä</r > text
</all>
<!-- after -->
"""
RECORDS = [
    "<r>1</r>",
    '<r\n x="a>b">2<!-- </r> --><![CDATA[</r>]]><?pi </r>?></r>',
    "<r/>",
    "<r>3<r>within</r>4</r>",
    "<r >ä</r >",
]


def split(data: bytes, buffer_bytes: int, name: str = "r") -> list[str]:
    found = records(io.BytesIO(data), name, buffer_bytes=buffer_bytes)
    return [record.decode() for record in found]


@pytest.mark.parametrize("buffer_bytes", SIZES)
def test_records_are_elements_below_the_root(buffer_bytes: int) -> None:
    found = split(FILE.encode(), buffer_bytes)
    assert found == RECORDS
    assert all(signals(record) for record in found)


@pytest.mark.parametrize("buffer_bytes", [1, 7, 1 << 20])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "cp1252", "utf-8-sig"])
def test_files_are_read_in_their_encoding(encoding: str, buffer_bytes: int) -> None:
    declared = "windows-1252" if encoding == "cp1252" else "UTF-8"
    assert split(FILE.replace("UTF-8", declared).encode(encoding), buffer_bytes) == RECORDS


@pytest.mark.parametrize("buffer_bytes", SIZES)
def test_a_root_of_the_same_name_is_no_record(buffer_bytes: int) -> None:
    assert split(b"<r><r>1</r><r>2</r></r>", buffer_bytes) == ["<r>1</r>", "<r>2</r>"]
    assert split(b"<r>1</r>", buffer_bytes) == []
    assert split(b"<r/>", buffer_bytes) == []


@pytest.mark.parametrize("buffer_bytes", SIZES)
def test_what_looks_like_a_tag_is_none_in_quotes_and_sections(buffer_bytes: int) -> None:
    assert split(b"<a x='/><r>'><r y=\"/>\">1</r></a>", buffer_bytes) == ['<r y="/>">1</r>']
    data = b"<a><![CDATA[x><r>]]><!-- ><r> --><?p ><r> ?><r>1</r></a>"
    assert split(data, buffer_bytes) == ["<r>1</r>"]


@pytest.mark.parametrize("buffer_bytes", SIZES)
def test_entities_of_the_file_are_declared_in_every_record(buffer_bytes: int) -> None:
    doctype = "<!DOCTYPE a [<!ENTITY e ']>x'><!-- ' ]> -->]>"
    data = f"<?xml version='1.0'?>{doctype}<a><r>&e;</r><r/></a>".encode()
    found = split(data, buffer_bytes)
    assert found == [f"{doctype}<r>&e;</r>", f"{doctype}<r/>"]
    assert signals(found[0])[1] == ("text", "]>x")


def test_a_file_is_given_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "all.xml"
    path.write_bytes(FILE.encode())
    assert [record.decode() for record in records(path, "r")] == RECORDS
    assert [record.decode() for record in records(str(path), "rr")] == ["<rr>no record</rr>"]


@pytest.mark.parametrize("buffer_bytes", SIZES)
@pytest.mark.parametrize(
    ("data", "line", "column", "reason"),
    [
        ("<a>\n <r>1</r> <r>\n2", 2, 11, "ends within"),
        ("<a>\n<!-- 1\n", 2, 1, "ends within"),
        ("<a>" + "<r>1</r>" * 200 + "<r>2", 1, 1604, "ends within"),
        ("", 1, 1, "no element"),
        ("\n<!-- a -->", 1, 1, "no element"),
    ],
)
def test_files_that_end_too_early_are_refused(
    data: str, line: int, column: int, reason: str, buffer_bytes: int
) -> None:
    with pytest.raises(XmlError, match=reason) as caught:
        split(data.encode(), buffer_bytes)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_records_have_a_limit() -> None:
    data = b"<a><r>" + b"x" * 5000 + b"</r></a>"
    assert len(list(records(io.BytesIO(data), "r", 5010, 10))) == 1
    for limit in (100, 3000):
        with pytest.raises(XmlError, match="max_document_bytes"):
            list(records(io.BytesIO(data), "r", limit, 10))


def test_a_long_record_is_looked_through_only_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def find(data: bytes, *rest: Any) -> Any:
        looked.append(len(data))
        return find_records(data, *rest)

    find_records = record_files._find
    monkeypatch.setattr(record_files, "_find", find)
    data = b"<a><r>" + b"x" * 500_000 + b"</r></a>"
    assert len(list(records(io.BytesIO(data), "r", buffer_bytes=100))) == 1
    assert len(looked) < 15


def test_a_record_needs_a_name_and_a_file_an_encoding_that_there_is() -> None:
    with pytest.raises(UsageError, match="record"):
        split(b"<a/>", 10, "")
    with pytest.raises(XmlError, match="unknown encoding"):
        split(b"<?xml version='1.0' encoding='none-such'?><a/>", 100)
    with pytest.raises(XmlError, match="not utf-16"):
        split("<a>\U0001f600</a>".encode("utf-16")[:-9], 100)


class Endless(io.RawIOBase):
    """A file that is made while it is read."""

    def __init__(self, n_records: int) -> None:
        self._parts = self._make(n_records)

    def _make(self, n_records: int) -> Iterator[bytes]:
        yield b"<a>"
        for i in range(n_records):
            yield b"<r>%0200d</r>\n" % i
        yield b"</a>"

    def read(self, size: int = -1) -> bytes:
        return next(self._parts, b"")


def test_memory_does_not_depend_on_the_length_of_the_file() -> None:
    list(records(Endless(10), "r"))  # type: ignore[arg-type]
    tracemalloc.start()
    n_records = sum(1 for _ in records(Endless(20_000), "r"))  # type: ignore[arg-type]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert n_records == 20_000
    assert most < 200_000
