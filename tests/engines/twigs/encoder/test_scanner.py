"""The scanner agrees with expat on every document: on what is refused, and on signals."""

from __future__ import annotations

import os
import random
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from matchyard.engines.twigs.encoder.events import expat_fallback
from matchyard.engines.twigs.encoder.events.value_tests import Values
from matchyard.engines.twigs.encoder.layout import Vocabulary
from matchyard.engines.twigs.encoder.scanner import scanner
from matchyard.engines.twigs.language.model import Comparison as Kind
from matchyard.engines.twigs.language.model import Source
from matchyard.engines.twigs.language.options import Options
from matchyard.errors import XmlError
from tests.engines.twigs.xml_cases import (
    NAMES,
    PIECES,
    all_tests,
    document_of,
    mutated,
    vocabulary_of,
)

TAGS = vocabulary_of(NAMES[:7])
TESTS = vocabulary_of(NAMES[:7], all_tests())
SKIPPING = Options(undefined_entities="skip", max_depth=8)
REFUSING = Options(max_depth=8)


def scan(documents: Sequence[bytes], vocabulary: Vocabulary, options: Options) -> scanner.Scanned:
    return scanner.scan(*scanner.joined(list(documents)), vocabulary, options)


def compare(documents: Sequence[bytes], vocabulary: Vocabulary, options: Options) -> list[int]:
    """Assert that the scanner agrees with expat; returns its depths and codes."""
    scanned = scan(documents, vocabulary, options)
    values = Values(vocabulary)
    for i, document in enumerate(documents):
        try:
            signals, levels = expat_fallback.encode(document, values, options)
            expected = (signals.tolist(), levels)
        except XmlError:
            expected = None
        found = scanned.signals[scanned.signal_start[i] : scanned.signal_start[i + 1]].tolist()
        depth = int(scanned.depth[i])
        if depth >= 0:
            assert (found, depth) == expected, document
        else:
            assert found == []
            assert depth == scanner.ASK or (depth == scanner.REFUSED and expected is None), document
    return scanned.depth.tolist()


def random_documents(seed: int, n_documents: int) -> list[bytes]:
    pick = random.Random(seed)
    documents = [document_of(pick) for _ in range(n_documents)]
    return [document if pick.random() < 0.2 else mutated(pick, document) for document in documents]


@pytest.mark.parametrize("options", [SKIPPING, REFUSING], ids=["skipping", "refusing"])
@pytest.mark.parametrize("vocabulary", [TAGS, TESTS], ids=["tags", "tests"])
def test_mutated_documents_are_read_as_by_expat(options: Options, vocabulary: Vocabulary) -> None:
    found = compare(random_documents(1, 500), vocabulary, options)
    assert sum(depth > 0 for depth in found) > 100
    assert sum(depth == scanner.REFUSED for depth in found) > 100


@pytest.mark.slow
@pytest.mark.parametrize("options", [SKIPPING, REFUSING], ids=["skipping", "refusing"])
@pytest.mark.parametrize("vocabulary", [TAGS, TESTS], ids=["tags", "tests"])
def test_many_mutated_documents_are_read_as_by_expat(
    options: Options, vocabulary: Vocabulary
) -> None:
    for seed in range(2, 8):
        compare(random_documents(seed, 2000), vocabulary, options)


WHOLE = (
    b'\xef\xbb\xbf<?xml version="1.0"?><!-- c --><a x="1&lt;\xc3\xa4" y=\'2\'><b/>t]&#65;\r\n'
    b"<![CDATA[<]]><?p i?><Name.of-21_letters:x></Name.of-21_letters:x ></a>\n<!-- e -->"
)


@pytest.mark.parametrize("vocabulary", [TAGS, TESTS], ids=["tags", "tests"])
def test_a_document_cut_anywhere_and_with_anything_put_anywhere(vocabulary: Vocabulary) -> None:
    cut = [WHOLE[:i] for i in range(len(WHOLE) + 1)]
    changed = [
        WHOLE[:i] + piece.encode() + WHOLE[i:] for i in range(len(WHOLE) + 1) for piece in PIECES
    ]
    found = compare(cut + changed, vocabulary, REFUSING)
    assert found[len(WHOLE)] == 2


