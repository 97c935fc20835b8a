"""Twigs on the command line: twigs and documents in files of every format, XML among them."""

import json

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import matchyard as my
from matchyard.cli import app, formats

runner = CliRunner()
TWIGS = [{"twig": "//a[b]", "key": "ada"}, {"twig": "//c[@x > 3]", "key": "bob"}]
LATIN = '<?xml version="1.0" encoding="iso-8859-1"?>\n<a><b>å</b></a>'.encode("iso-8859-1")
BROKEN = [{"document": "<a><b/></a>"}, '<c x="4"/>', {"id": "z", "document": "<a>"}]


def run(*arguments, input=None):
    return runner.invoke(app, [str(argument) for argument in arguments], input=input)


def fail(*arguments, input=None):
    """The one line that a command ends with."""
    with pytest.raises(my.MatchyardError) as error:
        runner.invoke(app, [*map(str, arguments)], input=input, catch_exceptions=False)
    return str(error.value)


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def pairs(done):
    assert done.exit_code == 0, done.exception
    return sorted(tuple(json.loads(line).values()) for line in done.stdout.splitlines())


def build(folder, name, *options):
    (folder / "twigs.jsonl").write_text(lines(TWIGS))
    path = folder / name
    assert run("build", "twigs", folder / "twigs.jsonl", "-o", path, *options).exit_code == 0
    return path


@pytest.fixture
def index(tmp_path):
    return build(tmp_path, "a.index")


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet", "arrow"])
def test_workload_build_and_match_agree_with_the_library(tmp_path, format, monkeypatch):
    """Documents of several lines, more than fit into one block of a CSV file."""
    monkeypatch.setattr(formats, "_BATCH_BYTES", 1 << 17)
    assert run("workload", "twigs", "dblp", "--size", "50", "--events", "12", "--seed", "3",
               "-o", tmp_path, "--format", format).exit_code == 0  # fmt: skip
    index = tmp_path / "a.index"
    assert run("build", "twigs", tmp_path / f"subscriptions.{format}", "-o", index).exit_code == 0
    out = tmp_path / "pairs.parquet"
    assert run("match", index, tmp_path / f"events.{format}", "-o", out).exit_code == 0
    found = pq.read_table(out)
    source = my.workload("twigs", "dblp", 50, seed=3)
    expected = my.TwigIndex().add_many(*source.subscriptions(0, 50)).consolidate()
    wanted = expected.match(source.events(12)).to_arrow()
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == sorted(
        zip(*wanted.to_pydict().values(), strict=True)
    )
    assert found.num_rows > 12


def test_an_xml_file_is_one_event_in_the_encoding_that_it_declares(index, tmp_path):
    (tmp_path / "a.xml").write_bytes(LATIN)
    assert pairs(run("match", index, tmp_path / "a.xml")) == [(0, "ada")]
    assert pairs(run("match", index, "--format", "xml", input=LATIN)) == [(0, "ada")]
    shown = run("explain", index, "-", "--key", "ada", input=LATIN).stdout
    assert shown == "match: //a/b: /a/b (line 2)\n"


def test_the_records_of_an_xml_file_are_events(index, tmp_path):
    path, bad = tmp_path / "r.xml", tmp_path / "bad.jsonl"
    path.write_text('<r><a><b/></a><c x="5"/><a><z></a><a><b/></a><a><c x="5"/></a></r>')
    done = run("match", index, path, "--record", "a", "--bad", bad)
    assert pairs(done) == [(0, "ada"), (2, "ada"), (3, "bob")]
    assert json.loads(bad.read_text()) == {
        "row": 1, "event": "<a><z></a>", "reason": "the document at line 1, column 9: mismatched tag",
    }  # fmt: skip
    path.write_text("<r>\n<a>")
    assert fail("match", index, path, "--record", "a").endswith(
        "r.xml: line 2, column 1: the file ends within the markup that starts here"
    )
    message = fail("match", index, "--record", "a", input=lines(BROKEN))
    assert message == "records are elements of an XML file, and - is jsonl"


def test_a_broken_document_names_its_line_and_its_own(index, tmp_path):
    message = "line 3: the document at line 1, column 4: no element found"
    assert fail("match", index, input=lines(BROKEN)) == message
    bad = tmp_path / "bad.jsonl"
    done = run("match", index, "--bad", bad, input=lines(BROKEN))
    assert pairs(done) == [(0, "ada"), (1, "bob")]
    assert json.loads(bad.read_text()) == {"line": 3, "event": BROKEN[2], "reason": message}
    assert fail("explain", index, "<a>", "--key", "ada") == message.removeprefix("line 3: ")


def test_options_are_heeded_in_every_format(tmp_path):
    lax = ["--option", "malformed=skip", "--option", "undefined_entities=skip"]
    index = build(tmp_path, "b.index", *lax)
    assert pairs(run("match", index, input=lines(BROKEN))) == [("0", "ada"), ("1", "bob")]
    (tmp_path / "a.xml").write_text("<a>")
    assert pairs(run("match", index, tmp_path / "a.xml")) == []
    shown = run("explain", index, "<a>&x;<c/></a>", "--key", "ada").stdout
    assert shown == "no match: /a (line 1) has no b as a child\n"


def test_a_twig_that_is_not_supported_names_its_line_and_column(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(lines([TWIGS[0], {"twig": "//c[1]", "key": "bob"}]))
    message = fail("build", "twigs", path, "-o", tmp_path / "x")
    assert message.startswith("line 2: not a twig: column 5: found 1; positions are not supported")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["workload", "twigs", "dblp", "--format", "xml"], "XML is only read; expected one of: jsonl"),
        (["workload", "tags", "peers", "--format", "csv", "--size", "9"], "column 'tags' has lists"),
    ],
)  # fmt: skip
def test_formats_that_cannot_be_written_are_refused(tmp_path, arguments, message):
    assert message in fail(*arguments, "-o", tmp_path / "new")
    assert (tmp_path / "new").exists() == ("lists" in message)
