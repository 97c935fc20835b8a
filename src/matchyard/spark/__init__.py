"""Matching in Apache Spark, classic and Connect: `pip install 'matchyard[spark]'`.

`session` starts a local Spark for those who have none, with a Java runtime from pip where the
machine has none either.
"""

from matchyard.spark.session import session

__all__ = ["session"]
