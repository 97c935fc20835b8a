"""Geography on Spark: scenarios in, outcomes out.

    scenarios     parameters of simulations ─▶ a row each
    simulate      rows ─▶ the same with their outcomes     a task takes one row, the heaviest first
    collect       outcomes ─▶ an Arrow table, with progress reports

The results are those of `matchyard.geo.scenario`, whatever the number of partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, get_type_hints

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from matchyard.errors import UsageError
from matchyard.geo import Mesh, Rule, Way, uniform
from matchyard.geo.scenario import TREES, WORKLOADS, Outcome, Scenario, run
from matchyard.spark.checks import carried, check_choice, plain_errors
from matchyard.spark.session import by_number, find_session
from matchyard.spark.watch import collect

__all__ = ["collect", "scenarios", "simulate"]

Batches = Iterator[pa.RecordBatch]
_KINDS: dict[str, type] = get_type_hints(Scenario)
_SPARK = {int: T.LongType(), float: T.DoubleType(), str: T.StringType()}
_ARROW = {int: pa.int64(), float: pa.float64(), str: pa.string()}
_ADDED = {name: _SPARK[kind] for name, kind in get_type_hints(Outcome).items()}
_OUTCOME = {name: _ARROW[kind] for name, kind in get_type_hints(Outcome).items()}
_TAKEN = {
    int: (T.IntegralType, "bigint"),
    float: (T.NumericType, "double"),
    str: (T.StringType, "string"),
}
_MOST_TASKS = 10_000  # of one job; beyond that, rows share tasks
_TASK = "_matchyard_task"
_SEARCHES = ("gsp", "dsp")  # routings that search the mesh for each path
_SEARCH_COST = 20  # cost of such a path, in units of a greedy path


class _Carried(NamedTuple):
    """A mesh as it travels to the workers, and a hash of its content."""

    mesh: Mesh
    code: bytes


def scenarios(rows: Iterable[Scenario], spark: SparkSession | None = None) -> DataFrame:
    """A row for each scenario: its parameters as columns.

    >>> from matchyard.geo import scenario
    >>> scenarios(scenario.of_thesis(routings=["grd"])).count()  # doctest: +SKIP
    64
    """
    schema = pa.schema([(name, _ARROW[kind]) for name, kind in _KINDS.items()])
    try:
        table = pa.Table.from_pylist([row._asdict() for row in rows], schema)
    except (AttributeError, TypeError, pa.ArrowException) as error:
        raise UsageError(
            f"no scenarios: {error}; expected e.g. [Scenario(nodes=500, rule='T60')]"
        ) from None
    return find_session(spark).createDataFrame(table)


def simulate(frame: DataFrame, mesh: Mesh | None = None) -> DataFrame:
    """Simulate scenarios, on `mesh` if it is given: their columns, then the columns of the outcomes.

    Missing parameters get a column with their default; other columns are kept. The frame is read once
    here, to check the values and to make a task for each row. Every action on the result simulates
    again: write it, or persist it.

    >>> simulate(scenarios(rows)).write.parquet("outcomes")  # doctest: +SKIP
    """
    _check_columns(frame)
    missing = [name for name in _KINDS if name not in frame.columns]
    defaults = [
        F.lit(Scenario._field_defaults[name]).cast(_spark_type(name)).alias(name)
        for name in missing
    ]
    whole = frame.select("*", *defaults)
    with plain_errors():
        given = whole.select(*_KINDS).toArrow().to_pylist()
    for row in dict.fromkeys(map(_read, given)):
        _check_values(row, mesh)
    fields = [T.StructField(field.name, carried(field)) for field in whole.schema]
    added = [T.StructField(name, kind) for name, kind in _ADDED.items()]
    task = partial(_simulate, None if mesh is None else _Carried(mesh, _code_of(mesh)))
    return _deal(whole, len(given)).mapInArrow(task, T.StructType([*fields, *added]))


def _deal(frame: DataFrame, n_rows: int) -> DataFrame:
    """Put each row into a partition of its own, heavy rows first: tasks start in that order."""
    names = [f"`{field.name.replace('`', '``')}`" for field in frame.schema if _is_plain(field)]
    searches = F.lower("routing").isin(*_SEARCHES)
    path_cost = F.when(searches, _SEARCH_COST).otherwise(1).cast("double")
    cost = path_cost * F.col("runs") * F.col("requests") * F.col("size")
    # Sort by all sortable columns: a stage that is run again has to deal the rows as before.
    order: Sequence[Column | str] = [cost.desc(), *names]
    numbered = (
        frame.repartition(1)
        .sortWithinPartitions(*order)
        .withColumn(_TASK, F.monotonically_increasing_id() % _MOST_TASKS)
        .withColumn(_TASK, F.col(_TASK).cast("int"))
    )
    return by_number(numbered, max(1, min(n_rows, _MOST_TASKS)), F.col(_TASK)).drop(_TASK)


def _is_plain(field: T.StructField) -> bool:
    return not isinstance(field.dataType, T.ArrayType | T.MapType | T.StructType | T.VariantType)


def _spark_type(name: str) -> T.DataType:
    return _SPARK[_KINDS[name]]


def _check_columns(frame: DataFrame) -> None:
    if frame.isStreaming:
        raise UsageError("scenarios are a stream; expected a DataFrame that ends")
    names = frame.columns
    for field in frame.schema:
        name = field.name
        if names.count(name) > 1:
            raise UsageError(f"two columns of the name {name!r}; rename one of them")
        if name.lower() in _ADDED:
            raise UsageError(f"column {name!r} would come out twice: rename that of the scenarios")
        if name.lower() not in _KINDS:
            continue
        if name not in _KINDS:
            raise UsageError(f"column {name!r}; parameters are in small letters: {name.lower()!r}")
        kind, wanted = _TAKEN[_KINDS[name]]
        if not isinstance(field.dataType, kind):
            raise UsageError(
                f"column {name!r} is {field.dataType.simpleString()}; expected {wanted}, such as "
                f"{Scenario._field_defaults[name]!r}"
            )


def _check_values(one: Scenario, mesh: Mesh | None) -> None:
    """Refuse wrong values on the driver, as far as the check needs no mesh."""
    check_choice("workload", one.workload, WORKLOADS)
    check_choice("tree", one.tree, TREES)
    if one.tree != "flood":
        Way(one.routing, one.recovery).codes()
        Rule(one.rule, one.arc).codes()
    for name, least in (("size", 1), ("requests", 0), ("runs", 1)):
        if getattr(one, name) < least:
            raise UsageError(f"{getattr(one, name)} {name}; expected at least {least}")
    if mesh is None:
        uniform(min(one.nodes, 1), *one[1:5])


def _code_of(mesh: Mesh) -> bytes:
    """A hash of all arrays of a mesh."""
    settings = repr((mesh.r_c, mesh.r_i, mesh.region, mesh.names, mesh.origin))
    return blake2b(mesh.points.tobytes() + settings.encode(), digest_size=16).digest()


def _read(row: dict[str, Any]) -> Scenario:
    for name, value in row.items():
        if value is None:
            raise UsageError(
                f"a scenario has no {name}; expected a value such as {Scenario._field_defaults[name]!r}"
            )
    return Scenario(**{name: _KINDS[name](value) for name, value in row.items()})


# -------------------------------------------------------------------- what runs in the workers

_meshes: dict[bytes, Mesh] = {}  # the last mesh: a worker computes its neighbours once


def _kept(carried: _Carried) -> Mesh:
    if carried.code not in _meshes:
        _meshes.clear()
        _meshes[carried.code] = carried.mesh
    return _meshes[carried.code]


def _simulate(carried: _Carried | None, batches: Batches) -> Batches:
    mesh = None if carried is None else _kept(carried)
    for batch in batches:
        for number, row in enumerate(batch.select([*_KINDS]).to_pylist()):
            outcome = run(_read(row), mesh)
            values = [pa.array([one], kind) for one, kind in zip(outcome, _OUTCOME.values())]
            yield pa.RecordBatch.from_arrays(
                [*batch.slice(number, 1).columns, *values], [*batch.schema.names, *_OUTCOME]
            )
