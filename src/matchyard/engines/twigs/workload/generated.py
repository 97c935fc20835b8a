"""Generated workloads: documents and twigs that are drawn from a document type definition.

Every document is a function of (parameters, seed, number). So is every twig, unless twigs must be
distinct: then each is the first of its draws that differs from all twigs before it.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.engines.twigs.workload import dblp, walks
from matchyard.engines.twigs.workload.documents import write_documents
from matchyard.engines.twigs.workload.dtd import definition
from matchyard.engines.twigs.workload.dtd.grammar import Grammar, compile_grammar
from matchyard.engines.workloads import Workload

_EVENTS = 0xE7E7  # gives documents other random numbers than twigs
_MOST_BYTES = (1 << 31) - 1  # of a binary column; more are a large one


class Generated(NamedTuple):
    """Documents of a definition, and twigs that are walks over it [XML twigs on GPUs, §5]. A document
    ends after the record that makes it large enough."""

    document_bytes: int = 25_000
    record_bytes: int = 2_000  # a longer record takes only required elements
    max_depth: int = 8  # elements within each other, at most
    nodes: int = 10  # of a twig
    splits: int = 3  # nodes with several children
    max_children: int = 4
    wildcard: float = 0.3  # chance that a name is *
    descendant: float = 0.3  # chance that a step is //
    distinct: bool = True
    tests: float = 0.0  # share of twigs that test a value
    negations: float = 0.0  # share of twigs with a branch that must not be there
    dtd: str = ""  # a file; of the workload `dtd` only
    root: str = ""  # needed if several elements are in no other element


class Drawn(Workload):
    """`dblp` and `dtd`: documents and twigs from a definition, which is `dtd`.

    >>> small = Drawn("dblp", 1000, 7, Generated())
    >>> twigs, keys = small.subscriptions(0, 2)
    >>> len(twigs), len(keys), len(small.events(5))
    (2, 2, 5)
    """

    model: Generated

    def _check(self, model: Generated) -> None:
        for name in ("wildcard", "descendant", "tests", "negations"):
            self._refuse(0 <= getattr(model, name) <= 1, f"{name!r} is a share from 0 to 1")
        for name in ("document_bytes", "record_bytes", "nodes", "max_children"):
            self._refuse(getattr(model, name) >= 1, f"{name!r} must be at least 1")
        self._refuse(model.splits >= 0, "'splits' must be at least 0")
        self._refuse(
            model.nodes > 2 * model.splits or model.splits == 0,
            f"{model.splits} splits need {2 * model.splits + 1} nodes or more",
        )
        self._refuse(model.splits == 0 or model.max_children > 1, "a split needs two children")
        self.dtd, self.root = self._definition(model)
        self._refuse(
            model.max_depth >= self._grammar.needed_depth,
            f"documents have a depth of {self._grammar.needed_depth} at least",
        )

    def _definition(self, model: Generated) -> tuple[definition.Dtd, str]:
        """The document type definition, and the name of the root."""
        if self.name == "dblp":
            self._refuse(not model.dtd and not model.root, "its DTD is built in; see 'dtd'")
            return definition.read_text(dblp.TEXT), dblp.ROOT
        self._refuse(bool(model.dtd), "the parameter 'dtd' names the file")
        dtd = definition.read_file(model.dtd)
        tops = dtd.tops()
        self._refuse(
            bool(model.root) or len(tops) == 1,
            f"the parameter 'root' names the root, perhaps one of: {', '.join(tops)}",
        )
        return dtd, model.root or tops[0]

    @cached_property
    def _grammar(self) -> Grammar:
        if self.name == "dblp":
            return compile_grammar(self.dtd, self.root, dblp.CHANCES, dblp.TEXTS)
        return compile_grammar(self.dtd, self.root, {}, {})

    @cached_property
    def _distinct(self) -> pa.ChunkedArray:
        return walks.draw_twigs(self._grammar, self._shape(), self.seed, 0, self.size, True)

    def _shape(self) -> walks.Shape:
        model = self.model
        return walks.Shape(
            model.nodes, model.splits, model.max_children, model.max_depth,
            float(model.wildcard), float(model.descendant), float(model.tests),
            float(model.negations),
        )  # fmt: skip

    def subscriptions(self, start: int, stop: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """Twigs `start` … `stop`-1 as XPath in an Arrow column, and their keys: their numbers."""
        stop = min(stop, self.size)
        if self.model.distinct:
            twigs = self._distinct.slice(start, stop - start)
        else:
            twigs = walks.draw_twigs(self._grammar, self._shape(), self.seed, start, stop, False)
        return twigs.combine_chunks(), np.arange(start, stop)

    def events(self, n_events: int, start: int = 0) -> pa.Array:
        """Documents from `start` on, in UTF-8."""
        model, pieces, spare = self.model, [], 64
        while n_events:
            each = model.document_bytes + model.record_bytes + spare
            n_fitting = min(n_events, max(1, _MOST_BYTES // each))
            out = np.empty(n_fitting * each, np.uint8)
            starts, n_done = write_documents(
                self._grammar, self.seed ^ _EVENTS, start, n_fitting, model.document_bytes,
                model.record_bytes, model.max_depth, out,
            )  # fmt: skip
            if n_done:
                pieces.append(_binary(starts[: n_done + 1], out))
            else:  # the required elements of a record can be long
                spare *= 8
            start, n_events = start + n_done, n_events - n_done
        return _joined(pieces)


def _binary(starts: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.Array:
    return pa.Array.from_buffers(
        pa.large_binary(), len(starts) - 1, [None, pa.py_buffer(starts), pa.py_buffer(data)]
    )


def _joined(pieces: list[pa.Array]) -> pa.Array:
    """Documents in one column, with 32-bit offsets if possible."""
    documents = pa.concat_arrays(pieces) if pieces else pa.array([], pa.large_binary())
    return documents.cast(pa.binary()) if documents.nbytes < _MOST_BYTES else documents