@pytest.mark.parametrize("byte", range(256))
def test_every_byte_in_every_context(byte: int) -> None:
    one = bytes([byte])
    contexts = (b"<a>%s</a>", b"<a%s/>", b"<%s/>", b"<a x='%s'/>", b"<a><!--%s--></a>", b"%s<a/>")
    contexts += (b"<a><?p %s?></a>", b"<a><![CDATA[%s]]></a>", b"<a>&%s;</a>", b"<a>&#%s;</a>")
    contexts += (b"<!DOCTYPE a PUBLIC '%s' ''><a/>", b"<!DOCTYPE a SYSTEM '%s'><a/>", b"<a/>%s")
    compare([context % one for context in contexts], TAGS, REFUSING)


def test_characters_beyond_ascii_and_what_is_none() -> None:
    heads = [0x7F, 0x80, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF]
    tails = [0x20, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBD, 0xBE, 0xBF, 0xC0]
    pieces = [bytes([head]) for head in heads]
    for _ in range(3):
        pieces += [piece + bytes([tail]) for piece in pieces[-1000:] for tail in tails]
    compare([b"<a>%s</a>" % piece for piece in pieces], TAGS, REFUSING)


def test_names_of_all_lengths_in_all_places_of_the_buffer() -> None:
    names = ["n" * length for length in range(1, 70)]
    documents = [f"<{name} {name}=''><{name}/>{name}</{name}>".encode() for name in names]
    wrong = [f"<{name}></{name[:-1]}m>".encode() for name in names]
    vocabulary = vocabulary_of(names[::2])
    for document in documents + wrong:
        compare([document], vocabulary, REFUSING)
    assert all(depth == 2 for depth in compare(documents, vocabulary, REFUSING))


def test_names_that_share_a_slot_of_the_cache() -> None:
    names = [f"n{i}" for i in range(5000)]
    document = "".join(["<r>", *(f"<{name}><x></x></{name}>" for name in names * 2), "</r>"])
    compare([document.encode()], vocabulary_of(names[::3]), REFUSING)


def test_what_the_scanner_decides_itself() -> None:
    documents = [
        "<a>&e;</a>",
        "<!DOCTYPE a SYSTEM 'a.dtd'><a>&e;</a>",
        "<!DOCTYPE a [<!ENTITY e 'x'>]><a y='&e;'>&e;</a>",
        "<!DOCTYPE a [<!ENTITY e '<b>&f;</b>'><!ENTITY f 'y<c/>'>]><a>x&e;y</a>",
        "<!DOCTYPE a [<!ENTITY e SYSTEM 'e.xml'>]><a>&e;</a>",
    ]
    encoded = [document.encode() for document in documents]
    assert compare(encoded, TESTS, SKIPPING) == [1, 1, 1, 3, 1]
    others = [
        "<ä/>".encode(),
        "<a/>".encode("utf-16"),
        b"<!DOCTYPE a [<!ATTLIST a x CDATA 'y'>]><a/>",
        b"<!DOCTYPE a [<!ENTITY e SYSTEM 'e.xml'>]><a x='&e;'/>",
        b"<!DOCTYPE a [<!ENTITY e '</a><a>'>]><a>&e;</a>",
        b"<a>12345678901234567890</a>",
    ]
    assert compare(others, TESTS, SKIPPING) == [scanner.ASK] * len(others)


