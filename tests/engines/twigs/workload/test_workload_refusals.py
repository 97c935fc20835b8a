"""Workloads that cannot be: parameters that make no sense, definitions without documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import matchyard as my
from matchyard.engines.twigs.workload import generate


@pytest.mark.parametrize(
    ("name", "size", "parameters", "message"),
    [
        ("hem", 10, {}, "no twigs workload 'hem'; expected one of: dblp, dtd, docbook"),
        ("dblp", 0, {}, "at least one"),
        ("dblp", 10, {"length": 5}, "no parameter 'length'"),
        ("dblp", 10, {"nodes": 5.5}, "'nodes' takes int, not 5.5"),
        ("dblp", 10, {"nodes": True}, "'nodes' takes int"),
        ("dblp", 10, {"distinct": 1}, "'distinct' takes bool"),
        ("dblp", 10, {"nodes": 6}, "3 splits need 7 nodes"),
        ("dblp", 10, {"nodes": 0}, "'nodes' must be at least 1"),
        ("dblp", 10, {"splits": -1}, "'splits' must be"),
        ("dblp", 10, {"max_children": 1}, "needs two children"),
        ("dblp", 10, {"wildcard": 1.5}, "'wildcard' is a share"),
        ("dblp", 10, {"max_depth": 2}, "a depth of 3"),
        ("dblp", 10, {"dtd": "x.dtd"}, "its DTD is built in"),
        ("dtd", 10, {}, "the parameter 'dtd' names the file"),
        ("dtd", 10, {"dtd": "gone.dtd"}, "gone.dtd: no such DTD"),
    ],
)
def test_what_makes_no_sense_is_refused(
    name: str, size: int, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(my.UsageError) as error:
        generate(name, size, parameters=parameters)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        ("<!ELEMENT a EMPTY> <!ELEMENT b EMPTY>", {}, "perhaps one of: a, b"),
        ("<!ELEMENT a EMPTY>", {"root": "c"}, "no element 'c'"),
        ("<!ELEMENT a (a)>", {}, "no document of this DTD ends"),
    ],
)
def test_definitions_without_documents_are_refused(
    tmp_path: Path, text: str, parameters: dict[str, Any], message: str
) -> None:
    (tmp_path / "x.dtd").write_text(text)
    with pytest.raises(my.UsageError, match=message):
        generate("dtd", 50, parameters={"dtd": str(tmp_path / "x.dtd"), **parameters})


def test_twigs_that_do_not_exist_are_refused() -> None:
    few = {"nodes": 1, "splits": 0, "wildcard": 0.0, "descendant": 0.0}
    assert generate("dblp", 1, parameters=few).subscriptions(0, 1)[0].to_pylist() == ["/dblp"]
    with pytest.raises(my.UsageError, match="no other twig with 1 nodes and 0 splits"):
        generate("dblp", 2, parameters=few).subscriptions(0, 1)
    with pytest.raises(my.UsageError, match="no twig with 3 nodes"):
        generate("dblp", 2, parameters={"nodes": 3, "splits": 0, "negations": 1.0}).subscriptions(
            0, 1
        )
