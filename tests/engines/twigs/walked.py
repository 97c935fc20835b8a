"""Generated twigs as trees, and documents judged by their definition: what tests compare with."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from xml.etree import ElementTree

from matchyard.engines.twigs.workload.dtd.definition import Dtd, Particle

_TOKEN = re.compile(r"\[not\(|\)\]|\[|\]|\.?//?|[\w:.-]+|\*|(?=$)")
_TEST = re.compile(r"\[(?:@[\w:]+|\.(?= ))(?: (?:=|<|>=) (?:\"[^\"]*\"|\d+))?\]")

_XML = "{http://www.w3.org/XML/1998/namespace}"


class Step(NamedTuple):
    """A node of a generated twig."""

    axis: str  # "/" or "//"
    name: str
    is_negated: bool
    children: tuple[Step, ...]

    def all(self) -> list[Step]:
        """The node and all below it."""
        return [self, *(step for child in self.children for step in child.all())]


def steps_of(twig: str) -> Step:
    """A generated twig as a tree, without its tests of values."""
    tokens = _TOKEN.findall(_TEST.sub("", twig))
    step, rest = _step(tokens[0], tokens[1:], False)
    assert rest == [""], twig
    return step


def values_tested(twig: str) -> list[str]:
    """The tests of values in a generated twig."""
    return _TEST.findall(twig)


def _step(axis: str, tokens: list[str], is_negated: bool) -> tuple[Step, list[str]]:
    name, tokens = tokens[0], tokens[1:]
    children = []
    while tokens[0] in ("[", "[not("):
        is_child_negated = tokens[0] == "[not("
        inner = "//" if tokens[1] == ".//" else "/"
        child, tokens = _step(inner, tokens[1 + (inner == "//") :], is_child_negated)
        assert tokens[0] == (")]" if is_child_negated else "]")
        children.append(child)
        tokens = tokens[1:]
    if tokens[0] in ("/", "//"):
        child, tokens = _step(tokens[0], tokens[1:], False)
        children.append(child)
    return Step(axis, name, is_negated, tuple(children)), tokens


def is_match(twig: Step, root: ElementTree.Element) -> bool:
    """Is the twig in the document?"""
    return any(_holds(twig, one) for one in ([root] if twig.axis == "/" else root.iter()))


def _holds(step: Step, element: ElementTree.Element) -> bool:
    return step.name in ("*", element.tag) and all(
        _has(child, element) != child.is_negated for child in step.children
    )


def _has(child: Step, element: ElementTree.Element) -> bool:
    if child.axis == "/":
        return any(_holds(child, one) for one in element)
    return any(_holds(child, one) for one in element.iter() if one is not element)


def faults(dtd: Dtd, root: ElementTree.Element) -> list[str]:
    """What in a document is not as its definition says."""
    found = []
    for element in root.iter():
        declared = dtd.elements[element.tag]
        inside = "".join(f"<{child.tag}>" for child in element)
        if declared.model:
            pattern = _pattern(declared.model)
        else:
            pattern = f"({'|'.join(f'<{name}>' for name in dtd.children(element.tag))})*"
        has_text = any(text and text.strip() for text in _texts(element))
        is_text_allowed = declared.content in ("mixed", "ANY")
        if not re.fullmatch(pattern, inside) or (has_text and not is_text_allowed):
            found.append(f"<{element.tag}> has {inside}")
        known = {attribute.name: attribute for attribute in declared.attributes}
        given = {name.replace(_XML, "xml:"): value for name, value in element.attrib.items()}
        found += [f"{element.tag}@{name}" for name in given if name not in known]
        for name, attribute in known.items():
            value: Any = given.get(name)
            is_wrong = value is None if attribute.is_required else False
            if is_wrong or (value and attribute.values and value not in attribute.values):
                found.append(f"{element.tag}@{name} is {value}")
    return found


def _texts(element: ElementTree.Element) -> list[str | None]:
    return [element.text, *(child.tail for child in element)]


def _pattern(part: Particle) -> str:
    if part.kind == "name":
        return f"(<{re.escape(part.name)}>){part.occurs}"
    joined = ("|" if part.kind == "choice" else "").join(map(_pattern, part.parts))
    return f"({joined}){part.occurs}"


def depth_of(element: ElementTree.Element) -> int:
    """Elements within each other."""
    return 1 + max(map(depth_of, element), default=0)
