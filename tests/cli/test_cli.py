"""The command line, as a user types it: one process per command, or Typer's runner where it is quick."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import matchyard as my
from matchyard.cli import app

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
runner = CliRunner()


def run(*arguments, input=None):
    return runner.invoke(app, [str(argument) for argument in arguments], input=input)


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def music(tmp_path):
    path = tmp_path / "music.index"
    my.TagIndex().add("jazz live", key="ada").add("jazz oslo", key="bob").save(path)
    return path


def test_events_are_matched_on_the_device_that_is_named(music):
    assert "ada" in run("match", music, "--device", "auto", input='["jazz", "live"]').output
    assert isinstance(run("match", music, "--device", "tpu").exception, my.DeviceError)


def test_every_command_has_help_and_a_line_in_the_docs():
    documented = DOCS.read_text(encoding="utf-8")
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert f"`matchyard {name}" in documented, name
        shown = run(name, "--help")
        assert shown.exit_code == 0
        assert command.callback.__doc__.splitlines()[0][:40] in " ".join(shown.output.split())


def test_every_option_has_a_help_text():
    from typer.main import get_command

    for name, command in get_command(app).commands.items():
        for parameter in command.params:
            assert getattr(parameter, "help", None) or parameter.name == "help", (
                name,
                parameter.name,
            )


def test_help_loads_neither_numba_nor_pyarrow():
    code = (
        "import sys; sys.argv = ['matchyard', '--help']\n"
        "from matchyard.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'numba', 'pyarrow', 'numpy'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("format", ["jsonl", "parquet", "arrow"])
def test_workload_build_and_match_agree_with_the_library(tmp_path, format):
    assert run("workload", "tags", "peers", "--size", "500", "--events", "40", "--seed", "3",
               "-o", tmp_path, "--format", format).exit_code == 0  # fmt: skip
    index = tmp_path / "peers.index"
    assert run("build", "tags", tmp_path / f"subscriptions.{format}", "-o", index).exit_code == 0
    pairs = tmp_path / "pairs.parquet"
    done = run("match", index, tmp_path / f"events.{format}", "-o", pairs)
    assert done.exit_code == 0
    found = pq.read_table(pairs)
    source = my.workload("tags", "peers", 500, seed=3)
    expected = my.TagIndex().add_many(*source.subscriptions(0, 500)).consolidate()
    wanted = expected.match(source.events(40)).to_arrow()
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == sorted(
        zip(*wanted.to_pydict().values(), strict=True)
    )
    assert found.num_rows > 40


def test_events_come_from_standard_input_and_pairs_go_to_standard_output(music):
    done = run(
        "match", music, input='{"id": "t1", "tags": ["jazz", "live"]}\n["jazz", "oslo"]\n"rock"\n'
    )
    assert done.exit_code == 0
    assert rows(done.stdout) == [{"event": "t1", "key": "ada"}, {"event": "1", "key": "bob"}]


def test_arrays_have_one_row_per_event(music):
    done = run("match", music, "--arrays", input='["jazz", "live", "oslo"]\n["rock"]\n')
    assert [(row["event"], sorted(row["keys"])) for row in rows(done.stdout)] == [
        (0, ["ada", "bob"]),
        (1, []),
    ]


def test_unique_counts_a_key_once(tmp_path):
    path = tmp_path / "a.index"
    my.TagIndex().add("jazz", key=1).add("live", key=1).save(path)
    assert len(rows(run("match", path, input='["jazz", "live"]\n').stdout)) == 2
    assert len(rows(run("match", path, "--unique", input='["jazz", "live"]\n').stdout)) == 1


def test_a_bad_event_stops_the_command_and_names_its_line(music):
    with pytest.raises(my.ParseError, match=r"line 2 has no field 'tags'"):
        runner.invoke(
            app, ["match", str(music)], input='["jazz"]\n{"x": 1}\n', catch_exceptions=False
        )


def test_bad_events_go_aside_with_the_reason_where_asked(music, tmp_path):
    bad = tmp_path / "bad.jsonl"
    lines = '["jazz", "live"]\n{"x": 1}\nnonsense\n[1, 2]\n["jazz", "oslo"]\n'
    done = run("match", music, "--bad", bad, input=lines)
    assert [row["key"] for row in rows(done.stdout)] == ["ada", "bob"]
    reasons = rows(bad.read_text())
    assert [row["line"] for row in reasons] == [2, 3, 4]
    assert "no field 'tags'" in reasons[0]["reason"]
    assert "not JSON" in reasons[1]["reason"]
    assert [row["event"] for row in reasons] == [{"x": 1}, "nonsense", [1, 2]]
    assert "not a tag: 1" in reasons[2]["reason"] or "not a tag: 2" in reasons[2]["reason"]


def test_bad_rows_of_a_parquet_file_go_aside_too(music, tmp_path):
    pq.write_table(
        pa.table({"tags": [["jazz", "live"], None, ["jazz", None]]}), tmp_path / "e.parquet"
    )
    done = run("match", music, tmp_path / "e.parquet", "--bad", tmp_path / "bad.jsonl")
    assert [row["key"] for row in rows(done.stdout)] == ["ada"]
    assert [row["row"] for row in rows((tmp_path / "bad.jsonl").read_text())] == [1, 2]


def test_columns_can_be_named(tmp_path):
    pq.write_table(pa.table({"topics": [["jazz"]], "user": ["ada"]}), tmp_path / "s.parquet")
    index = tmp_path / "s.index"
    done = run("build", "tags", tmp_path / "s.parquet", "-o", index, "--tags", "topics", "--key", "user",
               "--algorithm", "tagmatch", "--option", "n_bits=64", "--option", "pivot=frequent")  # fmt: skip
    assert done.exit_code == 0
    info = json.loads(run("info", index, "--json").stdout)
    assert (info["algorithm"], info["options"]["n_bits"], info["options"]["pivot"]) == (
        "tagmatch", 64, "frequent",
    )  # fmt: skip
    assert "missing tag: jazz" in run("explain", index, "rock", "--key", "ada").stdout


def test_info_is_readable_and_verifies(music):
    assert "subscriptions  2" in run("info", music, "--verify").stdout


def test_bench_prints_one_object_per_algorithm_and_they_agree(tmp_path):
    plot = tmp_path / "bench.png"
    done = run("bench", "tags", "--workload", "peers", "--size", "2k", "--events", "300", "--passes", "2",
               "--json", "--plot", plot)  # fmt: skip
    assert done.exit_code == 0
    results = rows(done.stdout)
    assert [row["algorithm"] for row in results] == list(my.algorithms("tags"))
    assert len({row["checksum"] for row in results}) == 1
    wanted = {"engine", "workload", "algorithm", "device", "threads", "subscriptions", "events", "build_s",
              "events_per_s", "pairs_per_s", "matches", "candidates", "index_bytes", "checksum"}  # fmt: skip
    assert wanted <= set(results[0])
    assert results[0]["matches"] > 300
    assert plot.stat().st_size > 1000


def test_bench_fails_when_the_algorithms_disagree(monkeypatch):
    from matchyard.bench.compare import harness

    numbers = iter(range(10))
    monkeypatch.setattr(harness, "checksum", lambda matches: str(next(numbers)))
    done = run("bench", "tags", "--size", "500", "--events", "50", "--passes", "1",
               "--algorithms", "rarest,scan")  # fmt: skip
    assert done.exit_code == 1
    assert "scan found other matches than rarest" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "tags", "--size", "abc"], "not a count: 'abc'"),
        (["build", "nothing", "README.md", "-o", "x.index"], "no engine 'nothing'"),
        (["bench", "nothing"], "no engine 'nothing'"),
        (["bench", "tags", "--workload", "nothing", "--size", "10"], "no tags workload 'nothing'"),
        (["bench", "tags", "--algorithms", "nothing", "--size", "10"], "no algorithm 'nothing'"),
        (["bench", "tags", "--device", "tpu", "--size", "10"], "no device 'tpu'"),
        (["bench", "tags", "--size", "10", "--option", "leaf"], "not an option: 'leaf'"),
        (["bench", "tags", "--size", "10", "--option", "nothing=1"], "no option 'nothing'"),
        (["match", "nothing.index"], "not a Matchyard index"),
        (["build", "tags", "nothing.parquet", "-o", "x.index"], "no such file"),
        (["build", "tags", "README.txt", "-o", "x.index"], "no format is known by the ending"),
        (["build", "tags", "a.csv.gz", "-o", "x.index"], "is compressed: pipe it, e.g. zcat a.csv"),
        (["reproduce", "nothing"], "no figure 'nothing'"),
    ],
)
def test_mistakes_are_one_clear_line(arguments, message):
    with pytest.raises(my.MatchyardError) as error:
        runner.invoke(app, arguments, catch_exceptions=False)
    assert message in str(error.value)


def test_an_error_is_one_line_and_status_1(tmp_path):
    command = [sys.executable, "-m", "matchyard", "info", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("matchyard: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_demo_whose_check_fails_has_exit_status_1(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr("matchyard.bench.demo.demo.run", lambda *all: given.append(all))
    assert run("demo", "--size", "2k", "--seconds", "1", "-o", tmp_path).exit_code == 1
    assert given == [(2000, 1.0, tmp_path, 2, 1)]


def test_arrow_streams_go_through_pipes(music):
    sink = io.BytesIO()
    table = pa.table({"tags": [["jazz", "live"]], "id": [5]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    command = [sys.executable, "-m", "matchyard", "match", str(music), "-", "--format", "arrow",
               "--output-format", "arrow"]  # fmt: skip
    done = subprocess.run(command, input=sink.getvalue(), capture_output=True, check=True)
    found = pa.ipc.open_stream(done.stdout).read_all().to_pylist()
    assert found == [{"event": 5, "key": "ada"}]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_no_events_make_a_file_without_rows(music, tmp_path, ending):
    (tmp_path / "none.jsonl").write_text("")
    out = tmp_path / f"out.{ending}"
    assert run("match", music, tmp_path / "none.jsonl", "-o", out).exit_code == 0
    table = pq.read_table(out) if ending == "parquet" else pa.ipc.open_file(out).read_all()
    assert (table.num_rows, table.column_names) == (0, ["event", "key"])


def test_parquet_comes_through_a_pipe(music):
    sink = io.BytesIO()
    pq.write_table(pa.table({"tags": [["jazz", "live"]], "id": ["t"]}), sink)
    command = [sys.executable, "-m", "matchyard", "match", str(music), "-", "--format", "parquet"]
    done = subprocess.run(command, input=sink.getvalue(), capture_output=True, check=True)
    assert rows(done.stdout.decode()) == [{"event": "t", "key": "ada"}]


def test_rows_are_counted_over_the_whole_file(music, tmp_path):
    tags = [["jazz"]] * 70_000
    tags[66_000] = None
    pq.write_table(pa.table({"tags": tags}), tmp_path / "e.parquet")
    files = [str(music), str(tmp_path / "e.parquet"), "-o", str(tmp_path / "out.parquet")]
    with pytest.raises(my.ParseError, match="rows counted from 65536: row 464 is null"):
        runner.invoke(app, ["match", *files], catch_exceptions=False)
    done = run("match", music, tmp_path / "e.parquet", "-o", tmp_path / "out.parquet",
               "--bad", tmp_path / "bad.jsonl")  # fmt: skip
    assert done.exit_code == 0
    assert [row["row"] for row in rows((tmp_path / "bad.jsonl").read_text())] == [66_000]


def test_odd_names_of_events_come_back(music):
    lines = [{"id": name, "tags": ["jazz", "live"]} for name in (1, 2.5, None, "x", 2**70)]
    done = run("match", music, input="".join(json.dumps(line) + "\n" for line in lines))
    assert [row["event"] for row in rows(done.stdout)] == ["1", "2.5", "null", "x", str(2**70)]


def test_a_slow_pipe_is_answered_line_by_line(music):
    command = [sys.executable, "-m", "matchyard", "match", str(music)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL) as process:  # fmt: skip
        for _ in range(2):
            process.stdin.write('["jazz", "live"]\n')
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["key"] == "ada"
        process.stdin.close()
    assert process.returncode == 0


def test_unexpected_failures_are_one_line_too(tmp_path, music):
    command = [
        sys.executable,
        "-m",
        "matchyard",
        "match",
        str(music),
        "-o",
        f"{tmp_path}/no/x.jsonl",
    ]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "No such file" in done.stderr
