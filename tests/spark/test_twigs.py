"""Twigs in Spark: documents as text, bytes, files and records of files, and always what the embedded
index answers."""

from __future__ import annotations

import gzip
import os
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import matchyard as my
from matchyard import spark as ms
from matchyard.spark.tasks import records
from matchyard.spark.tasks import shards as shard_tasks
from matchyard.spark.tasks.job import MatchJob
from tests.spark.frames import found

TWIGS = [
    "/dblp//article[author]/title", "//article[@year > 1990 and not(note)]", "//*/title",
    '//article[author = "Ådne"]', "//article | //book", "/dblp", '//article[@year = "1994"][title]',
    "//book//author", "//nothing", "/*[.//note]", "//title", "not(//note)",
]  # fmt: skip
KEYS = [n % 7 for n in range(len(TWIGS))]  # several under one key
TEXTS = [
    '<dblp><article year="1994"><author>Ådne</author><title/></article></dblp>', "<nothing/>",
    "<dblp><article year='1989'><note/></article><book><p><author/></p><title/></book></dblp>",
    "<title/>", '<dblp><article year="1994"><author>Ådne</author><title/></article></dblp>',
    "<dblp><![CDATA[<article/>]]></dblp>",
]  # fmt: skip
BAD = {
    "<a><b></a>": "line 1, column 9: mismatched tag",
    "<a>\n": "line 2, column 1: no element found",
    "": "line 1, column 1: no element found",
    "<a>&b;</a>": "line 1, column 4: undefined entity",
    None: "null; expected XML as text or bytes",
}


def twigs(spark, rows=TWIGS, keys=KEYS):
    return spark.createDataFrame(pa.table({"twig": pa.array(rows), "id": pa.array(keys)}))


def documents(spark, rows=TEXTS):
    return spark.createDataFrame(pa.table({"id": range(len(rows)), "xml": rows}))


def wanted(asked=TEXTS, rows=TWIGS, keys=KEYS, unique=False, **options):
    index = my.TwigIndex(options=options).add_many(rows, keys).consolidate()
    matches = (index.match_unique if unique else index.match)(asked)
    return Counter((event, key) for event, some in enumerate(matches) for key in some)


@pytest.fixture(scope="module")
def indexes(spark, tmp_path_factory):
    """The same twigs in one shard, and in five."""
    folder = tmp_path_factory.mktemp("twigs")
    for name, shards in (("one", None), ("five", 5)):
        built = ms.build(twigs(spark), folder / name, "twigs", "twig", "id", shards=shards)
        assert (built.subscriptions, built.shards) == (len(TWIGS), shards or 1)
    return {"replicated": folder / "one", "sharded": folder / "five"}


@pytest.fixture(params=["replicated", "sharded"])
def strategy(request):
    return request.param


def test_text_and_bytes_are_matched_as_the_embedded_index_does(spark, indexes, strategy):
    """Bytes have the encoding that they declare, text is text whatever it declares."""
    declared = [f'<?xml version="1.0" encoding="iso-8859-1"?>{text}' for text in TEXTS]
    encoded = [text.encode("iso-8859-1") for text in declared]
    encoded[::3] = [text.encode("utf-16") for text in TEXTS[::3]]
    assert wanted(encoded) == wanted(declared) == wanted(TEXTS)
    text, content = (documents(spark, pa.array(rows)) for rows in (declared, encoded))
    path = indexes[strategy]
    assert found(ms.match(text, path, "xml", strategy=strategy)) == wanted()
    arrays = ms.match(content, path, "xml", unique=True, output="arrays", strategy=strategy)
    assert found(arrays) == wanted(unique=True)


def test_a_bad_document_fails_alone_and_says_where(spark, indexes, strategy):
    rows = [row for some in zip(TEXTS, BAD, strict=False) for row in some]
    for kind in (pa.string(), pa.binary()):
        column = pa.array([row if row is None else row.encode() for row in rows], pa.binary())
        frame = documents(spark, column.cast(kind)).coalesce(1)
        kept = ms.match(frame, indexes[strategy], "xml", strategy=strategy, bad="keep").toArrow()
        reasons = dict(zip(kept["id"].to_pylist(), kept["reason"].to_pylist(), strict=True))
        assert [row for row, reason in sorted(reasons.items()) if reason] == [1, 3, 5, 7, 9]
        for row, reason in zip((1, 3, 5, 7, 9), BAD.values(), strict=True):
            assert reasons[row].startswith(reason)
        good = kept.filter(pc.is_null(kept["reason"]))
        pairs = Counter(zip(good["id"].to_pylist(), good["key"].to_pylist(), strict=True))
        assert pairs == Counter({(2 * e, k): n for (e, k), n in wanted(TEXTS[:5]).items()})
    with pytest.raises(Exception, match=r"event 1: line 1, column 9: mismatched tag; match\("):
        ms.match(frame, indexes[strategy], "xml", strategy=strategy).collect()


