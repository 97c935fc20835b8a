"""Hostile names and files: one clear sentence, a status that is not 0, and nothing a terminal obeys."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import matchyard as my
from matchyard.cli import main
from matchyard.cli.terminal import say, shown

ESCAPES = "\x1b[31m\x07\x9b2J\u202e"
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.fixture
def run(monkeypatch, capsys):
    def command(*arguments):
        monkeypatch.setattr("sys.argv", ["matchyard", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        found = capsys.readouterr()
        return ended.value.code or 0, found.out, found.err

    return command


@pytest.fixture
def index(tmp_path):
    path = tmp_path / "a.index"
    my.TagIndex().add({"a", f"b{ESCAPES}"}, key=f"k{ESCAPES}").save(path)
    return path


def is_plain(text):
    return all(char == "\n" or char == shown(char) for char in text)


def test_text_that_a_terminal_obeys_is_escaped_and_other_text_is_not():
    assert shown("é 日本 🦉 \\ [red]a[/red]") == "é 日本 🦉 \\ [red]a[/red]"
    assert shown("a\tb\r\n\u2028") == "a\\tb\\r\\n\\u2028"
    assert shown("\udcff\u2066") == "\\udcff\\u2066"


def test_blank_tags_are_no_subscription_but_an_empty_list_is(run, tmp_path):
    subscriptions, path = tmp_path / "s.jsonl", tmp_path / "b.index"
    subscriptions.write_text('{"tags": "jazz", "key": 1}\n{"tags": " ", "key": 2}\n')
    code, _, told = run("build", "tags", subscriptions, "-o", path)
    assert code == 1
    assert "line 2: not a set of tags: column 1: found the end; expected a tag" in told
    assert not path.exists()
    subscriptions.write_text('{"tags": "jazz", "key": 1}\n{"tags": [], "key": 2}\n')
    assert run("build", "tags", subscriptions, "-o", path)[0] == 0
    assert my.open(path).match(["", "jazz"]).to_lists() == [[2], [2, 1]]


def test_what_a_stream_cannot_encode_is_escaped_too():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    say("é\nb\x1b", stream)
    assert stream.buffer.getvalue() == b"\\xe9\nb\\x1b\n"


def test_names_of_files_are_shown_escaped_and_not_as_markup(run, tmp_path):
    name = f"no{ESCAPES}[red]\n.index"
    for arguments in (
        ["info", tmp_path / name],
        ["build", "tags", tmp_path / f"{name}.jsonl", "-o", tmp_path / "b.index"],
        ["build", "tags", tmp_path / name, "-o", tmp_path / "b.index"],
    ):
        status, _, text = run(*arguments)
        assert (status, len(text.splitlines())) == (1, 1), text
        assert is_plain(text)
        assert "no\\x1b[31m\\x07\\x9b2J\\u202e[red]\\n.index" in text
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"tags": ["a"], "key": 1}\n')
    assert is_plain(run("build", "tags", rows, "-o", tmp_path / name)[2])
    assert is_plain(run("info", "--nope\x1b")[2])


def test_tags_and_keys_are_shown_escaped(run, index, tmp_path):
    status, text, _ = run("explain", index, "a", "--key", f"k{ESCAPES}")
    assert status == 0
    assert is_plain(text)
    assert "b\\x1b[31m" in text
    assert is_plain(run("explain", index, "a", "--key", f"no{ESCAPES}")[1])
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({f"tags{ESCAPES}": ["a"], "key": 1}))
    status, _, text = run("build", "tags", rows, "-o", tmp_path / "b.index")
    assert status == 1
    assert is_plain(text)
    assert "tags\\x1b" in text


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_a_path_that_no_file_can_have_is_refused(run, index, tmp_path, path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"tags": ["a"], "key": 1}\n')
    for arguments in (
        ["info", path],
        ["build", "tags", f"{path}.jsonl", "-o", tmp_path / "b.index"],
        ["build", "tags", rows, "-o", path],
        ["match", index, f"{path}.jsonl"],
        ["match", index, rows, "-o", f"{path}.jsonl"],
        ["match", index, rows, "--bad", path],
    ):
        status, _, text = run(*arguments)
        assert status in (1, 2), text
        assert "MATCHYARD_DEBUG" not in text
        assert is_plain(text)


def test_a_file_that_cannot_be_written_is_named(run, index, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"tags": ["a"]}\n')
    for option in ("-o", "--bad"):
        status, _, text = run("match", index, rows, option, tmp_path / "no" / "x.jsonl")
        assert status == 1
        assert "x.jsonl: cannot be written: No such file or directory" in text


def parquet():
    file = io.BytesIO()
    pq.write_table(pa.table({"tags": [["a"]], "key": [1]}), file)
    return file.getvalue()


CONTENTS = {
    "garbage": bytes(range(256)) * 8,
    "long": b"x" * (1 << 20),
    "not-unicode": b'{"tags": ["\xff\xfe"], "key": 1}\n',
    "deep": DEEP,
    "deep-field": b'{"tags": ' + DEEP + b', "key": 1}\n',
    "cut": parquet()[:-10],
}


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet", "arrow"])
@pytest.mark.parametrize("content", CONTENTS)
def test_a_hostile_file_is_refused_in_one_sentence(run, tmp_path, content, ending):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(CONTENTS[content])
    for arguments in (
        ["build", "tags", path, "-o", tmp_path / "b.index"],
        ["info", path],
        ["match", path, path],
    ):
        status, _, text = run(*arguments)
        assert (status, len(text.splitlines())) == (1, 1), text
        assert len(text) < 2000
        assert "MATCHYARD_DEBUG" not in text
        assert is_plain(text)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet", "arrow", "xml"])
def test_a_folder_is_no_file_of_rows(run, index, tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    path.mkdir()
    status, _, text = run("match", index, path)
    assert (status, len(text.splitlines())) == (1, 1), text
    assert "MATCHYARD_DEBUG" not in text


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_a_file_without_rows_must_have_the_columns(run, tmp_path, ending):
    path, empty = tmp_path / f"a.{ending}", pa.schema({"words": pa.string()}).empty_table()
    if ending == "csv":
        path.write_text("words,key\n")
    elif ending == "parquet":
        pq.write_table(empty, path)
    else:
        with pa.ipc.new_file(str(path), empty.schema):
            pass
    status, _, text = run("build", "tags", path, "-o", tmp_path / "b.index")
    assert status == 1
    assert "no column 'tags'; found: words" in text
