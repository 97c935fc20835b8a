"""Single decisions of the scanner, each in a document that turns on it; expat is the judge."""

from __future__ import annotations

import pytest

from matchyard.engines.twigs.encoder.layout import Vocabulary
from matchyard.engines.twigs.language.model import Comparison as Kind
from matchyard.engines.twigs.language.model import Source
from matchyard.engines.twigs.language.options import Options
from tests.engines.twigs.encoder.test_scanner import REFUSING, SKIPPING, TAGS, compare
from tests.engines.twigs.xml_cases import Coded, vocabulary_of

TEXTS = ["x\ny", "x\r\ny", "1 2", "1\n2", "1\t2", "\U0001f600", "\r", " ", "x"]
OF_TEXTS: list[Coded] = [
    (source, name, Kind.EQUAL, text)
    for source, name in ((Source.ATTRIBUTE, "x"), (Source.TEXT, ""), (Source.VALUE, ""))
    for text in TEXTS
]
OF_NUMBERS: list[Coded] = [
    (source, name, kind, 2)
    for source, name in ((Source.ATTRIBUTE, "x"), (Source.TEXT, ""), (Source.VALUE, ""))
    for kind in (Kind.LESS, Kind.MORE, Kind.AT_MOST, Kind.NUMBER_UNEQUAL)
]
TESTS = vocabulary_of(["a", "b"], OF_TEXTS + OF_NUMBERS)

# what it turns on, and documents
DECISIONS = {
    "line ends in CDATA": ["<a><![CDATA[x\r\ny]]></a>", "<a>x<![CDATA[\r]]>\ny</a>"],
    "line ends in text": ["<a>x\r\ny</a>", "<a>x\ry</a>", "<a>x\n\ry</a>"],
    "white space in attributes": ["<a x='1\t2'/>", "<a x='1\n2'/>", "<a x='1\r\n2'/>"],
    "white space by its number": ["<a x='1&#10;2'/>", "<a x='1&#9;2'/>", "<a>&#13;</a>"],
    "attributes that come twice": ["<a x='1' x='2'/>", "<a y='1' x='' x=''/>", "<a x='' y='' x=''/>"],
    "space between attributes": ["<a x='1'y='2'/>", "<a x='1' y='2'/>", "<ax='1'/>"],
    "numbers that are no characters": ["<a>&#xDFFF;</a>", "<a>&#xD800;</a>", "<a>&#xE000;</a>"],
    "the last characters": ["<a>&#x10FFFF;</a>", "<a>&#x110000;</a>", "<a>&#x1F600;</a>"],
    "no number at all": ["<a>&#;</a>", "<a>&#x;</a>", "<a>&#1A;</a>", "<a>&#x1G;</a>"],
    "an instruction at the very end": ["<a/><?p?>", "<a/><?p q?>", "<a/><?p?", "<a/><?p"],
    "a comment at the very end": ["<a/><!---->", "<a/><!--->", "<a/><!--"],
    "two minus signs in a comment": ["<a><!-- c --x--></a>", "<a><!-- c ---></a>"],
    "points in numbers": ["<a x='1.2.3'/>", "<a>1.2.3</a>", "<a>..1</a>", "<a>1.</a>", "<a>.</a>"],
    "many decimals": [f"<a>0.{'0' * 28}1</a>", f"<a>1.{'0' * 22}</a>", f"<a>1.{'0' * 23}</a>"],
    "signs of numbers": ["<a>-3</a>", "<a>--3</a>", "<a>-</a>", "<a x='-'/>", "<a>+3</a>"],
    "names of nearly the same letters": [f"<a>{'<nnnnnnnnn/><nnnnnnnnnn/>' * 3}</a>"],
}  # fmt: skip


@pytest.mark.parametrize("vocabulary", [TAGS, TESTS], ids=["tags", "tests"])
@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_is_that_of_expat(name: str, vocabulary: Vocabulary) -> None:
    documents = [document.encode() for document in DECISIONS[name]]
    for options in (SKIPPING, REFUSING):
        compare(documents, vocabulary, options)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_other_encodings_are_left_to_expat(encoding: str) -> None:
    compare(["<a/>".encode(encoding), "<a>x</a>".encode(encoding)], TESTS, REFUSING)


def test_a_document_may_be_as_long_as_the_limit() -> None:
    document = b"<a>12345</a>"
    for limit in (len(document) - 1, len(document), len(document) + 1):
        [found] = compare([document], TAGS, Options(max_document_bytes=limit))
        assert (found > 0) == (len(document) <= limit)


def test_every_document_has_all_of_the_limit_for_its_entities() -> None:
    document = b"<!DOCTYPE a [<!ENTITY e '12345'>]><a>&e;&e;</a>"
    options = Options(max_entity_expansion=12)
    assert compare([document] * 10, TESTS, options) == [1] * 10


def test_names_of_other_lengths_share_no_tag() -> None:
    names = ["n" * length for length in range(9, 17)]
    document = "<a>" + "".join(f"<{name}/>" for name in names * 2) + "</a>"
    compare([document.encode()], vocabulary_of(names[::2]), REFUSING)
