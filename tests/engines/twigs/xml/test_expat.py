"""The reference: what expat makes of a document, and what is refused."""

from __future__ import annotations

import pickle

import pytest

from matchyard.engines.twigs.encoder.events.expat_fallback import encode as coded
from matchyard.engines.twigs.encoder.layout import CLOSE
from matchyard.engines.twigs.language.model import Comparison as Kind
from matchyard.engines.twigs.language.model import Source
from matchyard.engines.twigs.language.model import number as number_of
from matchyard.engines.twigs.language.options import DEFAULTS, Options
from matchyard.engines.twigs.xml.expat import signals
from matchyard.errors import EventError, ParseError, XmlError
from tests.engines.twigs.xml_cases import vocabulary_of

SKIPPING = Options(undefined_entities="skip")
BOMB = "".join(f'<!ENTITY e{i} "&e{i - 1};&e{i - 1};">' for i in range(1, 40))


def texts(document: str | bytes, options: Options = DEFAULTS) -> list[str]:
    return [str(signal[1]) for signal in signals(document, options) if signal[0] == "text"]


def test_character_data_is_one_text_across_sections_and_entities() -> None:
    document = "<!DOCTYPE a [<!ENTITY e 'f'>]><a>1&amp;<![CDATA[<2>]]>&e;&#65;</a>"
    assert texts(document) == ["1&<2>fA"]


@pytest.mark.parametrize("between", ["<!---->", "<?pi?>", "<b/>"])
def test_comments_instructions_and_tags_separate_texts(between: str) -> None:
    assert texts(f"<a>1{between}2</a>") == ["1", "2"]


