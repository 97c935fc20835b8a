"""Compile the content models of a document type definition to tables of particles.

Mixed content is a text, then perhaps an element and another text, and so on. A document grows by one
repetition, which goes on until the document is large enough. It is the nearest one below the root,
and among equals the one that leads to most elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from matchyard.engines.twigs.workload.dtd.definition import Attribute, Dtd, Particle

NAME, SEQUENCE, CHOICE, TEXT = 0, 1, 2, 3  # kinds of particles
ONCE, MAYBE, ANY_NUMBER, SOME = 0, 1, 2, 3  # "", "?", "*", "+"
NEVER = 1 << 20  # the height of a particle that cannot be completed
_OCCURS = {"": ONCE, "?": MAYBE, "*": ANY_NUMBER, "+": SOME}
_CHANCES = {"": 1.0, "?": 0.5, "*": 1.5, "+": 1.5}  # the defaults
_MIXED_CHANCE, _ATTRIBUTE_CHANCE = 0.3, 0.1


class Particles:
    """The particles of all elements; parts come before the particles that contain them."""

    def __init__(
        self, dtd: Dtd, ids: dict[str, int], chances: Mapping[str, Mapping[str, float]]
    ) -> None:
        self.dtd, self.ids, self.chances = dtd, ids, chances
        self.kind: list[int] = []
        self.occurs: list[int] = []
        self.chance: list[float] = []
        self.element: list[int] = []
        self.parts: list[list[int]] = []
        self.share: list[NDArray[np.float64]] = []
        self.models = [self._add_element(name) for name in ids]  # -1 for an empty element

    def _add_element(self, name: str) -> int:
        """The particle of the content of an element; -1 for an empty element."""
        element = self.dtd.elements[name]
        if element.content == "EMPTY":
            return -1
        if element.model is not None:
            return self._add_part(name, element.model)
        text = self._add(TEXT, ONCE, 1.0, self.ids[name])
        names = self.dtd.children(name)
        if not names:
            return text
        inner = [self._add(NAME, ONCE, 1.0, self.ids[child]) for child in names]
        choice = self._add(CHOICE, ONCE, 1.0, -1, inner, [self._said(name, n, 1.0) for n in names])
        chance = self._said(name, "#PCDATA", _MIXED_CHANCE)
        more = self._add(SEQUENCE, ANY_NUMBER, chance, -1, [choice, text])
        return self._add(SEQUENCE, ONCE, 1.0, -1, [text, more])

    def chance_of_attribute(self, name: str, attribute: Attribute) -> float:
        """The chance that an element has the attribute."""
        if attribute.is_required or (attribute.kind == "ID" and self.ids[name] == 0):
            return 1.0  # the root always has its identifier, so that references have a target
        return self._said(name, f"@{attribute.name}", _ATTRIBUTE_CHANCE)

    def _add_part(self, name: str, part: Particle) -> int:
        occurs, said = _OCCURS[part.occurs], self._said(name, part.name, _CHANCES[part.occurs])
        if occurs in (ANY_NUMBER, SOME):  # from how many there are to the chance of one more
            said = said / (1 + said) if occurs == ANY_NUMBER else max(0.0, 1 - 1 / said)
        if part.kind == "name":
            return self._add(NAME, occurs, said, self.ids.get(part.name, -1))
        inner = [self._add_part(name, one) for one in part.parts]
        weights = [self._said(name, one.name, 1.0) for one in part.parts]
        kind = SEQUENCE if part.kind == "sequence" else CHOICE
        return self._add(kind, occurs, said, -1, inner, weights)

    def _said(self, name: str, child: str, otherwise: float) -> float:
        for parent in (name, ""):
            chance = self.chances.get(parent, {}).get(child)
            if child and chance is not None:
                return float(chance)
        return otherwise

    def _add(
        self, kind: int, occurs: int, chance: float, element: int,
        parts: Sequence[int] = (), weights: Sequence[float] = (),
    ) -> int:  # fmt: skip
        shares = np.cumsum(weights if len(weights) else np.ones(len(parts)))
        self.kind.append(kind)
        self.occurs.append(occurs)
        self.chance.append(chance)
        self.element.append(element)
        self.parts.append(list(parts))
        self.share.append(shares / shares[-1] if len(shares) else shares)
        return len(self.kind) - 1

    def heights(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The levels of elements that each particle needs, and the lowest part of each choice."""
        heights = np.full(len(self.kind), NEVER, np.int32)
        lowest = np.zeros(len(self.kind), np.int32)
        before = np.zeros_like(heights)
        while not np.array_equal(before, heights):
            before = heights.copy()
            for particle, (kind, parts) in enumerate(zip(self.kind, self.parts)):
                needs = [self._need(heights, part) for part in parts]
                if kind == NAME:
                    heights[particle] = self._need_of_element(heights, self.element[particle])
                elif kind == CHOICE:
                    lowest[particle] = parts[int(np.argmin(needs))]
                    heights[particle] = min(needs)
                else:
                    heights[particle] = max(needs, default=0)
        return heights, lowest

    def _need(self, heights: NDArray[np.int32], particle: int) -> int:
        is_optional = self.occurs[particle] in (MAYBE, ANY_NUMBER)
        return 0 if is_optional else int(heights[particle])

    def _need_of_element(self, heights: NDArray[np.int32], element: int) -> int:
        if element < 0:
            return NEVER  # it is not declared
        model = self.models[element]
        return 1 if model < 0 else min(NEVER, 1 + self._need(heights, model))

    def growing(self, heights: NDArray[np.int32]) -> list[int]:
        """The path of particles to the repetition that makes documents large."""
        paths = [[model] for model in self.models[:1] if model >= 0]
        seen = set(self.models[:1])
        while paths:
            repeated: list[list[int]] = []
            names: list[list[int]] = []
            for path in paths:
                self._look(path, heights, repeated, names)
            if repeated:
                return max(repeated, key=lambda path: self._reach(path[-1]))
            paths = []
            for path in names:
                model = self.models[self.element[path[-1]]]
                if model >= 0 and model not in seen:
                    seen.add(model)
                    paths.append([*path, model])
        return []

    def needed_depth(self, path: list[int], heights: NDArray[np.int32]) -> int:
        """The depth of the lowest document with all particles of the path."""
        needed, depth = self._need_of_element(heights, 0), 1
        for particle in path:
            needed = max(needed, depth + int(heights[particle]))
            depth += self.kind[particle] == NAME
        return needed

    def _look(
        self,
        path: list[int],
        heights: NDArray[np.int32],
        repeated: list[list[int]],
        names: list[list[int]],
    ) -> None:
        """Collect the repetitions in a particle, and the names outside repetitions."""
        particle = path[-1]
        if heights[particle] >= NEVER:
            return
        if self.occurs[particle] in (ANY_NUMBER, SOME):
            repeated.append(path)
            return
        if self.kind[particle] == NAME:
            names.append(path)
        for part in self.parts[particle]:
            self._look([*path, part], heights, repeated, names)

    def _reach(self, particle: int) -> int:
        """How many elements can stand below a particle."""
        elements: set[int] = set()
        waiting, seen = [particle], {particle}
        while waiting:
            particle = waiting.pop()
            nexts = list(self.parts[particle])
            if self.kind[particle] == NAME and self.element[particle] >= 0:
                elements.add(self.element[particle])
                nexts.append(self.models[self.element[particle]])
            fresh = {one for one in nexts if one >= 0} - seen
            seen |= fresh
            waiting += sorted(fresh)
        return len(elements)
