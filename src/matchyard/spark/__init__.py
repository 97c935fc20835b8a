"""Matching in Apache Spark, classic and Connect: `pip install 'matchyard[spark]'`.

build, append, compact      subscriptions ─▶ an index, compiled in Spark's tasks
changes, follow_changes     a feed of inserts, updates and deletes ─▶ what to append; as a stream
retain                      how many old versions stay, and for how long
match, register             events ─▶ (event, key), batch or streaming; in SQL
match_files                 Parquet files of events ─▶ Parquet files of matches, in workers alone
records                     large XML files ─▶ a document per element of one name
to_files, Progress          write the rows of a stream to files; report its progress
workloads                   subscriptions and events for trials
session                     the running Spark session, or a new local one, Java included
routing                     cost of trees, tables of routers; needs SciPy, and is imported by name
geo                         scenarios of multicast in meshes ─▶ their outcomes; likewise
"""

from importlib.util import find_spec as _find_spec

from matchyard.errors import UsageError as _UsageError

if _find_spec("pyspark") is None:
    raise _UsageError("Spark needs PySpark: pip install 'matchyard[spark]'")

from matchyard.shards import retain
from matchyard.spark import workloads
from matchyard.spark.build import Built, append, build, compact, subscriptions
from matchyard.spark.changes import changes, follow_changes
from matchyard.spark.match import match
from matchyard.spark.match_files import Matched, match_files
from matchyard.spark.records import records
from matchyard.spark.session import session
from matchyard.spark.sql import register
from matchyard.spark.stream import Progress, Sample, to_files

__all__ = [
    "Built", "Matched", "Progress", "Sample", "append", "build", "changes", "compact", "follow_changes", "geo",
    "match", "match_files", "records", "register", "retain", "session", "subscriptions", "to_files", "workloads",
]  # fmt: skip
