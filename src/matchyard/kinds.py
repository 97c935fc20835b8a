"""The kinds of index, one per engine: `Index` with the verbs that only its engine has."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError, XmlError
from matchyard.forwarding import Way, next_interfaces_of
from matchyard.index.contents import Estimate
from matchyard.index.verbs import Index
from matchyard.matches import Matches, Part
from matchyard.storage.file_places import open_stream


class TagIndex(Index):
    """A subscription is a set of tags. It matches every event that has all of its tags.

    >>> index = TagIndex()
    >>> index.add({"jazz", "live"}, key="ada").add("jazz oslo", key="bob").consolidate()
    <TagIndex: 2 subscriptions, algorithm rarest>
    >>> sorted(index.match([{"jazz", "live", "oslo"}])[0])
    ['ada', 'bob']
    >>> index.explain({"jazz"}, key="bob")
    'missing tag: oslo'
    """

    engine = "tags"
    subscription_column = event_column = "tags"

    def estimate(
        self, subscriptions: int | None = None, tags_each: float = 5.0, name_share: float = 0.5
    ) -> Estimate:
        """Estimate the memory of a build: of all current and staged subscriptions, or of so many
        with `tags_each` tags each, of which `name_share` per subscription are new names."""
        return self._estimate(subscriptions, tags_each, name_share)

    def forward(
        self, events: Any, trees: Any, interfaces: Any, threads: int | None = None
    ) -> Matches:
        """Forward packets as a router [thesis §3.4.5]. Keys are made by `interface_key`; each event
        has a tree and an incoming interface. Returns the next interfaces of each event on its tree,
        once each and never the incoming one."""
        if not hasattr(events, "__len__"):
            events = list(events)
        if self._state.keys.kind == "str":
            raise UsageError("forwarding needs keys made by interface_key, not strings")
        tree, incoming = np.asarray(trees, np.int64), np.asarray(interfaces, np.int64)
        if tree.ndim != 1 or tree.shape != incoming.shape or len(tree) != len(events):
            raise UsageError(
                f"{len(events)} events need one tree and one interface each; "
                f"found {tree.shape} trees and {incoming.shape} interfaces"
            )

        way = Way(tree, incoming)

        def next_of(source: Any, rows: Any, first: int) -> Part:
            return _interfaces(source, rows, way.rows(first, first + rows.n_rows))

        return self._match(
            events,
            threads,
            lambda snapshot, column, threads: snapshot.in_steps(
                column, threads, next_of, Part.unique if len(snapshot.sources) > 1 else None
            ),
        )

    def sign(self, tag_sets: Any) -> NDArray[np.uint64]:
        """The Bloom signatures of tag sets, for packets that carry no tags: one row per set. Bit 0
        is the most significant bit of the first word. Only algorithms over signatures have them.

        >>> TagIndex("tagmatch", {"exact": False}).sign(["jazz", "jazz live"]).shape
        (2, 3)
        """
        settings = self._settings
        algorithm: Any = settings.algorithm
        n_bits, n_hashes, _ = algorithm.signature_bits(settings.options)
        if not n_bits:
            raise UsageError(f"{self.algorithm} has no signatures; tagmatch has")
        encoder: Any = settings.engine.encoder
        signed: NDArray[np.uint64] = encoder.sign(
            encoder.column(tag_sets, settings.input_options), n_bits, n_hashes
        )
        return signed

    def search_space(self, events: Any) -> tuple[int, float]:
        """For `tagmatch`: the number of partitions, and the average number of sets in the
        partitions that an event is forwarded to [thesis, Figures 3.9 and 3.10]."""
        settings = self._settings
        find = settings.abilities.search_space
        if find is None:
            raise UsageError(f"{self.algorithm} has no partitions; tagmatch has")
        column = settings.engine.encoder.column(events, settings.input_options)
        n_partitions = n_sets = 0
        for segment in self._state.snapshot.segments:
            batch = segment.encode(column.rows(0, column.n_rows))
            for table in segment.tables:
                n_partitions += len(table.block_start) - 1
                n_sets += int(find(table, batch).sum())
        return n_partitions, n_sets / max(1, column.n_rows)


def _interfaces(source: Any, rows: Any, way: Way) -> Part:
    """The next interfaces of events, found by the algorithm's own `forward` where possible."""
    forward = source.settings.abilities.forward
    if forward is None or source.has_removals:
        return next_interfaces_of(source.match(rows), way)
    part: Part = source.ask(
        rows, lambda table, batch, space, options: forward(table, batch, way, space, options)
    )
    return part if len(source.outlines) == 1 else part.unique()