def test_entities_are_expanded_as_by_expat() -> None:
    tests = [(Source.TEXT, "", Kind.EQUAL, text) for text in ("x", "z\rz", "z\nz", "y", "]]>")]
    tests += [(Source.ATTRIBUTE, "x", Kind.EQUAL, text) for text in ("x", "z z", "z\rz", "]]>")]
    vocabulary = vocabulary_of(["a", "b"], tests)
    declared = (
        "<!ENTITY e 'x'><!ENTITY e 'y'>", "<!ENTITY e 'z&#13;z'>", "<!ENTITY e '<b>z&#13;z</b>'>",
        "<!ENTITY e ']]>'>", "<!ENTITY e ']]&#62;'>", "<!ENTITY e 'x&undefined;'>",
        "<!ENTITY e '&e;&e;'>", "<!ENTITY e '&f;'><!ENTITY f '&e;<b/>&e;'>", "<!ENTITY % e 'y'>",
    )  # fmt: skip
    documents = [
        f"<!DOCTYPE a [{entities}]>{content}".encode()
        for entities in declared
        for content in ("<a>&e;</a>", "<a x='&e;'/>", "<a><b>&e;</b><b/>&e;</a>")
    ]
    for options in (SKIPPING, REFUSING):
        compare(documents, vocabulary, options)
    assert compare(documents[:3], vocabulary, REFUSING) == [1, 1, 2]


def test_texts_of_all_lengths_are_compared_with() -> None:
    operands = ["x" * length for length in range(140)]
    tests = [
        (source, name, Kind.EQUAL, text)
        for source, name in ((Source.TEXT, ""), (Source.VALUE, ""), (Source.ATTRIBUTE, "x"))
        for text in operands[::3]
    ]
    documents = [f"<a x='{text}'>{text}<b/></a>".encode() for text in operands]
    assert compare(documents, vocabulary_of(["a"], tests), REFUSING) == [2] * len(documents)


def test_entities_pass_their_limit_only_with_expat() -> None:
    document = b"<!DOCTYPE a [<!ENTITY e '12345'><!ENTITY f '<b>abcdefghij</b>'>]><a>%s</a>"
    options = Options(max_entity_expansion=40)
    for reference in (b"&e;", b"&f;"):
        for n_references in (*range(12), 60, 200):
            [found] = compare([document % (reference * n_references)], TESTS, options)
            assert found < 0 or n_references < 60


def test_more_leaves_than_there_was_room_for() -> None:
    tests = [(Source.ATTRIBUTE, "x", Kind.UNEQUAL, str(i)) for i in range(300)]
    vocabulary = vocabulary_of(["a"], tests)
    documents = [b"<b/>", b"<a>" + b"<a x='7'/>" * 20 + b"</a>", b"<b/>", b"<a x='x'/>"]
    assert compare(documents, vocabulary, REFUSING) == [1, 2, 1, 1]


def test_more_attributes_than_there_is_room_for() -> None:
    many = " ".join(f"a{i}='{i}'" for i in range(100))
    documents = [f"<a {many}/>".encode(), f"<a {many} a5=''/>".encode()]
    assert compare(documents, TAGS, REFUSING) == [scanner.ASK, scanner.ASK]


def test_there_may_be_no_documents_at_all() -> None:
    assert compare([], TAGS, REFUSING) == []


def handbooks(step: int) -> list[bytes]:
    path = Path(os.environ.get("MATCHYARD_DATA", "missing")) / "xml" / "kde_docbook.tar.xz"
    if not path.exists():
        pytest.skip("needs MATCHYARD_DATA")
    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if member.isfile()][::step]
        return [archive.extractfile(member).read() for member in members]  # type: ignore[union-attr]


HANDBOOK = vocabulary_of(
    ["book", "chapter", "para", "title", "sect1", "guimenu", "menuchoice", "application"],
    [
        (Source.ATTRIBUTE, "id", Kind.EXISTS, 0),
        (Source.ATTRIBUTE, "lang", Kind.EQUAL, ""),
        (Source.TEXT, "", Kind.EQUAL, "KDE"),
        (Source.VALUE, "", Kind.MORE, 2004),
    ],
)


def check_handbooks(step: int) -> None:
    options = Options(undefined_entities="skip")
    documents = handbooks(step)
    found = compare(documents, HANDBOOK, options)
    assert sum(depth < 0 for depth in found) <= 0.03 * len(documents)


@pytest.mark.data
def test_some_handbooks_are_read_as_by_expat() -> None:
    check_handbooks(40)


@pytest.mark.data
@pytest.mark.slow
def test_all_handbooks_are_read_as_by_expat() -> None:
    check_handbooks(1)
