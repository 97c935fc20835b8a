"""Compile the kernels of engines ahead of the first match, e.g. for an image.

It uses every form of input and every verb once, on a few subscriptions: kernels are compiled for the
types of the arrays that reach them, and these depend on the input.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from matchyard.engine import ENGINES
from matchyard.errors import UsageError
from matchyard.kernels.compiler import each_signature, n_compiled
from matchyard.opening import algorithms as algorithms_of
from matchyard.opening import create, open

_MANY = 600  # subscriptions, so that tables grow
_ALIKE = 40  # equal subscriptions, so that matches are rows


class _Sample(NamedTuple):
    subscriptions: list[str]  # of all kinds
    many: list[str]  # alike; of predicates, so that most of them match
    forms: list[Any]  # the same events, in each form that the engine takes


def _tags() -> _Sample:
    events = [["jazz", "live", "oslo"], ["rock"], []]
    arrow = pa.array(events)
    forms: list[Any] = [[set(tags) for tags in events], [" ".join(tags) for tags in events], arrow]
    return _Sample(
        ["jazz live", "jazz oslo", "rock"],
        [f"jazz tag{number}" for number in range(_MANY)],
        [*forms, arrow.cast(pa.large_list(pa.large_string()))],
    )


def _predicates() -> _Sample:
    events: list[dict[str, Any]] = [
        {"area": "north", "temp": 31, "wind": 2.5, "ip": "10.1.2.3", "on": True},
        {"area": "South", "temp": -4, "site": {"name": "x", "level": None}},
    ]
    texts = [json.dumps(event) for event in events]
    rows = pa.array([{name: event.get(name) for name in ("area", "temp")} for event in events])
    arrays = [{"tags": ["a", "b"], "sites": [{"name": "x"}, {"name": "y"}]}]
    return _Sample(
        [
            "temp in [1, 35] and wind in [0, 3]",
            'area = "north" and temp > 30 or wind > 20',
            'area in {"north", "south"} and temp in [-5, 5)',
            'area = "south" ignoring case or area < "m" or area != "east"',
            'area prefix "no" or area suffix "th" or area contains "rt" or area wildcard "n*h"',
            'ip in cidr "10.0.0.0/8" or ip in cidr "2001:db8::/32"',
            'not exists rain and temp except {1, "a"} and area except prefix {"e", "w"}',
            'site.name = "x" and tags = "a" and on = true',
        ],
        [f"temp > {number % 40} or temp < -{number}" for number in range(_MANY)],
        [events, texts, [text.encode() for text in texts], pa.array(texts), rows, arrays],
    )


def _twigs() -> _Sample:
    texts = [
        "<dblp><article year='1994' key='a'><author>Ada</author><title>On &amp; off</title></article></dblp>",
        "<?xml version='1.0'?><!DOCTYPE dblp><dblp><note><![CDATA[x]]></note><!-- y --><article/></dblp>",
    ]
    return _Sample(
        [
            "/dblp//article[author]/title",
            "//article[@year > 1990 and not(note)]",
            '//article[author = "Ada" or text() = "x"][@key = "a"]',
            "/dblp/*/title | //note",
        ],
        [f"//article/x{number}" for number in range(_MANY)],
        [texts, [text.encode() for text in texts], pa.array(texts), pa.array(texts, pa.binary())],
    )


SAMPLES = {"tags": _tags, "predicates": _predicates, "twigs": _twigs}


def warm(*engines: str, algorithms: str = "default") -> int:
    """Compile the kernels that the first build and match of engines would compile; of all engines, if none is named.

    The kernels are kept on this machine. With `algorithms="all"` they are those of all algorithms, else those of the
    default one of each engine. The result says how many kernels this call has compiled: none if the machine has them.

    >>> warm("tags", "music")
    Traceback (most recent call last):
        ...
    matchyard.errors.UsageError: no engine 'music'; expected one of: tags, predicates, twigs
    """
    if algorithms not in ("default", "all"):
        raise UsageError(f"no such choice of algorithms: {algorithms!r}; expected default or all")
    chosen = {name: algorithms_of(name, "cpu") for name in engines or ENGINES}
    before = n_compiled()
    for name, those in chosen.items():
        for algorithm in those if algorithms == "all" else those[:1]:
            use_once(name, algorithm)
    return n_compiled() - before


def use_once(engine: str, algorithm: str) -> None:
    """Use each verb of an index with each form of input, and compile each signature that occurs."""

    sample = SAMPLES[engine]()
    some, many = (
        [text for text in texts if _is_taken(engine, algorithm, text)]
        for texts in (sample.subscriptions, sample.many)
    )
    with each_signature():
        alike = some[:1] * _ALIKE
        for texts, kind in product((some, many, alike), (int, str)):
            keys = [kind(number) for number in range(len(texts))]
            for index in _indexes(engine, algorithm, texts, keys) if texts else ():
                for events in sample.forms:
                    with suppress(UsageError):  # e.g. an algorithm that takes no arrays
                        _read(index.match(events))
                        _read(index.match_unique(events))
                index.explain(sample.forms[0][0], keys[0])
                _match_ways(index, sample.forms[0])
                for key in keys[: 1 + len(keys) // 4]:
                    index.remove(key)
                _match_ways(index, sample.forms[0])
                _match_ways(index.consolidate(), sample.forms[0])


def _read(matches: Any) -> None:
    """Read matches in all ways: keys are written when they are asked for."""
    matches.to_arrays()
    matches.counts(unique=True)
    assert len(matches.keys) == matches.total


def _match_ways(index: Any, events: Any) -> None:
    _read(index.match([*events, *events]))
    for event in events:
        index.match_one(event)


def _is_taken(engine: str, algorithm: str, text: str) -> bool:
    try:
        create(engine, algorithm).add(text, 1)
    except UsageError:  # e.g. an algorithm for intervals alone
        return False
    return True


def _indexes(engine: str, algorithm: str, texts: list[str], keys: list[Any]) -> Iterator[Any]:
    """The ways in which an index comes to be: built, live, and opened from a file."""
    one = create(engine, algorithm).add(texts[0], keys[0]).consolidate()
    yield one
    built = create(engine, algorithm).add_many(texts, keys).consolidate()
    with tempfile.TemporaryDirectory() as folder:
        built.save(Path(folder) / "index")
        yield open(Path(folder) / "index")
    yield built
    live = create(engine, algorithm, live=True)
    for text, key in zip(texts, keys, strict=True):
        live.add(text, key)
        live.match([])
    yield live
    yield live.add(texts[0], keys[0])  # beside what `use_once` has consolidated