class PredicateIndex(Index):
    """Subscriptions are predicates on the attributes of an event, which is a JSON-like object.

    >>> index = PredicateIndex()
    >>> index.add('area = "north" and temp > 30 or wind > 20', key=7).consolidate()
    <PredicateIndex: 1 subscriptions, algorithm auto>
    >>> index.match([{"area": "north", "temp": 31}, {"wind": 5}, {"wind": 21}]).to_lists()
    [[7], [], [7]]
    """

    engine = "predicates"
    subscription_column = "predicate"

    def estimate(
        self,
        subscriptions: int | None = None,
        constraints_each: float = 3.0,
        name_share: float = 0.01,
    ) -> Estimate:
        """Estimate the memory of a build: of all current and staged subscriptions, or of so many
        with `constraints_each` constraints each, of which `name_share` per subscription bring a new
        attribute name or text."""
        return self._estimate(subscriptions, constraints_each, name_share)


class TwigIndex(Index):
    """Subscriptions are twigs, tree patterns in XPath, and events are XML documents.

    >>> index = TwigIndex()
    >>> index.add("/dblp//article[author]/title", key=7).consolidate()
    <TwigIndex: 1 subscriptions, algorithm lazy_dfa>
    >>> index.match([b"<dblp><article><author/><title/></article></dblp>", b"<dblp/>"]).to_lists()
    [[7], []]
    """

    engine = "twigs"
    subscription_column, event_column = "twig", "document"

    def estimate(
        self,
        subscriptions: int | None = None,
        nodes_each: float = 10.0,
        name_share: float = 0.01,
    ) -> Estimate:
        """Estimate the memory of a build: of all current and staged subscriptions, or of so many
        with `nodes_each` nodes each, of which `name_share` per subscription bring a new name or
        value test."""
        return self._estimate(subscriptions, nodes_each, name_share)

    def match_records(
        self, source: Any, record: str, threads: int | None = None, batch_bytes: int = 1 << 24
    ) -> Iterator[tuple[list[bytes], Matches]]:
        """Match every element called `record` of a file as a document of its own, about
        `batch_bytes` at a time, in memory that does not depend on the length of the file. Yields the
        documents and their matches. `records` says which files it takes.

        >>> import io
        >>> index = TwigIndex().add("/book[@year < 2000]", key=7).consolidate()
        >>> file = io.BytesIO(b'<shop><book year="1984"/><book year="2012"/><pen/></shop>')
        >>> batches = index.match_records(file, "book")
        >>> [(len(books), matches.to_lists()) for books, matches in batches]
        [(2, [[7], []])]
        """
        for batch in self.records(source, record, batch_bytes):
            yield batch, self.match(batch, threads)

    def records(
        self, source: Any, record: str, batch_bytes: int = 1 << 24
    ) -> Iterator[list[bytes]]:
        """The elements called `record` of a file, each as a document in UTF-8, about `batch_bytes`
        at a time. `source` is an open binary file, or a path or address; its ending decides the
        decompression.

        >>> import io
        >>> list(TwigIndex().records(io.BytesIO(b"<shop><book/><pen/><book/></shop>"), "book"))
        [[b'<book/>', b'<book/>']]
        """
        if isinstance(source, str | PathLike):
            with open_stream(fspath(source)) as file:
                yield from self.records(file, record, batch_bytes)
            return
        settings, batch, n_bytes = self._settings, [], 0
        encoder: Any = settings.engine.encoder
        try:
            for document in encoder.records(source, record, settings.input_options):
                batch.append(document)
                n_bytes += len(document)
                if n_bytes >= batch_bytes:
                    yield batch
                    batch, n_bytes = [], 0
        except XmlError as error:  # its position is one in the file, not in a document
            where = f"line {error.line}, column {error.column}"
            raise error.saying(f"{where}: {error.reason}") from None
        if batch:
            yield batch
