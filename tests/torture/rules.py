"""Hostile Sigma rules and archives: each is refused or read in bounded time and memory, and a rule beside it is found."""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import matchyard as my
from tests.torture.arena import Clock, Tally, in_children, seeded, split

GOOD = b"title: good\nid: good\ndetection: {s: {a: 1}, condition: s}\n"
_RULE = "title: {title}\nid: bad\ntags: {tags}\ndetection:\n  s: {{f: {value}}}\n  t: {block}\n  condition: {condition}\n"
_MOST_BYTES = 1 << 27  # more than this process: a tenth of what the bombs unpack to
_PATIENCE_S = 10.0


def run(folder: Path, seed: int, seconds: float, least: int = 0) -> Tally:
    """Read hostile folders and archives until time is up."""
    tally, random, clock = Tally("rules"), seeded(seed, "rules"), Clock(seconds, least)
    (folder / "good.yml").write_bytes(GOOD)
    my.sigma(folder)  # so that a child imports nothing
    jobs = []
    while clock.goes_on():
        jobs.append((folder, random.choice(list(_BOMBS)), random.getrandbits(32)))
        if len(jobs) == 20 or len(jobs) == least:
            for job, outcome in in_children(jobs, _attempt, _PATIENCE_S, _MOST_BYTES):
                kind, more = split(outcome)
                tally.count(kind, f"{job[1:]} {more}")
            jobs = []
    return tally


def _attempt(job: tuple[Path, str, int]) -> str:
    folder, kind, seed = job
    content = _BOMBS[kind](Random(seed))
    try:
        return _read(folder, kind, content)
    except MemoryError:
        return "wrong: out of memory"


def _read(folder: Path, kind: str, content: bytes) -> str:
    if kind in ("member", "headers"):
        (folder / "bad.tar.xz").write_bytes(content)
        found = my.sigma(folder / "bad.tar.xz")
        return "read" if found.rules else "wrong: no rule of the archive"
    (folder / "bad.yml").write_bytes(content)
    found = my.sigma(folder)
    if "good" not in {rule.id for rule in found.rules}:
        return "wrong: the good rule is not found"
    return "left" if found.left else "read"


def _rule(title: str = "t", tags: str = "[]", value: str = "a", block: str = "{g: b}", condition: str = "s or t") -> str:  # fmt: skip
    return _RULE.format(title=title, tags=tags, value=value, block=block, condition=condition)


def _laughs(random: Random) -> bytes:
    width, depth = random.randint(2, 12), random.randint(2, 30)
    kind = random.choice(["list", "map", "merge"])
    lines = ["x0: &x0 {f: a}" if kind == "merge" else f"x0: &x0 [{'lol,' * width}]"]
    for n in range(1, depth):
        aliases = ",".join([f"*x{n - 1}"] * width)
        inside = {"list": f"[{aliases}]", "map": f"{{a: [{aliases}]}}", "merge": f"{{<<: [{aliases}], f{n}: a}}"}[kind]  # fmt: skip
        lines.append(f"x{n}: &x{n} {inside}")
    where = random.choice(["title", "tags", "value", "block"])
    return ("\n".join(lines) + "\n" + _rule(**{where: f"*x{depth - 1}"})).encode()


def _giant(random: Random) -> bytes:
    length = int(10 ** random.uniform(3, 7.5))
    text = random.choice(
        ["a", "a*", "\\\\", " -a", "(a|b)", "%p%", "9", "[", "- ", "{a: ", ":59", "é"]
    )
    text *= length // len(text)
    field = random.choice(
        ["f", "f|re", "f|contains|windash", "f|expand", "f|base64offset|contains"]
    )
    quote = random.choice(["", "'", '"'])
    return _rule().replace("{f: a}", f"{{{field}: {quote}{text}{quote}}}").encode()


def _many(random: Random) -> bytes:
    n = int(10 ** random.uniform(2, 5.5))
    values = random.choice(["a{}", "' -a{} -b -c'", "{}"])
    listed = f"[{','.join(values.format(i) for i in range(n))}]"
    condition = " or ".join(random.choices(["s", "1 of s*", "all of them", "not t"], k=n // 100))
    rule = _rule(value=listed, condition=condition).replace("{f:", "{f|contains|windash:")
    return ("".join(f"%TAG !t{i}! b\n" for i in range(n // 50)) + "--- \n" + rule).encode()


def _member(random: Random) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz", preset=0) as archive:
        for name, size in (("good.yml", 0), ("large" + random.choice([".yml", ""]), int(10 ** random.uniform(6, 8.5)))):  # fmt: skip
            member = tarfile.TarInfo(name)
            member.size = size or len(GOOD)
            archive.addfile(member, _Zeros(size) if size else io.BytesIO(GOOD))
    return packed.getvalue()


def _headers(random: Random) -> bytes:
    """An archive whose headers are damaged, but for the one of the good rule."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=random.choice([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])) as archive:  # fmt: skip
        for name in ("good.yml", "n" * 200 + ".yml", "b.yml"):
            member = tarfile.TarInfo(name)
            member.size = len(GOOD)
            archive.addfile(member, io.BytesIO(GOOD))
    data = bytearray(packed.getvalue())
    for _ in range(random.randint(1, 3)):
        start = random.choice(
            [at for at in range(1024, len(data) - 512, 512) if any(data[at : at + 512])]
        )
        _forge(data, start, random)
    return lzma.compress(bytes(data), preset=0)


def _forge(data: bytearray, start: int, random: Random) -> None:
    """Forge the length or the kind of a header, with a checksum that is right."""
    size = random.choice([-1, -512, -(1 << 40), 1 << 33, 1 << 62])
    forged = (
        size.to_bytes(12, "big", signed=True) if size < 0 else b"\x80" + size.to_bytes(11, "big")
    )
    data[start + 124 : start + 136] = forged
    if random.random() < 0.5:
        data[start + 156] = random.choice(b"0LKxgS57")
    data[start + 148 : start + 156] = b" " * 8
    data[start + 148 : start + 156] = b"%06o\0 " % sum(data[start : start + 512])


class _Zeros(io.RawIOBase):
    """A file of zeros."""

    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, size: int = -1) -> bytes:
        some = min(size, self._left)
        self._left -= some
        return bytes(some)


_BOMBS: dict[str, Callable[[Random], bytes]] = {
    "laughs": _laughs,
    "giant": _giant,
    "many": _many,
    "member": _member,
    "headers": _headers,
}
