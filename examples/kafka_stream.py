"""Match a Kafka topic of events with an index, into a topic of matches.

    python examples/kafka_stream.py localhost:9092 music.index --in tweets --out matches

An event is a message such as {"id": 7, "tags": ["jazz", "live", "oslo"]}; for every subscription
that matches, {"id": 7, "key": "ada"} is sent. A message that cannot be read goes to the topic of bad ones, with its place
and the reason. With `--checkpoint`, a restarted stream resumes at its last position; every match is sent at least once.
"""

from __future__ import annotations

import argparse
import tempfile

import pyspark
from pyspark.sql import functions as F

import matchyard.spark

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("broker", help="address of a broker, e.g. localhost:9092")
    parser.add_argument("index", help="folder of an index")
    parser.add_argument("--in", dest="events", default="tweets", help="topic of events")
    parser.add_argument("--out", dest="matches", default="matches", help="topic of matches")
    parser.add_argument("--bad", default="bad", help="topic of messages that cannot be read")
    parser.add_argument("--checkpoint", help="folder of the stream's progress")
    parser.add_argument("--once", action="store_true", help="stop after the last available event")
    parser.add_argument(
        "--jars", help="the connector's jars, separated by commas; by default Spark fetches them"
    )
    return parser.parse_args()


def main() -> None:
    given = read_arguments()
    jars = {"spark.jars": given.jars} if given.jars else {"spark.jars.packages": CONNECTOR}
    spark = matchyard.spark.session(name="kafka-stream", config=jars)
    kafka = {"kafka.bootstrap.servers": given.broker}
    messages = (
        spark.readStream.format("kafka")
        .options(**kafka, subscribe=given.events, startingOffsets="earliest")
        .load()
    )
    event = F.from_json(F.col("value").cast("string"), "id long, tags array<string>")
    place = F.struct("partition", "offset").alias("message")
    events = messages.select(event.alias("event"), place).select("event.*", "message")

    matches = matchyard.spark.match(
        events, given.index, event="tags", id=["id", "message"], bad="keep"
    )
    is_bad = F.col("reason").isNotNull()
    found = F.to_json(F.struct("id", "key"))
    reason = F.to_json(F.struct("id", "message", "reason"))

    query = (
        matches.select(
            F.when(is_bad, reason).otherwise(found).alias("value"),
            F.when(is_bad, given.bad).otherwise(given.matches).alias("topic"),
        )
        .writeStream.format("kafka")
        .options(**kafka)
        .option("checkpointLocation", given.checkpoint or tempfile.mkdtemp())
        .trigger(**({"availableNow": True} if given.once else {"processingTime": "1 second"}))
        .start()
    )
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
