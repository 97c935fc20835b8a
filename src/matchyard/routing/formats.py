"""Readers of network files: CAIDA's AS relations, Rocketfuel's router maps, lists of links."""

from __future__ import annotations

import io
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from matchyard.archives import unzipped
from matchyard.errors import ParseError, UsageError
from matchyard.routing.topology import Topology, from_links, largest_component

_GZIP = b"\x1f\x8b"
_RELATIONS = ("-1", "0", "1", "2")
_ROUTER = re.compile(
    r"(?P<router>\d+)\s+@\S*\s+(?:\+\s+)?(?:bb\s+)?\(\d+\)\s+(?:&\d+\s+)?->"
    r"(?P<neighbours>(?:\s+(?:<\d+>|\{-\d+\}))*)\s+=\S+(?:\s*!)?\s+r\d+\s*"
)
_ROUTER_LINE = "49 @Oslo,+Norway + bb (2) -> <50> <51> =core1.oslo r0"  # an example
_EXTERNAL = re.compile(r"-\d+\s+=\S+(?:\s*!)?\s+r\d+\s*")  # a router of another network
_COMMA = re.compile(r",(?!\+)")
_LOOKS_LIKE_A_ROUTER = re.compile(r"-?\d+\s+[@=]")


class _Place(NamedTuple):
    file: str
    line: int
    column: int


class _Link(NamedTuple):
    here: str
    there: str
    weight: float = 1.0


def topology(path: str | os.PathLike[str], component: str = "largest") -> Topology:
    """Read a network from a file, plain or compressed by gzip; its first line tells the format.

    The formats are CAIDA's AS relations (`as1|as2|relation`), Rocketfuel's maps (`.cch`), and lists of
    links (`node node [weight]`, separated by spaces, tabs or commas, like Rocketfuel's weights). The
    result is the largest connected component, or with `component="all"`, the whole network. Nodes are
    numbered in the order of their names.
    """
    if component not in ("largest", "all"):
        raise UsageError(f'component must be "largest" or "all", not {component!r}')
    name = os.fspath(path)
    lines = _numbered(_text(Path(path)), name)
    first = next(lines, None)
    if first is None:
        raise _refused(
            "{file} has {found}; expected {expected}",
            "no links",
            "lines such as '1 2' or '1|2|-1'",
            "1 2",
            file=name,
        )
    read = _reader(first[1])
    links = [link for place, line in _chain(first, lines) for link in read(line, place)]
    if not links:
        found, expected = "no links, only routers of other networks", "a router with links"
        raise _refused("{file} has {found}", found, expected, _ROUTER_LINE, file=name)
    names = sorted({end for link in links for end in (link.here, link.there)}, key=_by_name)
    number = {name: position for position, name in enumerate(names)}
    network = from_links(
        [(number[link.here], number[link.there]) for link in links],
        [link.weight for link in links],
        names,
    )
    return largest_component(network) if component == "largest" else network


def _by_name(name: str) -> tuple[float, str]:
    """Sort key: numbers by value, then other names. The order of lines does not matter."""
    return (float(name) if name.isascii() and name.isdigit() else math.inf, name)


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        if data.startswith(_GZIP):
            data = unzipped(data, str(path))
        return data.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        message = "{path} is compressed, but damaged: {found}"
        raise _refused(message, str(error), "a whole file", "1 2", path=path) from None
    except UnicodeDecodeError as error:
        message = "{path} is no {expected}: {found}"
        raise _refused(message, str(error), "text in UTF-8", "1 2", path=path) from None


def _refused(message: str, found: str, expected: str, example: str, **said: Any) -> ParseError:
    """The error of a file, or of a line of it; the example is a line."""
    return ParseError.of(message, found=found, expected=expected, example=example, **said)


def _refused_line(place: _Place, line: str, expected: str, example: str) -> ParseError:
    return ParseError.of(
        "{file} line {number}: found {found!r}, expected {expected}, e.g. '{example}'",
        file=place.file,
        number=place.line,
        line=place.line,
        column=place.column,
        found=line[:80],
        expected=expected,
        example=example,
    )


def _numbered(text: str, name: str) -> Iterator[tuple[_Place, str]]:
    """Lines that are neither empty nor comments, each after its place."""
    for number, line in enumerate(io.StringIO(text), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith(("#", "%")):
            yield _Place(name, number, line.index(stripped) + 1), stripped


def _chain(
    first: tuple[_Place, str], rest: Iterator[tuple[_Place, str]]
) -> Iterator[tuple[_Place, str]]:
    yield first
    yield from rest


def _reader(line: str) -> Callable[[str, _Place], list[_Link]]:
    if "|" in line:
        return _caida
    return _rocketfuel if _LOOKS_LIKE_A_ROUTER.match(line) else _plain


def _caida(line: str, place: _Place) -> list[_Link]:
    parts = line.split("|")
    is_link = len(parts) >= 3 and parts[0].isdecimal() and parts[1].isdecimal()
    if not is_link or parts[2] not in _RELATIONS:
        raise _refused_line(place, line, "two AS numbers and a relation", "1|2|-1")
    return [_Link(parts[0], parts[1])]


def _rocketfuel(line: str, place: _Place) -> list[_Link]:
    if _EXTERNAL.fullmatch(line):
        return []
    match = _ROUTER.fullmatch(line)
    if match is None:
        raise _refused_line(place, line, "a router", _ROUTER_LINE)
    router, neighbours = match["router"], re.findall(r"<(\d+)>", match["neighbours"])
    return [
        _Link(router, other) for other in (neighbours or [router])
    ]  # a router without links becomes a link to itself


def _plain(line: str, place: _Place) -> list[_Link]:
    # A comma before a plus sign belongs to a Rocketfuel name; other commas separate names.
    parts = [part.strip() for part in line.split(",")] if _COMMA.search(line) else line.split()
    try:
        here, there, *weight = parts
        if not (here and there) or any(len(part.split()) > 1 for part in parts):
            raise ValueError
        cost = float(weight[0]) if weight else 1.0
        if len(weight) > 1 or not (math.isfinite(cost) and cost > 0):
            raise ValueError
    except ValueError:
        raise _refused_line(place, line, "two nodes and a weight above 0", "a b 2.5") from None
    return [_Link(here, there, cost)]
