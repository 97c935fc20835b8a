"""Workloads in Spark Connect; `test_workloads.py` runs this and reads the last line it prints."""

from __future__ import annotations

import json
import sys

import matchyard.spark
from matchyard.spark import workloads


def main(folder: str) -> None:
    spark = matchyard.spark.session(memory="1g", name="connect")
    try:
        posts = [("ada", ["jazz", "piano"])] * 4 + [("bo", ["bank", "tax"])] * 4
        documents = spark.createDataFrame(posts, "author string, words array<string>")
        workloads.fit_topics(
            documents, f"{folder}/topics", text="words", topics=2, words=2, iterations=5
        )
        subscriptions = workloads.subscriptions("icn", 600, partitions=2)
        found = {
            "subscriptions": workloads.checksum(subscriptions),
            "users": workloads.users(600).count(),
            "traces": workloads.from_traces(subscriptions, factor=2).count(),
            "topics": workloads.from_topics(f"{folder}/topics", 50).count(),
        }
    finally:
        spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
