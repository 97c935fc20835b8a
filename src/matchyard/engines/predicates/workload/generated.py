"""Generated workloads: HEM's Table 2, CCM's Table 1, and rules over JSON.

Every row is a function of (parameters, size, seed, row). What the papers leave open is said at the
parameters.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from matchyard.engines import workloads
from matchyard.engines.predicates.workload.draws import (
    draw_events,
    draw_filters,
    draw_fractions,
    draw_names,
)
from matchyard.kernels.csr import ragged
from matchyard.kernels.random import zipf

_EVENTS = 0xE7E7  # makes events a stream of random numbers of their own
_VALUES, _WIDTHS = 10_000, 20_000  # which numbers of a row are values, and which widths


class Hem(NamedTuple):
    """HEM's Table 2 [2022]; the defaults are those in bold. Values are uniform integers; an interval
    has exactly the given width, anywhere in the domain; attributes of a row are distinct."""

    attributes: int = 20  # d
    event_size: int = 20  # psi_E
    subscription_size: int = 10  # psi_S
    width: float = 0.3  # w
    alpha: float = 0.0  # of the Zipf distribution of attributes, in subscriptions and events
    domain: int = 1_000_000  # R = [1, domain]


class Ccm(NamedTuple):
    """CCM's Table 1 [DEBS 2011]. Filters are dealt to interfaces in turn, each with 90 to 110 % of
    the mean; the constraints of a filter draw their names independently and may repeat one.

    Texts are 100 words of six letters; `prefix` asks for the first three letters of a word,
    `contains` for three from within one: both hold for about one word, as `=` does.
    """

    interfaces: int = 10
    spread: float = 0.1  # of filters per interface: 22 500 to 27 500 of 25 000
    fewest_constraints: int = 3
    most_constraints: int = 5
    fewest_attributes: int = 3
    most_attributes: int = 5
    names: int = 100
    values: int = 100
    numeric: float = 0.5  # the share of numbers among constraints and attributes
    alpha: float = 0.0  # of the Zipf distribution of names; at 1.7 the first has half of them
    number_operators: tuple[float, ...] = (0.25, 0.25, 0.25, 0.25)  # = != > <
    text_operators: tuple[float, ...] = (0.25, 0.25, 0.25, 0.25)  # = != contains prefix


class Json(NamedTuple):
    """Rules on a few of 20 attributes; events have all of them."""

    ranges: bool  # intervals of numbers rather than equal texts
    attributes: int = 20
    subscription_size: int = 3
    values: int = 50  # texts per attribute
    domain: int = 10_000  # numbers are integers below this
    narrowest: float = 0.01  # of the domain
    widest: float = 0.1


class Workload(workloads.Workload):
    """Events are structs, or JSON where attributes have several types.

    >>> small = Intervals("hem", 1000, 7, Hem())
    >>> conditions, keys = small.subscriptions(0, 2)
    >>> len(conditions), len(keys), len(small.events(5))
    (2, 2, 5)
    """

    def events_as_dicts(self, n_events: int, start: int = 0) -> list[dict[str, Any]]:
        """Events as Python objects."""
        rows = self.events(n_events, start).to_pylist()
        if rows and isinstance(rows[0], bytes):
            return [json.loads(row) for row in rows]
        return [{name: value for name, value in row.items() if value is not None} for row in rows]


def names_of(prefix: str, n_names: int) -> pa.Array:
    """Attribute names."""
    return pa.array([f"{prefix}{number}" for number in range(n_names)])


def constraints(
    start: NDArray[np.int64],
    names: pa.Array,
    name_ids: NDArray[Any],
    ops: list[str],
    op_ids: NDArray[Any],
    operands: dict[str, pa.Array],
) -> pa.Array:
    """A column of predicates: lists of constraints that must all hold."""
    fields = {
        "name": pa.DictionaryArray.from_arrays(name_ids.astype(np.int32), names),
        "op": pa.DictionaryArray.from_arrays(op_ids.astype(np.int8), pa.array(ops)),
        **operands,
    }
    inner = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    return pa.ListArray.from_arrays(start.astype(np.int32), inner)


class Intervals(Workload):
    """HEM's workload: intervals of numbers; a subscription's key is its number."""

    model: Hem

    def _check(self, model: Hem) -> None:
        most = max(model.event_size, model.subscription_size)
        self._refuse(1 <= most <= model.attributes, "more attributes in a row than there are")
        self._refuse(0 < model.width < 1, "the width of intervals must be between 0 and 1")
        self._popularity = zipf(model.attributes, model.alpha)

    def subscriptions(self, start: int, stop: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """Subscriptions `start` … `stop`-1, with constraints `between` value and high."""
        model = self.model
        names = self._names(self.seed, start, stop, model.subscription_size)
        width = round(model.width * model.domain)
        fractions = draw_fractions(self.seed, start, stop, model.subscription_size, _VALUES)
        low = 1 + (fractions * (model.domain - width)).astype(np.int64).ravel()
        row_start = ragged(np.full(stop - start, model.subscription_size))
        column = constraints(
            row_start, names_of("a", model.attributes), names.ravel(), ["between"],
            np.zeros(len(low)), {"value": pa.array(low), "high": pa.array(low + width)},
        )  # fmt: skip
        return column, np.arange(start, stop)

    def events(self, n_events: int, start: int = 0) -> pa.Array:
        """Events from `start` on as structs of integers, null where an attribute is absent."""
        model, seed, stop = self.model, self.seed ^ _EVENTS, start + n_events
        names = self._names(seed, start, stop, model.event_size)
        fractions = draw_fractions(seed, start, stop, model.event_size, _VALUES)
        dense = np.zeros((model.attributes, n_events), np.int64)
        dense[names, np.arange(n_events)[:, None]] = 1 + (fractions * model.domain).astype(np.int64)
        columns = [pa.array(values, mask=values == 0) for values in dense]
        return pa.StructArray.from_arrays(columns, names_of("a", model.attributes).to_pylist())

    def _names(self, seed: int, start: int, stop: int, n_each: int) -> NDArray[np.int64]:
        names: NDArray[np.int64] = draw_names(
            seed, start, stop, n_each, self.model.attributes, self.model.alpha, self._popularity
        )
        return names


class Interfaces(Workload):
    """CCM's workload: filters of interfaces, which are the keys."""

    model: Ccm

    def _check(self, model: Ccm) -> None:
        self._refuse(model.most_attributes <= model.names, "more attributes than names")
        self._refuse(0 <= model.spread < 1, "'spread' must be at least 0 and below 1")
        self._popularity = zipf(model.names, model.alpha)
        shares = np.random.default_rng(self.seed).uniform(-1, 1, model.interfaces)
        shares = np.cumsum(1 + model.spread * shares)
        self._ends = np.round(self.size * shares / shares[-1]).astype(np.int64)
        self._words = words_of(model.values)

    def subscriptions(self, start: int, stop: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """Filters `start` … `stop`-1; `value` has numbers and `text` the rest."""
        model = self.model
        counts, name_ids, op_ids, values = draw_filters(
            self.seed, start, stop, model.fewest_constraints, model.most_constraints,
            model.numeric, np.cumsum(model.number_operators), np.cumsum(model.text_operators),
            model.values, self._popularity,
        )  # fmt: skip
        is_text = op_ids >= 4
        texts = np.where(op_ids >= 6, (op_ids - 5) * model.values, 0) + values
        column = constraints(
            ragged(counts), names_of("n", model.names), name_ids,
            ["=", "!=", ">", "<", "contains", "prefix"],
            np.where(is_text, np.array([0, 1, 2, 3, 0, 1, 4, 5])[op_ids], op_ids),
            {
                "value": pa.array(values, mask=is_text),
                "text": pa.DictionaryArray.from_arrays(
                    pa.array(texts.astype(np.int32), mask=~is_text), self._words
                ),
            },
        )  # fmt: skip
        return column, np.searchsorted(self._ends, np.arange(start, stop), side="right")

    def events(self, n_events: int, start: int = 0) -> pa.Array:
        """Events from `start` on as JSON, since an attribute is a number here and a text there."""
        rows = self.events_as_dicts(n_events, start)
        return pa.array([json.dumps(row).encode() for row in rows], pa.binary())

    def events_as_dicts(self, n_events: int, start: int = 0) -> list[dict[str, Any]]:
        """The same events as Python objects."""
        model = self.model
        counts, name_ids, is_number, values = draw_events(
            self.seed ^ _EVENTS, start, start + n_events, model.fewest_attributes,
            model.most_attributes, model.names, model.numeric, model.values, model.alpha,
            self._popularity,
        )  # fmt: skip
        words = self._words.to_pylist()
        events: list[dict[str, Any]] = [{} for _ in range(n_events)]
        for event, name, numeric, value in zip(
            np.repeat(np.arange(n_events), counts).tolist(), name_ids.tolist(),
            is_number.tolist(), values.tolist(), strict=True,
        ):  # fmt: skip
            events[event][f"n{name}"] = value if numeric else words[value]
        return events


def words_of(n_values: int) -> pa.Array:
    """So many words, then a part from within each, then the beginning of each."""
    letters = "bdfghjklmnprstvwz", "aeiou"
    words: dict[str, None] = {}
    rng = np.random.default_rng(100)  # the same words in every workload
    while len(words) < n_values:
        draws = rng.integers(0, 1 << 16, 6).tolist()
        words["".join(letters[i % 2][p % len(letters[i % 2])] for i, p in enumerate(draws))] = None
    listed = list(words)
    return pa.array([*listed, *(word[2:5] for word in listed), *(word[:3] for word in listed)])


class Rules(Workload):
    """Rules over JSON events: equal texts, or intervals; a rule's key is its number."""

    model: Json

    def _check(self, model: Json) -> None:
        self._refuse(
            model.subscription_size <= model.attributes, "more attributes in a rule than there are"
        )
        self._popularity = zipf(model.attributes, 0)

    def subscriptions(self, start: int, stop: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """Rules `start` … `stop`-1 as constraints."""
        model = self.model
        names, low, high = (part.ravel() for part in self._rows(start, stop))
        operands = {"value": pa.array(low), "high": pa.array(high)}
        if not model.ranges:
            texts = names_of("v", model.values)
            operands = {"text": pa.DictionaryArray.from_arrays(low.astype(np.int32), texts)}
        column = constraints(
            ragged(np.full(stop - start, model.subscription_size)),
            names_of("a", model.attributes), names, ["between" if model.ranges else "="],
            np.zeros(len(low)), operands,
        )  # fmt: skip
        return column, np.arange(start, stop)

    def patterns(self, start: int, stop: int) -> list[dict[str, Any]]:
        """The same rules as EventBridge patterns."""
        rows = zip(*(part.tolist() for part in self._rows(start, stop)), strict=True)
        return [
            {
                f"a{name}": [{"numeric": [">=", a, "<=", b]} if self.model.ranges else f"v{a}"]
                for name, a, b in zip(*row, strict=True)
            }
            for row in rows
        ]

    def events(self, n_events: int, start: int = 0) -> pa.Array:
        """Events from `start` on as JSON with all attributes."""
        model = self.model
        seed, limit = self.seed ^ _EVENTS, model.domain if model.ranges else model.values
        fractions = draw_fractions(seed, start, start + n_events, model.attributes, _VALUES)
        values = (fractions.T * limit).astype(np.int64)
        opening, closing = ("", "") if model.ranges else ('"v', '"')
        parts: list[Any] = []
        for number in range(model.attributes):
            comma = "," if number else "{"
            parts += [f'{comma}"a{number}":{opening}', pa.array(values[number]).cast(pa.string())]
            parts.append(closing)
        return pc.binary_join_element_wise(*parts, "}", "").cast(pa.binary())

    def _rows(self, start: int, stop: int) -> tuple[NDArray[np.int64], ...]:
        """Names, and low and high ends or twice the number of a text."""
        model, size = self.model, self.model.subscription_size
        names = draw_names(self.seed, start, stop, size, model.attributes, 0.0, self._popularity)
        fractions = draw_fractions(self.seed, start, stop, size, _VALUES)
        if not model.ranges:
            values = (fractions * model.values).astype(np.int64)
            return names, values, values
        narrowest, widest = (
            round(share * model.domain) for share in (model.narrowest, model.widest)
        )
        spread = draw_fractions(self.seed, start, stop, size, _WIDTHS)
        width = narrowest + (spread * (widest - narrowest + 1)).astype(np.int64)
        low = (fractions * (model.domain - width)).astype(np.int64)
        return names, low, low + width