def test_line_ends_and_white_space_are_normalised() -> None:
    (_, _, attributes), *_ = signals("<a x='1\t2\r\n3&#10;4'>\r\n\r</a>")
    assert attributes == {"x": "1 2 3\n4"}
    assert texts("<a>1\r\n2\r3</a>") == ["1\n2\n3"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_bytes_are_in_the_encoding_that_they_declare(encoding: str) -> None:
    document = f'<?xml version="1.0" encoding="{encoding}"?><a>ä</a>'
    assert texts(document.encode(encoding)) == ["ä"]


def test_text_is_text_whatever_it_declares() -> None:
    assert texts('<?xml version="1.0" encoding="utf-16"?><a>ä</a>') == ["ä"]


@pytest.mark.parametrize(
    ("document", "line", "column", "reason"),
    [
        ("<a>\n <b></a>", 2, 7, "mismatched tag"),
        ("<a>\n&nbsp;</a>", 2, 1, "undefined entity"),
        ("", 1, 1, "no element found"),
        ("<a/>\n<b/>", 2, 1, "junk after document element"),
        ("<a x='1' x='2'/>", 1, 10, "duplicate attribute"),
    ],
)
def test_malformed_documents_are_refused_with_their_place(
    document: str, line: int, column: int, reason: str
) -> None:
    with pytest.raises(XmlError, match=reason) as caught:
        signals(document)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_the_error_counts_documents_and_survives_pickling() -> None:
    error = XmlError("a {brace}", 2, 3, 4).counted_from(10)
    assert str(error) == "document 14 at line 2, column 3: a {brace}"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert isinstance(error, EventError)
    assert isinstance(error, ParseError)


DTD = "<!DOCTYPE a SYSTEM 'a.dtd'>"


@pytest.mark.parametrize(
    "document",
    [
        "<a>1&nbsp;2</a>",
        f"{DTD}<a>1&nbsp;2</a>",
        f"{DTD}<a x='&nbsp;'>12</a>",
        "<!DOCTYPE a SYSTEM 'a' [<!ENTITY e '&nbsp;'>]><a>1&e;2</a>",
        "<!DOCTYPE a SYSTEM 'a' [<!ENTITY e '&nbsp;'>]><a x='&e;'>12</a>",
        "<!DOCTYPE a SYSTEM 'a' [<!ENTITY e '<b x=\"&nbsp;\"/>'>]><a>12&e;</a>",
        "<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><a>1&e;2</a>",
    ],
)
def test_undefined_and_external_entities_are_skipped_or_refused(document: str) -> None:
    assert texts(document, SKIPPING) == ["12"]
    with pytest.raises(XmlError, match=r"undefined entity|not fetched"):
        signals(document)


def test_entity_bombs_are_refused() -> None:
    bomb = f"<!DOCTYPE a [<!ENTITY e0 'x'>{BOMB}]><a>&e39;</a>"
    with pytest.raises(XmlError, match="entity 'e17' expands to more than"):
        signals(bomb)
    silent = bomb.replace("'x'", "''")
    with pytest.raises(XmlError, match="max_entity_expansion"):
        signals(silent)


def test_many_references_to_a_long_entity_are_refused() -> None:
    document = f"<!DOCTYPE a [<!ENTITY e '{'x' * 1000}'>]><a>{'&e;' * 1000}</a>"
    assert len(texts(document)[0]) == 1_000_000
    with pytest.raises(XmlError, match="entities expand to more than 100000 bytes"):
        signals(document, Options(max_entity_expansion=100_000))


def test_entities_within_themselves_are_refused() -> None:
    with pytest.raises(XmlError, match="recursive"):
        signals("<!DOCTYPE a [<!ENTITY e '&f;'><!ENTITY f '&e;&e;'>]><a>&e;</a>")
    chain = "".join(f'<!ENTITY e{i} "&e{i + 1};">' for i in range(5000))
    with pytest.raises(XmlError, match="too many entities within each other"):
        signals(f"<!DOCTYPE a [{chain}]><a>&e0;</a>")


def test_depth_and_size_have_limits() -> None:
    assert len(signals("<a><a/></a>", Options(max_depth=2))) == 4
    with pytest.raises(XmlError, match="max_depth") as caught:
        signals("<a><a><a/></a></a>", Options(max_depth=2))
    assert caught.value.column == 7
    with pytest.raises(XmlError, match="max_document_bytes"):
        signals("<a></a>", Options(max_document_bytes=6))
    assert len(signals("<a></a>", Options(max_document_bytes=7))) == 2


def test_only_elements_within_each_other_count_for_the_depth() -> None:
    assert len(signals(f"<a>{'<b/>' * 9}</a>", Options(max_depth=2))) == 20


def test_a_document_may_be_longer_than_what_entities_may_add() -> None:
    assert texts(f"<a>{'x' * 100}</a>", Options(max_entity_expansion=10)) == ["x" * 100]


def test_an_entity_may_be_as_long_as_the_limit() -> None:
    document = "<!DOCTYPE a [<!ENTITY e '12345'>]><a>&e;</a>"
    assert texts(document, Options(max_entity_expansion=5)) == ["12345"]
    with pytest.raises(XmlError, match="entity 'e' expands to more than 4 bytes"):
        signals(document, Options(max_entity_expansion=4))


def test_what_attributes_have_of_entities_counts_too() -> None:
    document = f"<!DOCTYPE a [<!ENTITY e '{'x' * 900}'>]><a x='{'&e;' * 9}'/>"
    assert len(signals(document, Options(max_entity_expansion=10_000))) == 2
    with pytest.raises(XmlError, match="entities expand to more than 1000 bytes"):
        signals(document, Options(max_entity_expansion=1000))


def test_parameter_entities_are_neither_read_nor_taken_for_others() -> None:
    assert len(signals("<!DOCTYPE a [<!ENTITY % p SYSTEM 'p.dtd'>%p;]><a/>")) == 2
    with pytest.raises(XmlError, match="undefined entity 'p'"):
        signals("<!DOCTYPE a SYSTEM 'a.dtd' [<!ENTITY % p 'x'>]><a x='&p;'/>")


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), (" -1.50\n", -1.5), (".5", 0.5), ("5.", 5), ("-.5", -0.5), ("0.1", 0.1)],
)
def test_numbers_are_those_of_xpath(text: str, number: float) -> None:
    assert number_of(text) == number


@pytest.mark.parametrize(
    "text", ["", " ", "1e3", "+1", "1 2", "- 1", ".", "1.2.3", "NaN", "٣", "--1"]
)
def test_other_text_is_no_number(text: str) -> None:
    assert number_of(text) != number_of(text)


def test_leaves_stand_where_a_batch_has_them() -> None:
    vocabulary = vocabulary_of(
        ["a", "b"],
        [
            (Source.ATTRIBUTE, "x", Kind.EXISTS, 0),
            (Source.ATTRIBUTE, "x", Kind.LESS, 3),
            (Source.TEXT, "", Kind.EQUAL, "t"),
            (Source.VALUE, "", Kind.EQUAL, "tu"),
        ],
    )
    exists, less, text, value = (-2 - symbol for symbol in range(3, 7))
    found, depth = coded("<a x='2'>t<b y='1' x='4'>u</b><c/></a>", vocabulary)
    assert found.tolist() == [1, exists, less, text, 2, exists, CLOSE, 0, CLOSE, value, CLOSE]
    assert depth == 2