def test_options_say_how_documents_are_read(spark, tmp_path):
    rows = ["<a>&b;<c/></a>", "<a><c></a>", "<c/>", "<a><b><c/></b></a>"]
    options = {"undefined_entities": "skip", "malformed": "skip", "max_depth": 2, "parser": "expat"}
    path = tmp_path / "a.index"
    ms.build(twigs(spark, ["//c"], [1]), path, "twigs", "twig", "id", "stacks", options)
    pairs = found(ms.match(documents(spark, rows), path, "xml"))
    assert pairs == wanted(rows, ["//c"], [1], **options) == Counter([(0, 1), (2, 1)])


def test_changes_are_published_and_read_back(spark, tmp_path):
    """A twig is removed however it was written."""
    path = tmp_path / "a.index"
    ms.build(twigs(spark, ["//a[b][c]", "//b", "//c"], list("xyz")), path, "twigs", "twig", "id",
             shards=2)  # fmt: skip
    changes = pa.table({"change": ["remove", "add", "remove"], "id": list("xwz"),
                        "twig": ["a[c and b]", "/a", None]})  # fmt: skip
    ms.append(spark.createDataFrame(changes), path, subscription="twig", key="id")
    matched = ms.match(documents(spark, ["<a><b/><c/></a>"]), path, "xml", strategy="sharded")
    assert found(matched) == Counter([(0, "w"), (0, "y")])
    ms.compact(path, spark=spark)
    read = ms.subscriptions(path, spark=spark).collect()
    assert {(row.key, row.subscription) for row in read} == {("y", "//b"), ("w", "/a")}


