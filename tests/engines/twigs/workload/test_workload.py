"""Workloads: the same rows however they are cut, documents as defined, twigs as asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from matchyard.engines.twigs.workload import MODELS, dblp, generate
from matchyard.engines.twigs.workload.dtd.definition import read_file, read_text
from tests.engines.twigs.walked import depth_of, faults, is_match, steps_of, values_tested

needs_data = pytest.mark.skipif("MATCHYARD_DATA" not in os.environ, reason="needs MATCHYARD_DATA")
BOOKS = """
<!ELEMENT book (title, chapter+, note?)>
<!ELEMENT chapter (title, (section | para | list)*)>
<!ELEMENT section (title, (section | para | list)+)>
<!ELEMENT list (item+ | empty)>
<!ELEMENT item (para)+>
<!ELEMENT empty EMPTY>
<!ELEMENT note ANY>
<!ELEMENT title (#PCDATA)>
<!ELEMENT para (#PCDATA | emphasis | link)*>
<!ELEMENT emphasis (#PCDATA | emphasis)*>
<!ELEMENT link (#PCDATA)>
<!ATTLIST book id ID #IMPLIED>
<!ATTLIST section id ID #REQUIRED level (low | high) #REQUIRED>
<!ATTLIST link to IDREF #REQUIRED>
<!ATTLIST empty picture ENTITY #IMPLIED>
"""


@pytest.fixture
def books(tmp_path: Path) -> str:
    path = tmp_path / "books.dtd"
    path.write_text(BOOKS)
    return str(path)


def drawn(path: str, size: int = 50, **parameters: Any) -> Any:
    """The workload of a DTD."""
    return generate("dtd", size, parameters={"dtd": path, **parameters})


def roots_of(documents: pa.Array) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(document) for document in documents.to_pylist()]


@pytest.mark.parametrize("parameters", [{}, {"distinct": False, "tests": 0.5, "negations": 0.5}])
def test_rows_are_the_same_in_any_chunking(parameters: dict[str, Any]) -> None:
    work = generate("dblp", 1000, 5, parameters)
    column, keys = work.subscriptions(0, 1000)
    assert column.type == pa.string()
    assert keys.tolist() == list(range(1000))
    pieces = list(generate("dblp", 1000, 5, parameters).chunks(333))
    assert [row for piece, _ in pieces for row in piece.to_pylist()] == column.to_pylist()
    assert np.concatenate([some for _, some in pieces]).tolist() == keys.tolist()
    documents = work.events(9)
    assert documents.type == pa.binary()
    assert work.events(4, start=3).to_pylist() == documents.to_pylist()[3:7]
    assert len(work.events(0)) == 0


def test_a_larger_workload_begins_with_the_smaller_one() -> None:
    small, large = (generate("dblp", size).subscriptions(0, size)[0] for size in (100, 300))
    assert large.to_pylist()[:100] == small.to_pylist()


def test_seeds_make_different_rows_and_documents() -> None:
    one, two = (generate("dblp", 50, seed) for seed in (1, 2))
    assert one.subscriptions(0, 50)[0] != two.subscriptions(0, 50)[0]
    assert one.events(1) != two.events(1)


def test_documents_are_the_same_where_they_are_made_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = generate("dblp", 1)
    whole = work.events(7)
    monkeypatch.setattr("matchyard.engines.twigs.workload.generated._MOST_BYTES", 60_000)
    pieces = work.events(7)
    assert pieces.type == pa.large_binary()
    assert pieces.to_pylist() == whole.to_pylist()


def test_bibliographies_are_as_their_definition_says() -> None:
    work: Any = generate("dblp", 1)
    for root in roots_of(work.events(10)):
        assert faults(work.dtd, root) == []
    names = {element.tag for root in roots_of(work.events(60)) for element in root.iter()}
    assert names == set(read_text(dblp.TEXT).elements)


@pytest.mark.parametrize("document_bytes", [1000, 25_000, 300_000])
def test_documents_are_as_large_as_asked_for(document_bytes: int) -> None:
    work = generate("dblp", 1, parameters={"document_bytes": document_bytes})
    sizes = [len(document) for document in work.events(5).to_pylist()]
    assert min(sizes) >= document_bytes
    assert max(sizes) < document_bytes + 3000


def test_a_tag_comes_about_every_16_bytes() -> None:
    documents = generate("dblp", 1).events(20).to_pylist()
    n_tags = sum(document.count(b"<") - 1 for document in documents)
    assert sum(map(len, documents)) / n_tags == pytest.approx(16, abs=1.5)


@pytest.mark.parametrize("max_depth", [3, 4, 6, 20])
@pytest.mark.parametrize("record_bytes", [1, 2000])
def test_documents_of_a_recursive_definition_end(
    books: str, max_depth: int, record_bytes: int
) -> None:
    work = drawn(books, max_depth=max_depth, record_bytes=record_bytes, document_bytes=10_000)
    roots = roots_of(work.events(10))
    assert [fault for root in roots for fault in faults(work.dtd, root)] == []
    assert max(map(depth_of, roots)) <= max_depth
    if record_bytes > 1 and max_depth < 20:
        assert max(map(depth_of, roots)) == max_depth
    sizes = [len(document) for document in work.events(10).to_pylist()]
    assert 10_000 <= min(sizes) <= max(sizes) < 16_000


def test_identifiers_are_unique_and_references_lead_to_them(books: str) -> None:
    for root in roots_of(drawn(books).events(5)):
        ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
        links = [element.attrib["to"] for element in root.iter("link")]
        assert len(ids) == len(set(ids)) > 5
        assert links
        assert set(links) <= set(ids)


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        ("<!ELEMENT a EMPTY>", 1),
        ("<!ELEMENT a (#PCDATA)>", 1),
        ("<!ELEMENT a (b, b)> <!ELEMENT b EMPTY>", 3),
        ("<!ELEMENT a (gone | b)*> <!ELEMENT b EMPTY>", 100),
        ("<!ELEMENT a (b?)*> <!ELEMENT b (b)>", 1),  # b cannot be completed, so a stays empty
        ("<!ELEMENT a (head, (b | c)?)> <!ELEMENT head EMPTY> <!ELEMENT b EMPTY>"
         "<!ELEMENT c (d)> <!ELEMENT d (head*)>", 100),  # only c can grow
        ("<!ELEMENT a (a*)>", 100),
        (f"<!ELEMENT a (b)*> <!ELEMENT b ({', '.join(['c'] * 300)})> <!ELEMENT c EMPTY>", 300),
    ],
)  # fmt: skip
def test_definitions_of_any_form_have_documents(tmp_path: Path, text: str, shortest: int) -> None:
    (tmp_path / "x.dtd").write_text(text)
    work = drawn(
        str(tmp_path / "x.dtd"), root="a", document_bytes=1500, record_bytes=1, nodes=1, splits=0
    )
    for root in roots_of(work.events(3)):
        assert faults(work.dtd, root) == []
        assert len(list(root.iter())) >= shortest


def test_documents_are_valid_to_lxml(books: str, tmp_path: Path) -> None:
    etree = pytest.importorskip("lxml.etree")
    (tmp_path / "dblp.dtd").write_text(dblp.TEXT)
    for path, work in (
        (books, drawn(books)),
        (tmp_path / "dblp.dtd", generate("dblp", 1)),
    ):
        definition = etree.DTD(str(path))
        for document in work.events(10).to_pylist():
            assert definition.validate(etree.fromstring(document)), definition.error_log


@pytest.mark.parametrize(("nodes", "splits"), [(5, 1), (10, 3), (15, 6), (4, 0), (1, 0)])
@pytest.mark.parametrize("max_children", [2, 4])
def test_twigs_have_the_size_and_splits_of_the_paper(
    nodes: int, splits: int, max_children: int
) -> None:
    parameters = {"nodes": nodes, "splits": splits, "max_children": max_children}
    work = generate("dblp", 200 if nodes > 1 else 5, parameters=parameters)
    column, _ = work.subscriptions(0, work.size)
    widest = 0
    for twig in map(steps_of, column.to_pylist()):
        steps = twig.all()
        assert len(steps) == nodes
        assert sum(len(step.children) > 1 for step in steps) == splits
        assert not any(step.is_negated for step in steps)
        widest = max(widest, *(len(step.children) for step in steps))
    if splits > 1:
        assert widest == max_children


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 1.0])
def test_so_many_names_are_wild_and_steps_to_descendants(share: float) -> None:
    parameters = {"wildcard": share, "descendant": 1 - share, "distinct": False}
    work = generate("dblp", 500, parameters=parameters)
    twigs = [steps_of(twig) for twig in work.subscriptions(0, 500)[0].to_pylist()]
    steps = [step for twig in twigs for step in twig.all()]
    # Siblings are never equal, so that twigs with many * are drawn again.
    assert np.mean([step.name == "*" for step in steps]) == pytest.approx(share, abs=0.07)
    assert np.mean([step.axis == "//" for step in steps]) == pytest.approx(1 - share, abs=0.07)


def test_steps_are_those_of_the_definition(books: str) -> None:
    work = drawn(books, 300)
    for twig in map(steps_of, work.subscriptions(0, 300)[0].to_pylist()):
        assert twig.axis == "//" or twig.name in ("*", "book")
        for step in twig.all():
            below = work.dtd.children(step.name) if step.name != "*" else list(work.dtd.elements)
            for child in step.children:
                assert child.axis == "//" or child.name in ("*", *below)


def test_twigs_are_distinct_whatever_the_order_of_their_branches() -> None:
    def normal(step: Any) -> Any:
        return step.axis, step.name, frozenset(map(normal, step.children))

    parameters = {"nodes": 4, "splits": 1}
    twigs = generate("dblp", 3000, parameters=parameters).subscriptions(0, 3000)[0].to_pylist()
    assert len({normal(steps_of(twig)) for twig in twigs}) == 3000
    anyhow = generate("dblp", 3000, parameters={**parameters, "distinct": False})
    twigs = anyhow.subscriptions(0, 3000)[0].to_pylist()
    assert len({normal(steps_of(twig)) for twig in twigs}) < 3000
    for twig in map(steps_of, twigs):
        assert all(len(set(step.children)) == len(step.children) for step in twig.all())


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_so_many_twigs_have_a_test_and_a_negated_branch(share: float) -> None:
    work = generate("dblp", 500, parameters={"tests": share, "negations": 1 - share})
    twigs = work.subscriptions(0, 500)[0].to_pylist()
    n_tests = [len(values_tested(twig)) for twig in twigs]
    n_negated = [sum(step.is_negated for step in steps_of(twig).all()) for twig in twigs]
    assert set(n_tests) | set(n_negated) <= {0, 1}
    assert np.mean(n_tests) == pytest.approx(share, abs=0.06)
    assert np.mean(n_negated) == pytest.approx(1 - share, abs=0.06)


def test_tests_are_of_what_documents_have() -> None:
    work = generate("dblp", 1000, parameters={"tests": 1.0})
    tests = {
        test for twig in work.subscriptions(0, 1000)[0].to_pylist() for test in values_tested(twig)
    }
    assert {"[@key]", "[@mdate]"} <= tests
    assert any(test.startswith('[@mdate = "20') for test in tests)
    assert any(test.startswith("[. >= ") for test in tests)
    assert any(test.startswith("[. < ") for test in tests)
    assert any(test.startswith('[. = "') for test in tests)


def test_some_twigs_match_a_document_and_most_do_not() -> None:
    work = generate("dblp", 300)
    twigs = [steps_of(twig) for twig in work.subscriptions(0, 300)[0].to_pylist()]
    for root in roots_of(work.events(3)):
        assert 0.05 < np.mean([is_match(twig, root) for twig in twigs]) < 0.3


def test_twigs_are_xpath_to_lxml() -> None:
    etree = pytest.importorskip("lxml.etree")
    work = generate("dblp", 300, parameters={"tests": 0.5, "negations": 0.5})
    root = etree.fromstring(work.events(1)[0].as_py())
    texts = work.subscriptions(0, 300)[0].to_pylist()
    found = [bool(etree.XPath(text)(root)) for text in texts]
    assert 0 < sum(found) < 300
    plain = ElementTree.fromstring(work.events(1)[0].as_py())
    for text, is_found in zip(texts, found, strict=True):
        if not values_tested(text):
            assert is_match(steps_of(text), plain) == is_found, text


@pytest.mark.data
@needs_data
def test_documents_of_docbook_are_as_it_says() -> None:
    path = Path(os.environ["MATCHYARD_DATA"], "xml", "docbook-dtd", "docbookx.dtd")
    work = drawn(str(path), root="book", max_depth=12)
    dtd = read_file(path)
    for root in roots_of(work.events(5)):
        assert faults(dtd, root) == []
        assert depth_of(root) <= 12
    assert all(len(steps_of(twig).all()) == 10 for twig in work.subscriptions(0, 50)[0].to_pylist())


@pytest.mark.data
@needs_data
def test_handbooks_are_as_recorded() -> None:
    pytest.importorskip("matchyard.engines.twigs.language")
    work: Any = generate("docbook")
    assert work.n_events == len(work.names) == 2055
    assert work.size + sum(work.unsupported.values()) == 1305
    assert work.unsupported["position"] > 0
    assert work.size > 1000
    column, keys = work.subscriptions(0, 10_000)
    assert len(column) == len(keys) == work.size
    assert work.events(3, start=2054)[1:] == work.events(2)
    assert generate("docbook", 7).size == 7


def test_every_model_has_its_name() -> None:
    assert list(MODELS) == ["dblp", "dtd", "docbook"]
