"""What documents of a definition consist of: how often, how deep, and where they grow."""

from __future__ import annotations

import pytest

from matchyard.engines.twigs.workload.dtd.content_models import NAME, NEVER, Particles
from matchyard.engines.twigs.workload.dtd.definition import Attribute, read_text


def particles_of(text: str, chances: dict[str, dict[str, float]] | None = None) -> Particles:
    dtd = read_text(text)
    return Particles(dtd, {name: i for i, name in enumerate(dtd.elements)}, chances or {})


def needed_depth(found: Particles) -> int:
    heights, _ = found.heights()
    return found.needed_depth(found.growing(heights), heights)


@pytest.mark.parametrize(
    ("sign", "said", "chance"), [("?", 0.25, 0.25), ("*", 3.0, 0.75), ("+", 4.0, 0.75), ("+", 0.5, 0)]
)  # fmt: skip
def test_a_repetition_goes_on_by_the_chance_that_gives_its_mean(
    sign: str, said: float, chance: float
) -> None:
    text = f"<!ELEMENT a (b{sign})> <!ELEMENT b EMPTY>"
    for chances in ({"a": {"b": said}}, {"": {"b": said}}):
        found = particles_of(text, chances)
        assert found.chance[found.kind.index(NAME)] == chance


def test_an_identifier_of_the_root_is_always_there() -> None:
    found = particles_of("<!ELEMENT a (b)> <!ELEMENT b EMPTY>")
    assert found.chance_of_attribute("a", Attribute("id", "ID", (), False)) == 1
    assert found.chance_of_attribute("b", Attribute("id", "ID", (), False)) < 1
    assert found.chance_of_attribute("a", Attribute("x", "CDATA", (), False)) < 1
    assert found.chance_of_attribute("b", Attribute("x", "CDATA", (), True)) == 1


@pytest.mark.parametrize(
    ("models", "depth"),
    [
        ("<!ELEMENT a EMPTY>", 1),
        ("<!ELEMENT a (b)> <!ELEMENT b EMPTY>", 2),
        ("<!ELEMENT a (b?)> <!ELEMENT b EMPTY>", 1),
        ("<!ELEMENT a (b | c)> <!ELEMENT b (c)> <!ELEMENT c EMPTY>", 2),
        ("<!ELEMENT a (b, c)> <!ELEMENT b (c)> <!ELEMENT c EMPTY>", 3),
        ("<!ELEMENT a (b*)> <!ELEMENT b (c)> <!ELEMENT c EMPTY>", 3),  # it has to grow there
        ("<!ELEMENT a (b?)> <!ELEMENT b (c+)> <!ELEMENT c EMPTY>", 3),
        ("<!ELEMENT a (b?)> <!ELEMENT b (c*)> <!ELEMENT c EMPTY>", 3),
    ],
)
def test_a_document_is_as_deep_as_what_it_must_have(models: str, depth: int) -> None:
    assert needed_depth(particles_of(models)) == depth


def test_what_contains_itself_is_never_completed() -> None:
    heights, _ = particles_of("<!ELEMENT a (b)> <!ELEMENT b (a)>").heights()
    assert heights.min() >= NEVER


@pytest.mark.parametrize(
    ("model", "grows"),
    [
        ("(b*, c*)", "c"),
        ("(c+, b+)", "c"),
        ("(b | c+)", "c"),
        ("(b, c?, b*)", "b"),
        ("(e*, d*)", "e"),  # where one cannot be completed, in the other
    ],
)
def test_a_document_grows_where_most_elements_are_below(model: str, grows: str) -> None:
    found = particles_of(
        f"<!ELEMENT a {model}> <!ELEMENT b EMPTY> <!ELEMENT c (b, e)> <!ELEMENT d (d, b, c, e)>"
        "<!ELEMENT e EMPTY>"
    )
    heights, _ = found.heights()
    path = found.growing(heights)
    assert found.element[path[-1]] == found.ids[grows]