def test_a_stream_of_files_sets_bad_documents_aside(spark, indexes, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()

    def put(name, text):
        (folder / f".{name}").write_text(text)
        os.rename(folder / f".{name}", folder / name)

    put("a.xml", TEXTS[0])
    put("b.xml", "<dblp>")
    files = spark.readStream.format("binaryFile").schema(
        "path string, modificationTime timestamp, length bigint, content binary"
    )
    matched = ms.match(
        files.load(str(folder)), indexes["replicated"], "content", "path", bad="keep"
    )
    query = (
        matched.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(ms.to_files(str(tmp_path / "out"), dead_letters=str(tmp_path / "bad"))).start()
    )  # fmt: skip
    query.processAllAvailable()
    put("c.xml", TEXTS[3])
    query.processAllAvailable()
    query.stop()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    pairs = Counter((row.path.rpartition("/")[2], row.key) for row in rows)
    names = {0: "a.xml", 1: "c.xml"}
    assert pairs == Counter(
        {(names[e], k): n for (e, k), n in wanted([TEXTS[0], TEXTS[3]]).items()}
    )
    [bad] = spark.read.parquet(str(tmp_path / "bad")).collect()
    assert (bad.path.endswith("b.xml"), bad.reason) == (True, "line 1, column 7: no element found")


def test_records_of_files_are_documents_of_their_own(spark, indexes, tmp_path):
    """Paths as Spark writes them, compressed files, their content, and other columns beside it."""
    head = '<?xml version="1.0" encoding="iso-8859-1"?><!DOCTYPE dblp [<!ENTITY a "Ådne">]><dblp>'
    parts = ["<article><author>&a;</author><title/></article>", "<article><oops></article>"]
    whole = (head + "<book/>".join(parts * 3) + "</dblp>").encode("iso-8859-1")
    (tmp_path / "a.xml").write_bytes(whole)
    (tmp_path / "b c.xml.gz").write_bytes(gzip.compress(whole))
    files = spark.read.format("binaryFile").load(f"{tmp_path}/*.xml*")
    content = files.where("path like '%.xml'").select("path", "content", "length")
    for frame in (
        ms.records(files.select("path"), "article"),
        ms.records(content, "article", column="content"),
    ):
        matched = ms.match(
            frame,
            indexes["replicated"],
            "document",
            ["path", "number"],
            output="arrays",
            bad="keep",
        ).collect()
        assert {row.number for row in matched} == set(range(6))
        for row in matched:
            assert row.reason == (None if row.number % 2 == 0 else row.reason)
            keys = [key for (_, key) in wanted([parts[0].replace("&a;", "Ådne")]).elements()]
            assert sorted(row["keys"] or []) == (sorted(keys) if row.number % 2 == 0 else [])
            assert row.number % 2 == 0 or "mismatched tag" in row.reason
    assert {row.path.rpartition("/")[2] for row in frame.collect()} == {"a.xml"}
    assert frame.columns == ["path", "length", "number", "document"]


def test_records_are_handed_on_before_a_file_ends(monkeypatch):
    monkeypatch.setattr(records, "_HANDED_ON", 20)
    batch = pa.record_batch({"name": ["a"], "_source": [b"<r>" + b"<a>12345678</a>" * 5 + b"<a>"]})
    made = records.split_files("a", 1 << 20, iter([batch]))
    assert [next(made)["number"].to_pylist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(
        my.ParseError, match=r"^a: line 1, column 79: the file ends within the markup"
    ):
        list(made)


def test_what_is_wrong_with_files_is_said(spark, tmp_path):
    missing = spark.createDataFrame([(f"{tmp_path}/no.xml",)], "path string")
    with pytest.raises(Exception, match=r"no.xml cannot be read: .*No such file"):
        ms.records(missing, "article").collect()
    for frame, record, column, words in (
        (missing, "", "path", "a record needs the name of an element"),
        (missing, "a", "file", "no column 'file' for the files; found: path"),
        (missing.selectExpr("1 path"), "a", "path", "column 'path' is int; expected string, paths"),
        (missing.selectExpr("*", "1 number"), "a", "path", "column 'number' would come out twice"),
    ):
        with pytest.raises(my.UsageError, match=words):
            ms.records(frame, record, column)


def test_long_documents_are_sent_to_shards_in_several_batches(indexes, monkeypatch):
    monkeypatch.setattr(shard_tasks, "_SENT_BYTES", 100)
    path = str(indexes["sharded"])
    job = MatchJob(path, "0001", ["id", "key"], string_keys=False)
    batch = pa.record_batch({"_id0": range(len(TEXTS)), "_event": TEXTS})
    sent = list(shard_tasks.route(job, iter([batch])))
    assert len(sent) > 3
    pairs = pa.Table.from_batches(shard_tasks.match_shards(job, iter(sent)))
    assert Counter(zip(*pairs.to_pydict().values(), strict=True)) == wanted()


def test_twigs_are_matched_in_sql(spark, indexes):
    ms.register(spark, "match_twigs")
    documents(spark).createOrReplaceTempView("documents")
    query = "SELECT id, encode(xml, 'UTF-8') FROM documents"
    pairs = spark.sql(f"SELECT * FROM match_twigs(TABLE({query}), '{indexes['sharded']}')")
    assert found(pairs) == wanted()


def test_what_is_wrong_is_said_before_anything_runs(spark, indexes, tmp_path):
    frame = spark.sql("SELECT 1 id, '//a' twig, array('<a/>') list")
    path = indexes["replicated"]
    for event, words in (
        ("id", "column 'id' is int; events of engine 'twigs' are string or binary with XML"),
        ("list", "column 'list' is array<string>; events of engine 'twigs'"),
        (None, "events of engine 'twigs' are one column, not None"),
        ("tags", "no column 'tags' for the events; found: id, twig, list"),
    ):
        with pytest.raises(my.UsageError, match=words):
            ms.match(frame, path, event)
    with pytest.raises(
        my.UsageError, match=r"column 'list' is .*; subscriptions of engine 'twigs'"
    ):
        ms.build(frame, tmp_path / "a.index", "twigs", subscription="list", key="id")
    for twig, words in (
        ("//a[1]", "a subscription of key 8: .*position"),
        (None, "a subscription of key 8: not a twig: None"),
    ):
        with pytest.raises(my.ParseError, match=words):
            ms.build(
                twigs(spark, ["//a", twig], [7, 8]), tmp_path / "a.index", "twigs", "twig", "id"
            )
