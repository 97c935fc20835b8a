"""Algorithms for twigs on documents of given numbers and sizes, and lxml beside them."""

import json
import re
import struct
import sys

import pytest

import matchyard as my
from matchyard.bench.compare import harness, twigs_report
from matchyard.bench.compare import twigs as documents
from matchyard.bench.compare.twigs import Job, Shape
from matchyard.bench.rivals import xpath
from matchyard.bench.rivals.subsets import Disagreement

pytestmark = pytest.mark.usefixtures("quick")
JOB = Job("dblp", 40, 1, {}, "cpu", 2, "arrow")
SHAPES = [Shape(1, 20_000), Shape(5, 3_000)]


def results_of(algorithms=("lazy_dfa",), shapes=SHAPES, threads=(1,), job=JOB):
    return list(documents.compare(job, algorithms, shapes, threads))


def test_every_algorithm_gets_every_shape_and_they_agree():
    results = results_of(my.algorithms("twigs"))
    assert len(results) == 2 * len(my.algorithms("twigs"))
    assert {(r.events, r.document_bytes) for r in results} == {(1, 20_000), (5, 3_000)}
    assert twigs_report.problems(results) == []
    assert len({r.checksum for r in results}) == 2


def test_a_result_says_how_much_xml_a_pass_was_and_how_long_the_first_took():
    (result,) = results_of(shapes=[Shape(3, 4_000)])
    last_pass = JOB.source(Shape(3, 4_000)).events(3, start=3).to_pylist()
    assert result.xml_bytes == sum(map(len, last_pass))
    elements = sum(len(re.findall(rb"<\w", text)) for text in last_pass)
    assert result.xml_tags == 2 * elements
    assert result.first_s > 0
    assert result.passes == 2


def test_twigs_are_the_same_for_all_shapes():
    first, second = (JOB.source(shape).subscriptions(0, 40)[0] for shape in SHAPES)
    assert first.equals(second)


def test_more_threads_than_documents_are_left_out():
    results = results_of(threads=(1, 2))
    assert [(r.events, r.threads) for r in results] == [(1, 1), (5, 1), (5, 2)]


def test_no_pass_begins_after_a_while_but_one_does(monkeypatch):
    monkeypatch.setattr(documents, "_MOST_S", 0.0)
    (result,) = results_of(shapes=[Shape(2, 2_000)], job=JOB._replace(passes=4))
    assert result.passes == 1


@pytest.mark.parametrize("form", ["python", "json"])
def test_documents_may_come_in_every_form(form):
    (arrow,) = results_of(shapes=SHAPES[1:])
    (other,) = results_of(shapes=SHAPES[1:], job=JOB._replace(form=form))
    assert (other.form, other.checksum) == (form, arrow.checksum)


def test_kernels_are_compiled_with_short_documents(monkeypatch):
    asked = []
    source = JOB.source(Shape(1, 30_000_000))
    kind = type(source)
    events = kind.events

    def note(self, *numbers, **named):
        asked.append(self.model.document_bytes)
        return events(self, *numbers, **named)

    monkeypatch.setattr(kind, "events", note)
    harness.warm_up(my.TwigIndex(), source, 1)
    assert set(asked) == {2_000}
    assert source.model.document_bytes == 30_000_000


def test_other_matches_in_any_table_are_a_problem():
    first, second = results_of()
    other = second._replace(algorithm="stacks", checksum="0")
    assert twigs_report.problems([first, second, other]) == [
        "stacks found other matches than lazy_dfa"
    ]


def test_plot_has_a_panel_for_each_table(tmp_path):
    results = results_of(threads=(1, 2))
    twigs_report.draw(results[:1], tmp_path / "one.png")
    twigs_report.draw(results, tmp_path / "three.png")
    one, three = (_size_of_png(tmp_path / name) for name in ("one.png", "three.png"))
    assert one[0] == three[0]
    assert one[1] < three[1]


def _size_of_png(path):
    """Width and height, which stand behind the signature and the name of the first chunk."""
    return struct.unpack(">II", path.read_bytes()[16:24])


@pytest.fixture
def filled():
    index = my.TwigIndex()
    harness.build(index, JOB.source())
    return index


def test_lxml_finds_the_same_on_a_sample(filled):
    found = xpath.race(JOB.source(Shape(9, 3_000)), 9, filled)
    assert (found.documents, found.twigs) == (4, 40)
    assert found.documents_per_s == pytest.approx(1 / (found.parse_s + 40 * found.evaluate_s))
    assert xpath.race(JOB.source(Shape(9, 3_000)), 9, filled, sample_s=0.0).twigs == 1


def test_lxml_with_other_matches_is_a_disagreement(filled):
    twigs, keys = JOB.source().subscriptions(0, 40)
    wrong = my.TwigIndex().add_many(twigs, keys[::-1]).consolidate()
    with pytest.raises(Disagreement, match="twig /"):
        xpath.race(JOB.source(Shape(1, 30_000)), 1, wrong)


def test_without_lxml_it_is_said_what_is_missing(filled, monkeypatch):
    monkeypatch.setitem(sys.modules, "lxml", None)
    with pytest.raises(my.UsageError, match="pip install lxml"):
        xpath.race(JOB.source(), 1, filled)


def test_documents_for_lxml_are_not_too_long():
    assert xpath.suitable(Shape(1, 30_000_000)).document_bytes == xpath.MOST_BYTES
    assert xpath.suitable(Shape(7, 25_000)) == Shape(7, 25_000)


def run(*arguments):
    from matchyard.cli import app

    app(["bench", "twigs", "--size", "30", "--passes", "1", *arguments], standalone_mode=False)


def test_command_prints_a_table_per_shape_and_what_threads_and_rivals_do(capsys, monkeypatch):
    monkeypatch.setattr(xpath, "_PARSED_BYTES", 10_000)
    run(
        "--documents",
        "1x20k,4x3k",
        "--threads",
        "1,2",
        "--algorithms",
        "lazy_dfa,stacks",
        "--rivals",
    )
    shown = capsys.readouterr().out
    assert "1 document of 20 kB · 1 thread" in shown
    assert "4 documents of 3 kB · 2 threads" in shown
    assert "lazy_dfa: 2 threads are" in shown
    assert shown.count("× lxml") == 2
    assert "expat with Python callbacks" in shown
    assert "…" not in shown


def test_command_says_that_lxml_is_missing_before_it_measures(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "lxml", None)
    with pytest.raises(my.UsageError, match="pip install lxml"):
        run("--events", "3", "--rivals")
    assert capsys.readouterr().out == ""


def test_command_prints_objects(capsys, monkeypatch):
    monkeypatch.setattr(xpath, "_PARSED_BYTES", 10_000)
    run("--events", "3", "--algorithms", "lazy_dfa", "--json", "--rivals")
    result, rival, parsers = map(json.loads, capsys.readouterr().out.splitlines())
    assert (result["events"], result["document_bytes"]) == (3, None)
    assert rival["rival"] == "lxml"
    assert set(parsers["parser_mb_per_s"]) >= {"scan", "expat with Python callbacks"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["twigs", "--documents", "25k"], "not documents: '25k'"),
        (["twigs", "--documents", "1x25k", "--events", "3"], "leave --events out"),
        (["twigs", "--threads", "0"], "threads must be at least 1"),
        (["tags", "--threads", "1,2"], "one number of threads is expected"),
        (["tags", "--documents", "1x25k"], "are for twigs"),
    ],
)
def test_mistakes_are_said(arguments, message):
    from matchyard.cli import app

    with pytest.raises(my.UsageError, match=message):
        app(["bench", *arguments, "--size", "10"], standalone_mode=False)
