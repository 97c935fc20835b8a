"""Documents that are skipped match nothing, and `explain` reads documents as `match` does."""

from __future__ import annotations

import io
from typing import Any

import pytest

import matchyard as my
from tests.cases import Case, build
from tests.twig_cases import CASES

# In every document; none of them names anything that has to be there.
ALWAYS = ["/", "not(//x)", "not(//x[y])", "/*", "//*", "not(//x) or //a", "/ | //a", "not(/x/@y)"]
MALFORMED = ["", "<a>", "<a></b>", "<a>&e;</a>", "<a>\ud800</a>", "<a/>junk", b"<a>\xff</a>"]
NONE: list[int] = []
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def index_of(case: Case, rows: list[str], more: dict[str, Any], **settings: Any) -> Any:
    options = {**case.options, "malformed": "skip", **more}
    return build(rows, None, case.algorithm, options, "twigs", **settings)


@every_case
@pytest.mark.parametrize("live", [False, True])
def test_a_document_that_is_skipped_matches_nothing(case: Case, live: bool) -> None:
    index = index_of(case, ALWAYS, {}, live=live)
    index.add("not(//y)", key=100)
    if not live:
        index.consolidate()
    everything = [*range(len(ALWAYS)), 100]
    asked = ["<a/>", *MALFORMED, b"<b/>"]
    expected = [everything, *([NONE] * len(MALFORMED)), everything]
    assert [sorted(keys) for keys in index.match(asked)] == expected
    assert [sorted(keys) for keys in index.match_unique(asked)] == expected
    assert index.match(MALFORMED).work.matches == 0


@every_case
def test_a_record_that_is_skipped_matches_nothing(case: Case) -> None:
    index = index_of(case, ALWAYS, {})
    file = io.BytesIO(b"<all><r/><r>&e;</r><r><r></q></r></r><r>1</r></all>")
    found = [matches.to_lists() for _, matches in index.match_records(file, "r", batch_bytes=1)]
    everything = list(range(len(ALWAYS)))
    assert [sorted(keys) for [keys] in found] == [everything, NONE, NONE, everything]


def test_what_passes_a_limit_is_skipped_too() -> None:
    index = my.TwigIndex(options={"malformed": "skip", "max_depth": 1}).add("/", key=1)
    index.consolidate()
    assert index.match(["<a/>", "<a><b/></a>"]).to_lists() == [[1], []]
    assert index.explain("<a><b/></a>", key=1) == (
        "no match: skipped, line 1, column 4: "
        'more than 1 elements in each other (option "max_depth")'
    )


@pytest.mark.parametrize("parser", ["scan", "expat"])
def test_a_document_that_is_skipped_is_explained_by_what_is_wrong(parser: str) -> None:
    index = my.TwigIndex(options={"malformed": "skip", "parser": parser})
    index.add("/", key=1).add("//a", key=1).consolidate()
    said = "no match: skipped, line 1, column 4: no element found"
    assert index.explain("<a>", key=1) == f"/*: {said}\n//a: {said}"
    assert index.parse_event("<a>") == "<a>"
    index.check(["<a>"])


OPTIONS = [
    ({"undefined_entities": "skip"}, "<a>&e;</a>"),
    ({"max_depth": 600}, "<a>" * 600 + "</a>" * 600),
    (
        {"max_entity_expansion": 1 << 21},
        f"<!DOCTYPE a [<!ENTITY e '{'x' * 99_999}'>]><a>{'&e;' * 20}</a>",
    ),
]


@pytest.mark.parametrize("parser", ["scan", "expat"])
@pytest.mark.parametrize(("options", "document"), OPTIONS, ids=[next(iter(o)) for o, _ in OPTIONS])
def test_an_explanation_obeys_the_options(
    options: dict[str, Any], document: str, parser: str
) -> None:
    index = my.TwigIndex(options={**options, "parser": parser}).add("/a", key=1).consolidate()
    assert index.match([document]).to_lists() == [[1]]
    assert index.explain(document, key=1) == "match: /a: /a (line 1)"
    assert index.parse_event(document) == document
    strict = my.TwigIndex(options={"parser": parser}).add("/a", key=1).consolidate()
    for refuse in (strict.explain, strict.match):
        with pytest.raises(my.ParseError, match=r"^document 0 at line 1, column \d+: "):
            refuse(document, 1)


def test_an_explanation_obeys_the_limit_on_bytes() -> None:
    index = my.TwigIndex(options={"max_document_bytes": 4}).add("/a", key=1).consolidate()
    assert index.explain("<a/>", key=1) == "match: /a: /a (line 1)"
    with pytest.raises(my.ParseError, match="max_document_bytes"):
        index.explain("<a />", key=1)
