"""Compile a document type definition to tables of numbers, to draw documents and twigs from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.engines.twigs.workload.dblp import POOLS, WORDS, Slot
from matchyard.engines.twigs.workload.dtd.content_models import NEVER, Particles
from matchyard.engines.twigs.workload.dtd.definition import Attribute, Dtd
from matchyard.errors import UsageError
from matchyard.kernels.csr import ragged

VALUE, ID, REFERENCE = 0, 1, 2  # kinds of attributes
_KINDS = {"ID": ID, "IDREF": REFERENCE, "IDREFS": REFERENCE}
_LEFT_OUT = ("ENTITY", "ENTITIES", "NOTATION", "IDREF", "IDREFS")  # unless they are required
_VALUE = (Slot("kind"),)  # the default for attributes
_MARKS = 32  # brackets, quotes, spaces and the digits of an identifier, at most


class Texts(NamedTuple):
    """Many texts, one after the other."""

    start: NDArray[np.int64]
    data: NDArray[np.uint8]


class Rules(NamedTuple):
    """The particles of content models."""

    kind: NDArray[np.uint8]
    occurs: NDArray[np.uint8]
    chance: NDArray[np.float64]  # that it is present, or that it repeats once more
    element: NDArray[np.int32]  # of a name; of a text, the element around it
    part_start: NDArray[np.int64]
    parts: NDArray[np.int32]
    share: NDArray[np.float64]  # of the parts of a choice, up to and with each
    height: NDArray[np.int32]  # levels of elements that it needs at least
    lowest: NDArray[np.int32]  # the part of a choice that needs least
    is_on_path: NDArray[np.bool_]  # a document must take it to grow


class Tags(NamedTuple):
    """Elements and their attributes; the root is element 0."""

    names: Texts
    model: NDArray[np.int32]  # the particle of its content, -1 for an empty element
    is_spaced: NDArray[np.bool_]  # it contains only elements
    text: NDArray[np.int32]  # the template of its text
    attribute_start: NDArray[np.int64]
    attribute_names: Texts
    attribute_kind: NDArray[np.uint8]
    attribute_chance: NDArray[np.float64]
    attribute_text: NDArray[np.int32]


class Written(NamedTuple):
    """Templates of texts: slots, each of which draws from a pool of texts."""

    slot_start: NDArray[np.int64]
    slot_pool: NDArray[np.int32]
    slot_fewest: NDArray[np.int32]
    slot_most: NDArray[np.int32]
    pool_start: NDArray[np.int64]
    pool: Texts
    is_number: NDArray[np.bool_]  # of pools: all texts are numbers


class Graph(NamedTuple):
    """Which elements may stand in which."""

    child_start: NDArray[np.int64]
    children: NDArray[np.int32]


class Grammar(NamedTuple):
    """All tables, with bounds for the writers."""

    rules: Rules
    tags: Tags
    written: Written
    graph: Graph
    growing: int  # the particle that repeats until a document is large enough, or -1
    needed_depth: int  # of the lowest document that can grow
    most_parts: int  # of a particle
    widest: int  # the most bytes that are written at once
    longest_name: int  # of elements


def compile_grammar(
    dtd: Dtd,
    root: str,
    chances: Mapping[str, Mapping[str, float]],
    texts: Mapping[str, tuple[Slot, ...]],
) -> Grammar:
    """Compile the tables of the elements that a document can have."""
    if root not in dtd.elements:
        raise UsageError(f"the DTD declares no element {root!r} to be the root")
    ids = _reachable(dtd, root)
    particles = Particles(dtd, ids, chances)
    heights, lowest = particles.heights()
    path = particles.growing(heights)
    needed_depth = particles.needed_depth(path, heights)
    if needed_depth >= NEVER:
        raise UsageError(
            f"no document of this DTD ends: {root!r} requires an element within itself"
        )
    templates = _Templates(texts)
    attributes = [_attributes(dtd.elements[name].attributes) for name in ids]
    tags = _tags(dtd, ids, attributes, particles, templates)
    children = [[ids[child] for child in dtd.children(name)] for name in ids]
    longest = _longest(tags.names)
    each = templates.longest() + _longest(tags.attribute_names) + _MARKS
    return Grammar(
        _rules(particles, path, heights, lowest), tags, templates.tables(),
        Graph(_start(children), _flat(children, np.int32)),
        path[-1] if path else -1, needed_depth,
        max(map(len, particles.parts), default=0),
        longest + each * (1 + max(map(len, attributes))), longest,
    )  # fmt: skip


def _rules(
    particles: Particles, path: list[int], heights: NDArray[np.int32], lowest: NDArray[np.int32]
) -> Rules:
    return Rules(
        np.array(particles.kind, np.uint8), np.array(particles.occurs, np.uint8),
        np.array(particles.chance), np.array(particles.element, np.int32),
        _start(particles.parts), _flat(particles.parts, np.int32),
        _flat(particles.share, np.float64), heights, lowest,
        np.isin(np.arange(len(heights)), path),
    )  # fmt: skip


def _tags(
    dtd: Dtd,
    ids: dict[str, int],
    attributes: list[list[Attribute]],
    particles: Particles,
    templates: _Templates,
) -> Tags:
    each = [(name, one) for name, some in zip(ids, attributes) for one in some]
    return Tags(
        _texts(ids), np.array(particles.models, np.int32),
        np.array([dtd.elements[name].content == "children" for name in ids]),
        np.array([templates.add(name, WORDS) for name in ids], np.int32),
        _start(attributes), _texts(one.name for _, one in each),
        np.array([_KINDS.get(one.kind, VALUE) for _, one in each], np.uint8),
        np.array([particles.chance_of_attribute(name, one) for name, one in each], np.float64),
        np.array([templates.add_attribute(one) for _, one in each], np.int32),
    )  # fmt: skip


def _reachable(dtd: Dtd, root: str) -> dict[str, int]:
    """The numbers of the elements that a document can have; the root is 0."""
    ids, waiting = {root: 0}, [root]
    for name in waiting:
        for child in dtd.children(name):
            if child not in ids:
                ids[child] = len(ids)
                waiting.append(child)
    return ids


def _attributes(attributes: Iterable[Attribute]) -> list[Attribute]:
    return [one for one in attributes if one.is_required or one.kind not in _LEFT_OUT]


class _Templates:
    """Collects the templates of texts of elements and attributes."""

    def __init__(self, texts: Mapping[str, tuple[Slot, ...]]) -> None:
        self.texts = texts
        self.templates: list[tuple[Slot, ...]] = []
        self.pools = dict(POOLS)

    def add(self, name: str, otherwise: tuple[Slot, ...]) -> int:
        """Add the template of a name; returns its number."""
        self.templates.append(self.texts.get(name, otherwise))
        return len(self.templates) - 1

    def add_attribute(self, attribute: Attribute) -> int:
        """Add the template of an attribute, which may have a choice of values."""
        if not attribute.values:
            return self.add(f"@{attribute.name}", _VALUE)
        pool = "|".join(attribute.values)
        self.pools[pool] = list(attribute.values)
        self.templates.append((Slot(pool),))
        return len(self.templates) - 1

    def longest(self) -> int:
        """Bytes of the longest text of a template."""
        longest = {
            name: max(len(text.encode()) for text in pool) for name, pool in self.pools.items()
        }
        return max(
            sum(slot.most * (1 + longest[slot.pool]) for slot in template)
            for template in self.templates
        )

    def tables(self) -> Written:
        """Slots of templates, and texts of pools."""
        numbers = {name: number for number, name in enumerate(self.pools)}
        slots = [slot for template in self.templates for slot in template]
        pools = list(self.pools.values())
        return Written(
            _start(self.templates),
            np.array([numbers[slot.pool] for slot in slots], np.int32),
            np.array([slot.fewest for slot in slots], np.int32),
            np.array([slot.most for slot in slots], np.int32),
            _start(pools), _texts(text for pool in pools for text in pool),
            np.array([all(text.isascii() and text.isdigit() for text in pool) for pool in pools]),
        )  # fmt: skip


def _start(rows: Sequence[Sequence[Any]] | Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    start: NDArray[np.int64] = ragged(np.array([len(row) for row in rows], np.int64))
    return start


def _flat(rows: Sequence[Any], kind: type[Any]) -> NDArray[Any]:
    return np.array([value for row in rows for value in row], kind)


def _texts(texts: Iterable[str]) -> Texts:
    encoded = [text.encode() for text in texts]
    return Texts(_start(encoded), np.frombuffer(b"".join(encoded), np.uint8))


def _longest(texts: Texts) -> int:
    return int(np.diff(texts.start).max(initial=0))
