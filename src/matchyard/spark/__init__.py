"""Matching in Apache Spark, classic and Connect: `pip install 'matchyard[spark]'`.

    build, append, compact      subscriptions ─▶ an index, compiled in Spark's tasks
    match                       events ─▶ (event, key), batch or streaming
    session                     a local Spark for those who have none, Java included
"""

from matchyard.spark.build import Built, append, build, compact, subscriptions
from matchyard.spark.match import match
from matchyard.spark.session import session

__all__ = ["Built", "append", "build", "compact", "match", "session", "subscriptions"]
