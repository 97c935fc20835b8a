"""Matching in Apache Spark, classic and Connect: `pip install 'matchyard[spark]'`.

build, append, compact      subscriptions ─▶ an index, compiled in Spark's tasks
vet                         why subscriptions cannot be read, as one more column
changes, follow_changes     a feed of inserts, updates and deletes ─▶ what to append; as a stream
applied                     the last change of each source that an index has
history, retain, restore    the versions that are there; how many stay, and for how long; back to one of them
match                       events ─▶ (event, key), batch or streaming
evaluate                    what an index makes of events: counts, scores, differences, a page
explain                     why an event matches a key, as one more column
register, register_function the same in SQL, as a table function and as a scalar one
match_files                 Parquet files of events ─▶ Parquet files of matches, in workers alone
records                     large XML files ─▶ a document per element of one name
to_files, Progress          write the rows of a stream to files; report its progress
workloads                   subscriptions and events for trials
plain_errors                errors of tasks as themselves, without Spark's stack traces
session                     the running Spark session, or a new local one, Java included
routing                     cost of trees, tables of routers; needs SciPy, and is imported by name
geo                         scenarios of multicast in meshes ─▶ their outcomes; likewise
"""

from importlib.util import find_spec as _find_spec

from matchyard.errors import UsageError as _UsageError

if _find_spec("pyspark") is None:
    raise _UsageError("Spark needs PySpark: pip install 'matchyard[spark]'")

from matchyard.shards import history, restore, retain
from matchyard.spark import workloads
from matchyard.spark.build import Built, append, applied, build, compact, subscriptions, vet
from matchyard.spark.changes import changes, follow_changes
from matchyard.spark.checks import plain_errors
from matchyard.spark.evaluation import Evaluation, evaluate, explain
from matchyard.spark.match import match
from matchyard.spark.match_files import Matched, match_files
from matchyard.spark.records import records
from matchyard.spark.session import session
from matchyard.spark.sql import register, register_function
from matchyard.spark.stream import Progress, Sample, to_files

__all__ = [
    "Built", "Evaluation", "Matched", "Progress", "Sample", "append", "applied", "build", "changes", "compact",
    "evaluate", "explain", "follow_changes", "geo", "history", "match", "match_files", "plain_errors",
    "records", "register", "register_function", "restore", "retain", "session", "subscriptions", "to_files",
    "vet", "workloads",
]  # fmt: skip
