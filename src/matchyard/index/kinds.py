"""The kinds of index, one per engine, and how a saved one is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.engine import find_algorithm, find_engine
from matchyard.errors import ParseError, StorageError, UsageError, XmlError
from matchyard.gpu.devices import kind_of
from matchyard.index.verbs import Estimate, Index
from matchyard.matches import Matches, Way
from matchyard.storage import Saved, Verify, versions
from matchyard.storage.object_store import open_stream
from matchyard.threads.interrupts import told_plainly


class TagIndex(Index):
    """Subscriptions are sets of tags; one matches every event that has all of its tags.

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
        """The memory of a build before it starts: of what is staged, or of so many subscriptions
        with `tags_each` tags of which `name_share` per subscription are new names."""
        return self._estimate(subscriptions, tags_each, name_share)

    def forward(
        self, events: Any, trees: Any, interfaces: Any, threads: int | None = None
    ) -> Matches:
        """Forward packets as a router [thesis §3.4.5]: keys made by `interface_key`, one tree and
        one incoming interface per event. Returns the interfaces on that tree to send each to,
        once each and never the incoming one.
        """
        if not hasattr(events, "__len__"):
            events = list(events)
        if self._keys.kind == "str":
            raise UsageError("forwarding needs keys made by interface_key, not strings")
        tree, incoming = np.asarray(trees, np.int64), np.asarray(interfaces, np.int64)
        if tree.ndim != 1 or tree.shape != incoming.shape or len(tree) != len(events):
            raise UsageError(
                f"{len(events)} events need one tree and one interface each; "
                f"found {tree.shape} trees and {incoming.shape} interfaces"
            )

        way = Way(tree, incoming)
        return self._match(
            events,
            threads,
            lambda snapshot, column, threads: snapshot.forward(column, threads, way),
        )

    def sign(self, tag_sets: Any) -> NDArray[np.uint64]:
        """The Bloom signatures of tag sets, for packets that carry no tags: one row each, bit 0 the
        most significant bit of the first word. For the algorithms over signatures.

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
            encoder.column(tag_sets, settings.reading), n_bits, n_hashes
        )
        return signed

    def search_space(self, events: Any) -> tuple[int, float]:
        """Of `tagmatch`: how many partitions there are, and how many sets are in those that an
        event is forwarded to, on average [thesis, Figures 3.9 and 3.10]."""
        settings = self._settings
        find = settings.abilities.search_space
        if find is None:
            raise UsageError(f"{self.algorithm} has no partitions; tagmatch has")
        column = settings.engine.encoder.column(events, settings.reading)
        n_partitions = n_sets = 0
        for segment in self._snapshot.segments:
            batch = segment.encode(column.rows(0, column.n_rows))
            for table in segment.tables:
                n_partitions += len(table.block_start) - 1
                n_sets += int(find(table, batch).sum())
        return n_partitions, n_sets / max(1, column.n_rows)


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
        """The memory of a build before it starts: of what is staged, or of so many subscriptions
        with `constraints_each` constraints, of which `name_share` per subscription bring an
        attribute name or a text that no other has."""
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
        """The memory of a build before it starts: of what is staged, or of so many subscriptions
        with `nodes_each` nodes, of which `name_share` per subscription bring a name or a test that
        no other has."""
        return self._estimate(subscriptions, nodes_each, name_share)

    def match_records(
        self, source: Any, record: str, threads: int | None = None, batch_bytes: int = 1 << 24
    ) -> Iterator[tuple[list[bytes], Matches]]:
        """Match every element called `record` of a file as a document of its own, about
        `batch_bytes` at a time, in memory that does not depend on the length of the file. Yields the
        documents and their matches; `records` says which files.

        >>> import io
        >>> index = TwigIndex().add("/book[@year < 2000]", key=7).consolidate()
        >>> file = io.BytesIO(b'<shop><book year="1984"/><book year="2012"/><pen/></shop>')
        >>> [(len(books), found.to_lists()) for books, found in index.match_records(file, "book")]
        [(2, [[7], []])]
        """
        for batch in self.records(source, record, batch_bytes):
            yield batch, self.match(batch, threads)

    def records(
        self, source: Any, record: str, batch_bytes: int = 1 << 24
    ) -> Iterator[list[bytes]]:
        """The elements called `record` of a file, each as a document in UTF-8, about `batch_bytes`
        at a time. The file is open, binary, or a path or address, decompressed as its ending says.

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
            for document in encoder.records(source, record, settings.reading):
                batch.append(document)
                n_bytes += len(document)
                if n_bytes >= batch_bytes:
                    yield batch
                    batch, n_bytes = [], 0
        except XmlError as error:  # its place is one in the file, and of no document
            where = f"line {error.line}, column {error.column}"
            raise ParseError(f"{where}: {error.reason}") from None
        if batch:
            yield batch


