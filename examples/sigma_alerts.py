"""Stream Windows events through Spark to alerts of Sigma rules: the rule's title and level, and why.

    python examples/sigma_alerts.py rules/ events/ alerts/

`rules` is a folder or archive of Sigma rules, `events` a folder with files of JSON lines, to which more may be added,
and `alerts` gets a folder of Parquet files for each micro-batch. The program ends when all files are read; started
again, it goes on where it was. An alert is written exactly once, even if the program is killed. Rules that are not
supported are listed in `alerts/unsupported.jsonl`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matchyard as my
from matchyard.spark import explain, match, session, to_files


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("rules", "events", "alerts"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    rules = my.sigma(given.rules)
    index = str((given.alerts / "rules.index").absolute())
    given.alerts.mkdir(parents=True, exist_ok=True)
    rules.save(index)
    left = "".join(json.dumps(rule._asdict()) + "\n" for rule in rules.left)
    (given.alerts / "unsupported.jsonl").write_text(left)

    spark = session(name="sigma")
    lines = spark.readStream.text(str(given.events.absolute())).withColumnRenamed("value", "event")
    found = match(lines, index, event="event", id="event", bad="keep")
    about = spark.read.parquet(f"{index}/rules.parquet").selectExpr("id AS key", "title", "level")

    def write(batch: Any, number: int) -> None:
        alerts = batch.where("reason IS NULL").drop("reason")
        told = explain(alerts, index, event="event").join(about, "key")
        to_files(str(given.alerts / "found"))(told, number)

    query = (
        found.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(given.alerts / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    shown = spark.read.parquet(str(given.alerts / "found"))
    print(
        f"{len(rules.rules):,} rules, {len(rules.left):,} not supported; {shown.count():,} alerts"
    )
    shown.groupBy("level", "title").count().orderBy("count", ascending=False).show(10, False)


if __name__ == "__main__":
    main()
