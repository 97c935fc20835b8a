"""Stream Windows events through Spark to alerts of Sigma rules: the rule's title and level, and why.

    python examples/sigma_alerts.py rules/ events/ alerts/

`rules` is a folder or archive of Sigma rules, of which those for Windows count. `events` is a folder with files of JSON
lines, to which more may be added. The program ends when all files are read; started again, it goes on where it was.

    alerts/found               the alerts, a folder of Parquet files for each micro-batch
    alerts/bad                 lines that are no JSON object, with the reason
    alerts/unsupported.jsonl   the rules that are not supported, with the reason

Every alert is written exactly once, even if the program is killed: a micro-batch that runs again is matched with the
same version of the index and takes the place of its files.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

import matchyard as my
from matchyard.spark import explain, match, session, to_files


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("rules", "events", "alerts"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--product", default="windows", help="product whose logs the events are")
    given = parser.parse_args()
    rules = my.sigma(given.rules, product=given.product)
    index = str((given.alerts / "rules.index").absolute())
    given.alerts.mkdir(parents=True, exist_ok=True)
    rules.save(index)
    left = "".join(json.dumps(rule._asdict()) + "\n" for rule in rules.left)
    (given.alerts / "unsupported.jsonl").write_text(left)

    spark = session(name="sigma")
    lines = spark.readStream.text(str(given.events.absolute())).withColumnRenamed("value", "event")
    matched = match(lines, index, event="event", id="event", bad="keep", version=True)
    about = spark.read.parquet(f"{index}/rules.parquet").selectExpr("id AS key", "title", "level")
    write, set_aside = to_files(str(given.alerts / "found")), to_files(str(given.alerts / "bad"))

    def write_alerts(batch: Any, number: int) -> None:
        batch.persist()  # it is read three times
        first = batch.first()
        if first is not None:
            alerts = batch.where("reason IS NULL").drop("reason")
            told = explain(alerts, index, event="event", at=first.version)  # all rows have this one
            write(told.join(about, "key", "left"), number)
            set_aside(batch.where("reason IS NOT NULL").select("event", "reason"), number)
        batch.unpersist()

    query = (
        matched.writeStream.foreachBatch(write_alerts)
        .option("checkpointLocation", str(given.alerts / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"{len(rules.rules):,} rules, {len(rules.left):,} not supported")
    if (given.alerts / "found").exists():
        found = spark.read.parquet(str(given.alerts / "found"))
        bad = spark.read.parquet(str(given.alerts / "bad"))
        print(f"{found.count():,} alerts, {bad.count():,} bad lines")
        found.groupBy("level", "title").count().orderBy(F.desc("count"), "title").show(10, 60)


if __name__ == "__main__":
    main()
