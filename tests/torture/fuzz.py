"""Hostile text, JSON and XML: all readers must accept or refuse it alike, without any other error.

The matches of accepted inputs are compared with the oracle.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import matchyard as my
from matchyard.engine import find_engine
from tests.torture import inputs
from tests.torture.arena import Clock, Tally, in_children, seeded, split

_PIECES = [
    "and", "or", "not", "(", ")", "[", "]", "{", "}", "<", ">", "<=", "!=", "=", "in", "exists", '"', "'",
    "`", ",", ":", "//", "/", "*", "@", "..", ".", "text()", "&", ";", "<!--", "-->", "<![CDATA[", "]]>",
    "<?x?>", "<!DOCTYPE a [", "<!ENTITY e 'x'>", "<!ENTITY e SYSTEM 'x'>", "]>", "&e;", "&#65;", "&#x110000;",
    "null", "true", "1e400", "-0", "0.1", "9" * 25, "1e-400", "\\", "\\u0000", "\\ud800", "\0", "\ufeff",
    "\ud800", "౫", "٣", "é", "日", "🦉", " ", "\t", "\n", "\r", "\x7f", "\x85", "wildcard", "prefix", "cidr",
    "ignoring case", "$or", "anything-but", "numeric", "exists", "a", "b", "x.y", "10.0.0.0/8",
]  # fmt: skip
_CHUNK = 200


def mutate(text: str, random: Random) -> str:
    """Make a few random changes in a text."""
    for _ in range(random.choice([0, 1, 1, 2, 3, 8])):
        at = random.randint(0, len(text))
        kind = random.randint(0, 5)
        if kind == 0:
            text = text[:at] + random.choice(_PIECES) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + random.randint(1, 6) :]
        elif kind == 2:
            text = (
                text[:at]
                + chr(random.choice([random.randrange(128), random.randrange(0x3000)]))
                + text[at:]
            )
        elif kind == 3:
            end = min(len(text), at + random.randint(1, 12))
            text = text[:at] + text[at:end] * random.choice([2, 3, 20]) + text[end:]
        elif kind == 4 and text:
            at = random.randrange(len(text))
            text = text[:at] + random.choice(_PIECES) + text[at + 1 :]
        else:
            text = text[::-1] if random.random() < 0.05 else text
    return text


def _bytes(text: str, random: Random) -> bytes:
    """Encode a text as bytes, sometimes in another encoding or with damage."""
    data = text.encode("utf-8", "surrogatepass")
    kind = random.random()
    if kind < 0.03:
        data = text.encode("utf-16", "surrogatepass")
    elif kind < 0.06:
        data = b"\xef\xbb\xbf" + data
    elif kind < 0.12 and data:
        at = random.randrange(len(data))
        data = data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
    return data


def _pattern(random: Random) -> str:
    """A JSON pattern."""
    tests: list[Any] = [
        1, "a", None, True, {"exists": random.random() < 0.5}, {"prefix": "a"}, {"suffix": "b"},
        {"numeric": [">", random.randint(-3, 9)]}, {"anything-but": ["a", 1]}, {"wildcard": "a*b"},
        {"anything-but": {"prefix": "a"}}, {"equals-ignore-case": "AB"}, {"cidr": "10.0.0.0/8"},
    ]  # fmt: skip
    pattern: dict[str, Any] = {
        name: random.sample(tests, random.randint(1, 2))
        for name in random.sample(["a", "b", "c"], 2)
    }
    if random.random() < 0.3:
        pattern["$or"] = [{"a": [1]}, {"x": {"y": random.sample(tests, 1)}}]
    return json.dumps(pattern)


_SUBSCRIPTIONS: dict[str, list[Callable[[Random], str]]] = {
    "tags": [lambda random: " ".join(inputs.tag_set(random))],
    "predicates": [inputs.predicate, inputs.interval, _pattern],
    "twigs": [inputs.twig],
}
_EVENTS: dict[str, Callable[[Random], str]] = {
    "tags": lambda random: " ".join(inputs.tag_event(random)),
    "predicates": inputs.json_text,
    "twigs": inputs.document,
}


def run(seed: int, seconds: float, least: int = 0) -> list[Tally]:
    """Fuzz all engines in turn until time is up; a tally for each."""
    tallies = {engine: Tally(f"fuzz, {engine}") for engine in my.ENGINES}
    random, clock = seeded(seed, "fuzz"), Clock(seconds)
    n_jobs = 40 if seconds > 5 or least > 5000 else 2
    while sum(one.tries for one in tallies.values()) < least or clock.goes_on():
        jobs = [(engine, random.getrandbits(32)) for engine in my.ENGINES for _ in range(n_jobs)]
        for (engine, own), outcome in in_children(jobs, _chunk):
            kind, more = split(outcome)
            tally = tallies[engine]
            if kind == "right":
                n_inputs, n_taken, n_compared = map(int, more.split())
                tally.tries += n_inputs
                tally.outcomes["taken"] += n_taken
                tally.outcomes["compared"] += n_compared
            else:
                tally.count(kind, f"{engine} seed {own} {more}")
    return list(tallies.values())


def _chunk(job: tuple[str, int]) -> str:
    """Try some inputs of one engine: the numbers of inputs, accepted inputs, and compared pairs."""
    try:
        return _tried(*job)
    except AssertionError as error:  # two ways of reading differ, or an answer from the oracle's
        return f"wrong: {error}"


def _tried(engine: str, seed: int) -> str:
    random = Random(seed)
    rows = [
        row for row in (_subscription(engine, random) for _ in range(_CHUNK)) if row is not None
    ]
    events = [one for one in (_event(engine, random) for _ in range(_CHUNK)) if one is not None]
    n_compared = _compare(engine, rows[:40], events[:40])
    return f"right: {2 * _CHUNK} {len(rows) + len(events)} {n_compared}"


def _subscription(engine: str, random: Random) -> Any:
    text = mutate(random.choice(_SUBSCRIPTIONS[engine])(random), random)
    index, value = _READERS[engine][0], text
    if engine == "predicates" and text.startswith("{") and random.random() < 0.5:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
    try:
        parsed = index.parse(value)
    except my.MatchyardError:
        return None
    language = find_engine(engine).language
    if engine != "tags":  # a text that is formatted and read again is the same
        again = language.parse(language.format(parsed))
        assert again == parsed, f"{value!r} is read back as {again!r}"
    return parsed


def _event(engine: str, random: Random) -> Any:
    """A random event, or None if it is refused; all readers must agree on it."""
    text = mutate(_EVENTS[engine](random), random)
    value: Any = text if engine == "tags" or random.random() < 0.3 else _bytes(text, random)
    taken = [_is_taken(way, value) for way in _WAYS[engine]]
    assert len(set(taken)) == 1, f"{value!r} is taken by some and refused by others: {taken}"
    return value if taken[0] else None


def _is_taken(way: Callable[[Any], Any], value: Any) -> bool:
    try:
        way(value)
    except my.MatchyardError:
        return False
    return True


def _compare(engine: str, rows: list[Any], events: list[Any]) -> int:
    """Compare the default algorithm with the oracle; returns the number of compared pairs."""
    parts = find_engine(engine)
    index = my.create(engine)
    for number, row in enumerate(rows):
        index.add(row, number)
    found = [set(keys) for keys in index.consolidate().match(events)]
    for event, keys in zip(events, found, strict=True):
        seen = index.parse_event(event)
        want = {n for n, row in enumerate(rows) if parts.oracle.is_match(row, seen)}
        assert keys == want, f"{event!r}: rows {[rows[n] for n in keys ^ want]!r}"
    return len(rows) * len(events)


def _index(engine: str, **options: Any) -> Any:
    row = {"tags": "a b", "predicates": "a > 1", "twigs": "//a[@p > 1]/b"}[engine]
    return my.create(engine, options=options).add(row, 1).consolidate()


_READERS = {
    "tags": [_index("tags")],
    "predicates": [_index("predicates")],
    "twigs": [_index("twigs"), _index("twigs", parser="expat")],
}
_WAYS: dict[str, list[Callable[[Any], Any]]] = {
    engine: [
        way
        for index in readers
        for way in (
            index.parse_event,
            lambda value, index=index: index.match([value]),
            lambda value, index=index: index.check([value]),
        )
    ]
    for engine, readers in _READERS.items()
}
