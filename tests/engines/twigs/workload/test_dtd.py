"""Document type definitions: content models, attributes, entities, included files and sections."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import matchyard as my
from matchyard.engines.twigs.workload import dblp
from matchyard.engines.twigs.workload.dtd.definition import (
    Attribute,
    Dtd,
    Particle,
    read_file,
    read_text,
)

needs_data = pytest.mark.skipif("MATCHYARD_DATA" not in os.environ, reason="needs MATCHYARD_DATA")


def named(name: str, occurs: str = "") -> Particle:
    return Particle("name", name, (), occurs)


@pytest.mark.parametrize(
    ("model", "kind", "parts", "occurs"),
    [
        ("(b)", "sequence", (named("b"),), ""),
        ("( b , c? )*", "sequence", (named("b"), named("c", "?")), "*"),
        ("(b | c+)?", "choice", (named("b"), named("c", "+")), "?"),
        (
            "(b,(c|d*)+)",
            "sequence",
            (named("b"), Particle("choice", "", (named("c"), named("d", "*")), "+")),
            "",
        ),
    ],
)
def test_content_models_are_trees_of_particles(
    model: str, kind: str, parts: tuple[Particle, ...], occurs: str
) -> None:
    element = read_text(f"<!ELEMENT a {model}>").elements["a"]
    assert element.content == "children"
    assert element.model == Particle(kind, "", parts, occurs)


@pytest.mark.parametrize(
    ("model", "content", "names"),
    [
        ("EMPTY", "EMPTY", ()),
        ("ANY", "ANY", ()),
        ("(#PCDATA)", "mixed", ()),
        ("( #PCDATA )*", "mixed", ()),
        ("(#PCDATA | b | c)*", "mixed", ("b", "c")),
        ("(#PCDATA | b | c | b)*", "mixed", ("b", "c")),
    ],
)
def test_content_may_be_empty_anything_or_mixed(
    model: str, content: str, names: tuple[str, ...]
) -> None:
    element = read_text(f"<!ELEMENT a {model}>").elements["a"]
    assert (element.content, element.names, element.model) == (content, names, None)


def test_children_are_those_that_are_declared() -> None:
    dtd = read_text("<!ELEMENT a (b | c)*> <!ELEMENT b ANY> <!ELEMENT d EMPTY>")
    assert dtd.children("a") == ["b"]
    assert dtd.children("b") == ["a", "b", "d"]
    assert dtd.children("d") == []
    assert read_text("<!ELEMENT a (c, b?, c+)>").elements["a"].names == ("c", "b")


def test_tops_are_named_in_no_other_element() -> None:
    dtd = read_text("<!ELEMENT a (b)> <!ELEMENT b (b?, d)> <!ELEMENT c (c | b)> <!ELEMENT d ANY>")
    assert dtd.tops() == ["a", "c"]


def test_attributes_have_kinds_and_the_first_declaration_holds() -> None:
    dtd = read_text(
        """<!ELEMENT a EMPTY>
        <!ATTLIST a id ID #IMPLIED  kind (x | y|z) "x"
                    name CDATA #REQUIRED  fixed CDATA #FIXED 'a > b'>
        <!ATTLIST a id CDATA #REQUIRED  of NOTATION (gif|png) #IMPLIED>
        <!ATTLIST unknown b CDATA #IMPLIED>"""
    )
    assert dtd.elements["a"].attributes == (
        Attribute("id", "ID", (), False),
        Attribute("kind", "choice", ("x", "y", "z"), False),
        Attribute("name", "CDATA", (), True),
        Attribute("fixed", "CDATA", (), False),
        Attribute("of", "NOTATION", ("gif", "png"), False),
    )
    assert list(dtd.elements) == ["a"]


def test_parameter_entities_are_replaced_and_the_first_declaration_holds() -> None:
    dtd = read_text(
        """<?xml version="1.0"?> <!-- <!ELEMENT no EMPTY> -->
        <!ENTITY % more "| d"> <!ENTITY % more "| e"> <!ENTITY general "text">
        <!ENTITY % inner "b | c %more;">
        <!ENTITY % name 'a'>
        <!ENTITY % whole "&#60;!ELEMENT x (%inner;)*&#x3e;">
        <!ELEMENT %name; (%inner;)+>
        %whole;
        <!NOTATION gif SYSTEM "gif">"""
    )
    assert dtd.elements["a"].names == ("b", "c", "d")
    assert dtd.elements["x"].names == ("b", "c", "d")
    assert list(dtd.elements) == ["a", "x"]


def test_sections_are_taken_or_left() -> None:
    dtd = read_text(
        """<!ENTITY % yes "INCLUDE"> <!ENTITY % no "IGNORE">
        <![%yes;[ <!ELEMENT a EMPTY> <![ INCLUDE [<!ELEMENT b EMPTY>]]> <!ELEMENT c EMPTY> ]]>
        <![ %no; [ <!ELEMENT d EMPTY> <![INCLUDE[ <!ELEMENT e EMPTY> ]]> <!ELEMENT f EMPTY> ]]>
        <!ELEMENT g EMPTY>"""
    )
    assert list(dtd.elements) == ["a", "b", "c", "g"]


