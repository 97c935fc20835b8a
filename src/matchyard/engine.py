"""The contract of engines and algorithms, and the functions that find them by name.

An engine is a folder with five rooms: `language`, `oracle`, `encoder`, `workload` and `algorithms`.
A room is a module, or a folder whose `__init__` exports its names. An algorithm NAME is a module
NAME with the functions of `Algorithm`, or a folder NAME with this module, its stages and `gpu.py`.
There is no registry: an engine or algorithm is called like its folder or module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, Protocol, cast, get_type_hints

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.gpu.devices import guarded, is_gpu, pick
from matchyard.matches import Part
from matchyard.threads.forks import loading
from matchyard.threads.interrupts import shielded

LARGEST_OPTION = 1 << 48  # kernels add and multiply options in 64 bits
ENGINES = ("tags", "predicates", "twigs")


class Algorithm(Protocol):
    """The names that every algorithm module has. `Table` is a NamedTuple of numeric arrays; the key
    table (`kernels.key_table`) is its end. `Options` is a NamedTuple of settings with defaults.
    `Abilities` lists the optional names."""

    DEVICES: tuple[str, ...]
    Options: type[Any]
    Table: type[Any]

    def check(self, options: Any) -> None:
        """Refuse senseless options when an index is created, before anything is built."""

    def inspect(self, look: Any, table: Any, vocabulary: Any, options: Any) -> None:
        """Refuse a table from disk whose arrays do not fit together; `look` is an `Inspection`."""

    def compile(
        self, subscriptions: Any, keys: NDArray[np.int64], vocabulary: Any, options: Any
    ) -> Any:
        """Build the table. May reorder the arrays of `subscriptions` in place."""

    def workspace(self, table: Any, options: Any) -> Any:
        """The memory that `match` changes: one workspace per thread, never saved."""

    def match(self, table: Any, batch: Any, workspace: Any, options: Any) -> Part:
        """The keys per event, and the number of candidates."""

    def subscriptions(self, table: Any, rows: NDArray[np.int64]) -> Any:
        """The subscriptions of the given rows, as a batch: the inverse of `compile`."""

    def estimate(self, n_subscriptions: int, n_parts: int, n_names: int, options: Any) -> int:
        """Bytes of a table without keys; `n_parts` counts all tags, constraints or nodes."""


class Finder(Protocol):
    """Finds the keys of one event at a time, in one table and for one thread."""

    keys: NDArray[np.int64]  # of the last event
    counts: NDArray[np.int64]  # [1] its candidates

    def __init__(
        self, table: Any, vocabulary: Any, options: Any, input_options: Any, *checked: Any
    ) -> None: ...

    def find(self, event: Any) -> int:
        """Find the keys of an event as the encoder's `Reader` read it; returns how many there are. Less
        than 0: the event has to be matched as a batch."""


class Reader(Protocol):
    """Reads one event at a time, for one thread."""

    def __init__(self, options: Any) -> None: ...

    def read(self, event: Any) -> Any:
        """The event in the form that finders take. None if it is not plain or if it is bad: then it has
        to be matched as a batch, which refuses bad events."""


class Abilities(NamedTuple):
    """The optional names of an algorithm module; None for each that the module lacks."""

    # accept(column, options): refuse subscriptions that the algorithm cannot hold, on addition.
    accept: Callable[[Any, Any], None] | None = None
    # match_unique(table, batch, workspace, options): `match` with each key once per event. The
    # table has no removals.
    match_unique: Callable[[Any, Any, Any, Any], Part] | None = None
    # Finder(table, vocabulary, options, input_options): finds the keys of one event at a time.
    Finder: type[Finder] | None = None
    # forward(table, batch, way, workspace, options): the next interfaces of each event, once each;
    # `way` has its tree and its incoming interface. The table has no removals.
    forward: Callable[[Any, Any, Any, Any, Any], Part] | None = None
    # locate(table, batch, workspace, options): the rows that equal each subscription of a batch, as
    # (start, rows). Without `locate`, rows are found by their keys.
    locate: Callable[[Any, Any, Any, Any], tuple[Any, Any]] | None = None
    # locate_workspace(table, options): the workspace of `locate`, if `match` has another one.
    locate_workspace: Callable[[Any, Any], Any] | None = None
    # join(tables, options): join tables that were cut by rarest names into one.
    join: Callable[[Any, Any], Any] | None = None
    # signature_bits(options): bits and hashes of the signatures that batches of tags carry (0 for
    # none), and whether an event may be a bare signature.
    signature_bits: Callable[[Any], tuple[Any, ...]] | None = None
    # rows_read(table, batch): the ranges of rows, as (low, high), that `match` and the Finder may read. BY_ROW
    # names the arrays that they read at these rows alone: to each, the offsets that lead from a row to its
    # items, or "" if it has one item for each row. Of a large saved table, only these rows are then checked.
    # The Finder gets the checked groups of rows (`kernels.csr`) as a fifth argument; its `find` returns
    # a negative number if it needs others.
    rows_read: Callable[[Any, Any], tuple[Any, Any]] | None = None
    BY_ROW: Mapping[str, str] | None = None
    # search_space(table, batch): the number of sets in the partitions that each event visits.
    search_space: Callable[[Any, Any], NDArray[np.int64]] | None = None
    # stated_rate(table): the expected share of false positives in the results.
    stated_rate: Callable[[Any], float] | None = None
    LAUNCH: int | None = None  # events per launch on a GPU


def abilities_of(algorithm: Any) -> Abilities:
    """The abilities of an algorithm module."""
    return Abilities(*(getattr(algorithm, name, None) for name in Abilities._fields))


class Encoder(Protocol):
    """The names that every engine's `encoder` has; it turns text into numbers and back. A *column*
    is many values of one kind, read but not yet encoded; a *batch* is a NamedTuple of arrays;
    `options` are the engine's own `Options`; `bits` come from `Abilities.signature_bits`. Some
    encoders have more: `sign` and `is_known` of tags, `records` of twigs."""

    VALUES: str  # the word for subscriptions in messages: "tag sets"
    Options: type[Any]
    Vocabulary: type[Any]
    Column: type[Any]
    Batch: type[Any]
    Reader: type[Reader]
    Staging: type[Any]  # collects subscriptions until they are compiled

    def check(self, options: Any) -> None:
        """Refuse senseless options."""

    def column(self, values: Any, options: Any) -> Any:
        """Read events of any form into a column."""

    def subscription_column(self, values: Any, options: Any) -> Any:
        """Read subscriptions of any form into a column."""

    def accept(self, column: Any, *bits: Any) -> None:
        """Refuse subscriptions that no algorithm with these signatures can hold."""

    def parse(self, value: Any, options: Any) -> Any:
        """Parse one subscription into a value of the engine's language."""

    def parse_column(self, values: Any, options: Any) -> list[Any]:
        """Parse the subscriptions of an Arrow column, each as `parse` does."""

    def parse_event(self, value: Any, options: Any) -> Any:
        """Parse one event into a value of the engine's language."""

    def read_event(self, value: Any, options: Any) -> Any:
        """Parse one event as `match` does, which may be laxer than `parse_event`."""

    def encode(self, column: Any, vocabulary: Any, *bits: Any) -> Any:
        """Encode events as a batch, without the names that no subscription has."""

    def encode_some(self, column: Any, vocabulary: Any, *bits: Any) -> tuple[Any, int]:
        """Encode as many of the first events as memory allows; return the batch and how many."""

    def decode(self, batch: Any, row: int, vocabulary: Any) -> Any:
        """Decode one subscription of a batch into a value of the engine's language."""

    def texts(self, batch: Any, start: int, stop: int, vocabulary: Any) -> Any:
        """The subscriptions from `start` to `stop` of a batch, as an Arrow column of text."""

    def kind(self, batch: Any) -> str | None:
        """The kind of the subscriptions in a batch; None if they could be of any kind."""

    def merge(self, parts: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
        """Merge batches of subscriptions and their vocabularies into one of each."""

    def keep(self, batch: Any, rows: NDArray[np.bool_]) -> Any:
        """The rows of a batch that a mask selects."""

    def counts(self, batch: Any, vocabulary: Any) -> Any:
        """How often each name occurs in a batch, as a table that travels between tasks."""

    def recode(self, batch: Any, vocabulary: Any, whole: Any) -> Any:
        """The same subscriptions over another vocabulary, which has all their names."""

    def concatenate(self, batches: Sequence[Any]) -> Any:
        """Join batches of subscriptions over the same vocabulary, at least one."""

    def merge_counts(self, parts: Iterable[Any]) -> Any:
        """Merge the counts of many tasks into a vocabulary."""

    def rarest(self, batch: Any) -> NDArray[np.int64]:
        """The rarest name of each subscription; sharded builds are cut by it."""

    def names_of(self, batch: Any, vocabulary: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The names of each event: offsets and ids."""

    def n_ids(self, vocabulary: Any) -> int:
        """The number of ids of a vocabulary."""

    def sizes(self, vocabulary: Any) -> tuple[int, int]:
        """The number of parts of all subscriptions, and of distinct names."""

    def estimate(self, n_rows: int, n_parts: int, n_names: int) -> tuple[int, int, int]:
        """Bytes of the vocabulary, the staged subscriptions, and the other memory of a build."""

    def inspect(self, vocabulary: Any, place: str, is_thorough: bool) -> None:
        """Refuse a vocabulary from disk whose arrays do not fit together."""


class Engine(NamedTuple):
    """The modules of one engine."""

    name: str
    language: ModuleType
    oracle: ModuleType
    encoder: Encoder
    workload: ModuleType
    recent: ModuleType  # the comparison with few subscriptions of a live index
    algorithms: tuple[str, ...]
    default: str


@cache
def _load(path: str) -> ModuleType:
    """Import a module. A fork waits until it is loaded.

    Ctrl-C within an import can leave Python's import lock taken, and no other thread could import
    anything from then on: the import is shielded.
    """

    def load() -> ModuleType:
        with loading:
            return import_module(path)

    return shielded(load)


def find_engine(name: str) -> Engine:
    """The engine of that name."""
    if name not in ENGINES:
        raise UsageError(f"no engine {name!r}; expected one of: {', '.join(ENGINES)}")
    package = _load(f"matchyard.engines.{name}")
    language, oracle, encoder, workload, recent = (
        _load(f"matchyard.engines.{name}.{part}")
        for part in ("language", "oracle", "encoder", "workload", "algorithms.shared.recent")
    )
    names = package.ALGORITHMS, package.DEFAULT
    return Engine(name, language, oracle, encoder, workload, recent, *names)


def find_algorithm(engine: Engine, name: str | None, device: str = "cpu") -> Algorithm:
    """The algorithm of that name, or the engine's default, for a device that `pick` returned."""
    name = name or engine.default
    if name not in engine.algorithms:
        raise UsageError(
            f"no algorithm {name!r} for {engine.name}; expected one of: "
            f"{', '.join(engine.algorithms)}"
        )
    path = f"matchyard.engines.{engine.name}.algorithms.{name}"
    algorithm: Any = _load(path)
    if hasattr(algorithm, "__path__"):  # a folder: the contract is in its module of the same name
        algorithm = _load(f"{path}.{name}")
    if is_gpu(device):
        algorithm = OnCard(algorithm, _load(f"{path}.gpu"))
    return cast(Algorithm, algorithm)


class OnCard:
    """An algorithm that matches on a GPU; its other functions are those of the CPU."""

    def __init__(self, on_cpu: Any, on_gpu: Any) -> None:
        self._on_cpu, self._on_gpu = on_cpu, on_gpu
        self.LAUNCH, self.match = on_gpu.LAUNCH, on_gpu.match

    def workspace(self, table: Any, options: Any) -> Any:
        """Copy the table to the card, and allocate the memory that a thread needs there."""
        with guarded("making room for a thread"):
            return self._on_gpu.workspace(table, options)

    def locate_workspace(self, table: Any, options: Any) -> Any:
        """The workspace of `locate`, which runs on the CPU."""
        return self._on_cpu.workspace(table, options)

    def __getattr__(self, name: str) -> Any:
        if name in (
            "match_unique",
            "Finder",
            "forward",
        ):  # the CPU's would not take a GPU's workspace
            return getattr(self._on_gpu, name)
        return getattr(self._on_cpu, name)


class Configured(NamedTuple):
    """An engine and an algorithm with their options, all checked."""

    engine: Engine
    algorithm_name: str
    algorithm: Algorithm
    input_options: Any  # the engine's: how subscriptions and events are read
    options: Any  # the algorithm's
    abilities: Abilities  # of the algorithm
    device: str = "cpu"

    def encode(self, column: Any, vocabulary: Any) -> Any:
        """Encode a column of events, with the signatures that the algorithm needs."""
        return self.engine.encoder.encode(column, vocabulary, *self._signature_bits())

    def encode_some(self, column: Any, vocabulary: Any) -> tuple[Any, int]:
        """Encode as many of the first events as memory allows; return the batch and how many."""
        return self.engine.encoder.encode_some(column, vocabulary, *self._signature_bits())

    def accept(self, column: Any) -> None:
        """Refuse subscriptions that the algorithm cannot hold, before they are staged."""
        self.engine.encoder.accept(column, *self._signature_bits())
        if self.abilities.accept is not None:
            self.abilities.accept(column, self.options)

    @property
    def takes_bare_signatures(self) -> bool:
        """True if events may be signatures without tags."""
        bits = self._signature_bits()
        return bool(bits) and bool(bits[2])

    def _signature_bits(self) -> tuple[Any, ...]:
        find = self.abilities.signature_bits
        bits = (0,) if find is None else find(self.options)
        return bits if bits[0] else ()


def configure(
    engine: str, algorithm: str | None, options: Mapping[str, Any], device: str = "cpu"
) -> Configured:
    """Find an engine and an algorithm by name, and read their options."""
    rooms = find_engine(engine)
    name = algorithm or rooms.default
    device = pick(device, find_algorithm(rooms, name).DEVICES, f"{engine}/{name}")
    module = find_algorithm(rooms, name, device)
    input_options, own = read_options(options, rooms.encoder.Options, module.Options)
    rooms.encoder.check(input_options)
    module.check(own)
    return Configured(rooms, name, module, input_options, own, abilities_of(module), device)


def read_options(given: Mapping[str, Any], *kinds: type[Any]) -> list[Any]:
    """Distribute named options over the NamedTuples that define them, checking names and types."""
    known = {field: kind for kind in kinds for field in kind._fields}
    chosen: dict[type[Any], dict[str, Any]] = {kind: {} for kind in kinds}
    for name, value in given.items():
        if name not in known:
            raise UsageError(f"no option {name!r}; expected one of: {', '.join(known)}")
        wanted = get_type_hints(known[name])[name]
        if wanted is float and type(value) is int:
            value = float(value)
        is_number_for_flag = isinstance(value, bool) != (wanted is bool)
        if not isinstance(value, wanted) or is_number_for_flag:
            raise UsageError(f"option {name!r} takes {wanted.__name__}, not {value!r}")
        if wanted is int and abs(value) > LARGEST_OPTION:
            raise UsageError(f"option {name!r} takes at most {LARGEST_OPTION}, in size")
        chosen[known[name]][name] = value
    return [kind(**chosen[kind]) for kind in kinds]
