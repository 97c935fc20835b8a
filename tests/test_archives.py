"""Archives and compressed files from others: what they may unpack to, and forged headers."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

import matchyard as my
from matchyard import archives

RULE = b"id: good\ndetection: {s: {a: 1}, condition: s}\n"


def packed(path: Path, *sizes: int, name: str = "large.yml") -> Path:
    """An archive of a rule and of members of zeros."""
    with tarfile.open(path, "w:" + path.suffix[1:]) as archive:
        for number, content in enumerate(
            [RULE, *map(bytes, sizes), RULE.replace(b"good", b"last")]
        ):
            member = tarfile.TarInfo(name if 0 < number <= len(sizes) else f"{number}.yml")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("ending", ["xz", "gz", "bz2"])
@pytest.mark.parametrize("name", ["large.yml", "large.bin"])
def test_a_member_that_unpacks_to_too_much_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, name: str
) -> None:
    monkeypatch.setattr(archives, "_ALWAYS", 1 << 20)
    path = packed(tmp_path / f"rules.tar.{ending}", 8 << 20, name=name)
    with pytest.raises(my.UsageError, match=r"rules.tar.* unpacks to more than \d MiB"):
        my.sigma(path)
    monkeypatch.setattr(archives, "_ALWAYS", 1 << 24)
    assert {rule.id for rule in my.sigma(path).rules} == {"good", "last"}


def test_a_member_above_the_limit_of_files_is_left_alone(tmp_path: Path) -> None:
    found = my.sigma(packed(tmp_path / "rules.tar.gz", (1 << 24) + 1))
    assert [rule.id for rule in found.rules] == ["good", "last"]
    assert [(left.file, left.reason) for left in found.left] == [
        ("large.yml", "too large: more than 16,777,216 bytes")
    ]


@pytest.mark.parametrize("size", [-1, -512, -1024, -(1 << 40), 1 << 40, (1 << 62)])
@pytest.mark.parametrize("kind", [b"0", b"L", b"x", b"g", b"S", b"5"])
def test_forged_lengths_neither_loop_nor_fill_the_memory(
    tmp_path: Path, size: int, kind: bytes
) -> None:
    data = bytearray(gzip.decompress(packed(tmp_path / "a.tar.gz", 512).read_bytes()))
    header = data[1024:1536]  # of the member after the first
    forged = (
        size.to_bytes(12, "big", signed=True) if size < 0 else b"\x80" + size.to_bytes(11, "big")
    )
    header[124:136] = forged
    header[156:157] = kind
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    data[1024:1536] = header
    (tmp_path / "forged.tar.gz").write_bytes(gzip.compress(bytes(data)))
    try:
        said = my.sigma(tmp_path / "forged.tar.gz").rules[0].id
    except my.UsageError as error:
        said = str(error)
    assert said == "good" or "forged.tar.gz" in said
    assert size > 0 or "more than" not in said  # nothing is read again


def test_a_network_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "links.gz").write_bytes(gzip.compress(b"1 2\n" * (1 << 19)))
    assert my.topology(tmp_path / "links.gz").names == ("1", "2")
    monkeypatch.setattr(archives, "_ALWAYS", 1 << 20)
    with pytest.raises(my.UsageError, match=r"links.gz unpacks to more than 1 MiB"):
        my.topology(tmp_path / "links.gz")