def test_files_are_included_by_relative_paths_and_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "main.dtd").write_text(
        """<!ENTITY % one PUBLIC "-//X" "parts/one.mod"> %one;
        <!ENTITY % away SYSTEM "http://localhost:1/away.dtd"> %away;
        <!ENTITY % gone SYSTEM "gone.mod"> %gone;
        <!ENTITY % link SYSTEM "link.mod"> %link;
        <!ENTITY % secret SYSTEM "/etc/hostname"> %secret;
        <!ELEMENT last EMPTY>"""
    )
    (tmp_path / "link.mod").write_text("../elsewhere/link.mod")
    (tmp_path / "parts" / "one.mod").write_text(
        '<!ENTITY % two SYSTEM "two.mod"> %two; <!ELEMENT one EMPTY>'
    )
    (tmp_path / "parts" / "two.mod").write_text("<!ELEMENT two EMPTY>")
    dtd = read_file(tmp_path / "main.dtd")
    assert list(dtd.elements) == ["two", "one", "last"]
    assert dtd.missing == (
        "http://localhost:1/away.dtd", "gone.mod", "link.mod", "/etc/hostname"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n <!ELEMENT a (b>", "DTD, line 2, column 16: syntax error: <!ELEMENT a (b>"),
        ("\n what", "line 2, column 2: syntax error: what"),
        ("\n\n<!ELEMENT a EMPTY", "line 3, column 18: incomplete markup"),
        ("<!THING a>", "syntax error: <!THING a>"),
        ("<!ELEMENT>", "not well-formed (invalid token): <!ELEMENT>"),
        ("%x;", "%x; is not declared"),
        ("<!ELEMENT a %x;>", "syntax error (perhaps an entity that is not declared)"),
        ('<!ENTITY % a "%x;"> <!ELEMENT b EMPTY>', "DTD: refers to a parameter entity"),
        (
            "<!ELEMENT a EMPTY> <!ATTLIST a %x; b CDATA #IMPLIED>",
            "DTD: refers to a parameter entity",
        ),
        ("<!-- a", "unclosed token: <!-- a"),
        ("<![MAYBE[ ]]>", "column 4: syntax error: <![MAYBE[ ]]>"),
        ("<![INCLUDE[ <!ELEMENT a EMPTY>", "incomplete markup"),
        ("<![IGNORE[ <![INCLUDE[ ]]>", "syntax error: <![IGNORE["),
        ("<!ELEMENT a (b, c | d)>", "column 19: syntax error"),
        ("<!ELEMENT a (b,)>", "column 16: syntax error"),
        ("<!ELEMENT a (b) c>", "column 17: syntax error"),
        ("<!ELEMENT a b>", "column 13: syntax error"),
        ("<!ELEMENT a EMPTY> <!ATTLIST a b CDATA>", "column 39: syntax error"),
        ("<!ENTITY % a>", "column 13: syntax error"),
        ('<!ENTITY % a "&#37;a;"> %a;', "column 25: recursive entity reference"),
        ('<!ENTITY % a "&#37;a;"> <!ELEMENT b (%a;)>', "recursive entity reference"),
    ],
)
def test_what_is_no_definition_is_refused(text: str, message: str) -> None:
    with pytest.raises(my.UsageError) as error:
        read_text(text)
    assert message in str(error.value)


def test_entities_that_become_too_long_are_refused() -> None:
    doubled = "".join(f'<!ENTITY % a{i} "%a{i - 1};%a{i - 1};">' for i in range(1, 40))
    with pytest.raises(my.UsageError, match="limit on input amplification"):
        read_text(f'<!ENTITY % a0 "0123456789">{doubled}')


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(my.UsageError, match="no such DTD"):
        read_file(tmp_path / "x.dtd")


def docbook() -> Path:
    return Path(os.environ["MATCHYARD_DATA"], "xml", "docbook-dtd", "docbookx.dtd")


@pytest.mark.data
@needs_data
def test_docbook_is_read() -> None:
    dtd = read_file(docbook())
    assert len(dtd.elements) == 406
    assert dtd.tops() == ["set"]
    assert dtd.children("itemizedlist")[-1] == "listitem"
    assert {one.name: one.is_required for one in dtd.elements["xref"].attributes}["linkend"]
    assert all(name in dtd.elements for one in dtd.elements.values() for name in one.names)
    assert "dbgenent.mod" in dtd.missing  # a link that leads nowhere


def attribute_names(dtd: Dtd) -> dict[str, set[str]]:
    return {
        element.name: {one.name for one in element.attributes} for element in dtd.elements.values()
    }


def test_lxml_finds_the_same_elements_and_attributes(tmp_path: Path) -> None:
    etree = pytest.importorskip("lxml.etree")
    (tmp_path / "dblp.dtd").write_text(dblp.TEXT)
    other = etree.DTD(str(tmp_path / "dblp.dtd"))
    assert attribute_names(read_file(tmp_path / "dblp.dtd")) == {
        element.name: {one.name for one in element.iterattributes()}
        for element in other.iterelements()
    }


def test_a_definition_that_would_crash_expat_is_refused() -> None:
    deep = "<!ELEMENT a " + "(" * 200_000 + "b" + ")" * 200_000 + ">"
    with pytest.raises(my.UsageError, match="more than 500 groups within each other"):
        read_text(deep)
    chain = "".join(f'<!ENTITY % e{i} "&#37;e{i - 1};">' for i in range(1, 30_000))
    with pytest.raises(my.UsageError, match="more than 20000 entities"):
        read_text(chain)


def test_a_definition_may_have_an_entity_of_any_name() -> None:
    text = '<!ENTITY % definition "<!ELEMENT y EMPTY>"> %definition; <!ELEMENT x (y)>'
    assert {"x", "y"} <= set(read_text(text).elements)


def test_an_error_after_an_xml_declaration_names_its_own_line() -> None:
    with pytest.raises(my.UsageError, match="line 3"):
        read_text('<?xml version="1.0"\n encoding="UTF-8"?>\n<!ELEMENT x (y>')