def interface_key(tree: Any, interface: Any) -> Any:
    """The key of an interface on a tree, for `TagIndex.forward`; numbers or arrays of them.

    >>> interface_key(2, 5)
    8589934597
    """
    for what, numbers, limit in (("trees", tree, 1 << 31), ("interfaces", interface, 1 << 32)):
        if np.size(numbers) and not (np.min(numbers) >= 0 and np.max(numbers) < limit):
            raise UsageError(f"{what} are 0 to {limit - 1}")
    if isinstance(tree, int) and isinstance(interface, int):
        return tree << 32 | interface
    both: NDArray[np.int64] = np.asarray(tree, np.int64) << 32 | np.asarray(interface, np.int64)
    return both


_KINDS: dict[str, type[Index]] = {
    kind.engine: kind for kind in (TagIndex, PredicateIndex, TwigIndex)
}


def create(
    engine: str,
    algorithm: str | None = None,
    options: Mapping[str, Any] | None = None,
    device: str = "cpu",
    live: bool = False,
    threads: int = 1,
) -> Index:
    """An empty index of the engine of that name.

    >>> create("tags")
    <TagIndex: 0 subscriptions, algorithm rarest>
    """
    find_engine(engine)
    return _KINDS[engine](algorithm, options, device, live, threads)


def algorithms(engine: str, device: str = "auto") -> tuple[str, ...]:
    """The algorithms of an engine, its default first; those that run on a device.

    >>> algorithms("tags")[0], algorithms("tags", "gpu")
    ('rarest', ('rarest', 'tagmatch', 'scan'))
    """
    found, kind = find_engine(engine), kind_of(device)
    return tuple(
        name
        for name in found.algorithms
        if kind == "auto" or kind in find_algorithm(found, name).DEVICES
    )


def workload(
    engine: str,
    name: str | None,
    size: int,
    seed: int = 1,
    parameters: Mapping[str, Any] | None = None,
) -> Any:
    """A named workload of an engine, made on demand; None is its first. See the engine's `workload`
    module for names, and for the parameters that they have.

    >>> tags, keys = workload("tags", "twitter", size=100).subscriptions(0, 3)
    >>> len(tags), len(keys)
    (3, 3)
    """
    found = find_engine(engine).workload
    if not -(1 << 63) <= seed < 1 << 63:
        raise UsageError(f"seed {seed}; expected a number of at most 64 bits")
    return found.generate(name or next(iter(found.MODELS)), size, seed, parameters or {})


@told_plainly
def open(
    path: str | PathLike[str],
    verify: Verify = "auto",
    live: bool = False,
    threads: int = 1,
    device: str = "cpu",
    version: str | None = None,
) -> Index:
    """Open a saved index: the current version, or the one that is named. Small arrays are read, large
    ones are mapped. The folder is not written to until `save` is called. An address such as
    `s3://bucket/music.index` is fetched into a local cache first.

    Sizes, and what arrays must have in common, are always compared. `verify` says what else:

    * "auto" finds damage: a fast checksum of all files up to 128 MiB, of a larger index that much
      of its smallest files. For an index in an object store it is the same as True.
    * True is for an index that somebody else made: the SHA-256 of every file, and every value.
      Whatever is in its files, such an index can give wrong answers and do nothing worse.
    * False compares no checksum.
    """
    return from_saved(path, versions.load(path, verify, version), live, threads, device)


def from_saved(
    path: str | PathLike[str],
    saved: Saved,
    live: bool = False,
    threads: int = 1,
    device: str = "cpu",
) -> Index:
    """The index of a version that was loaded from `path`."""
    if saved.manifest.get("engine") == "rib":
        raise StorageError(f"{path} is a RIB: open it with matchyard.routing.Rib.open")
    kind = _KINDS.get(str(saved.manifest.get("engine")))
    if kind is None:
        raise StorageError(f"{path} needs the engine {saved.manifest.get('engine')!r}")
    return kind.from_saved(saved, live, threads, device)
