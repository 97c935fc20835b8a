"""The common tool for XPath over XML: lxml, which evaluates one expression after the other.

The time of an expression does not depend on the others. So lxml evaluates a sample of the twigs on a
few documents for some seconds, and the time of all twigs is extrapolated. Its matches are compared
with those of an index, twig by twig. Its time can grow with the square of a document, to minutes for
one twig, so it gets shorter documents. Three parsers are timed too: the scanner, expat with callbacks
in Python, and lxml to its tree.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple
from xml.parsers import expat

import numpy as np
import pyarrow as pa

from matchyard.bench.compare.twigs import Shape, n_xml_bytes
from matchyard.bench.rivals.subsets import Disagreement
from matchyard.engine import find_engine
from matchyard.errors import UsageError

_MOST_DOCUMENTS = 4  # of the sample
MOST_BYTES = 100_000  # of a document for lxml
_SAMPLE_S = 10.0  # of evaluation
_PARSED_BYTES = 4_000_000  # of documents for the parsers
_PARSER_PASSES = 3


class Sampled(NamedTuple):
    """The result of lxml on a sample, and the extrapolation to all twigs."""

    rival: str
    documents: int
    document_bytes: float  # on average
    twigs: int  # evaluated on each document
    parse_s: float  # per document
    evaluate_s: float  # per twig and document
    documents_per_s: float  # with all twigs, parsing included


def suitable(shape: Shape) -> Shape:
    """The shape with documents short enough for lxml."""
    if shape.document_bytes is None or shape.document_bytes <= MOST_BYTES:
        return shape
    return Shape(_MOST_DOCUMENTS, MOST_BYTES)


def race(source: Any, n_documents: int, index: Any, sample_s: float = _SAMPLE_S) -> Sampled:
    """Time lxml on a few documents of the workload. A Disagreement is raised if its matches differ
    from the index's."""
    etree = load_lxml()
    documents = source.events(min(n_documents, _MOST_DOCUMENTS))
    parser = etree.XMLParser(huge_tree=True)
    start = time.perf_counter()
    roots = [etree.fromstring(document.as_py(), parser) for document in documents]
    parse_s = (time.perf_counter() - start) / len(roots)
    twigs = source.subscriptions(0, source.size)[0]
    held, seconds = {}, 0.0
    for number in np.random.default_rng(source.seed).permutation(source.size).tolist():
        path = etree.XPath(f"boolean({twigs[number]})")
        start = time.perf_counter()
        held[number] = [bool(path(root)) for root in roots]
        seconds += time.perf_counter() - start
        if seconds > sample_s:
            break
    _check(held, index.match(documents).to_lists(), twigs)
    evaluate_s = seconds / (len(held) * len(roots))
    return Sampled(
        "lxml", len(roots), n_xml_bytes(documents) / len(roots), len(held), parse_s, evaluate_s,
        1 / (parse_s + evaluate_s * source.size),
    )  # fmt: skip


def _check(held_by_twig: dict[int, list[bool]], matches: list[list[int]], twigs: pa.Array) -> None:
    """Raise a Disagreement unless these are the index's matches; keys are numbers of twigs."""
    for document, keys in enumerate(map(set, matches)):
        for number, held in held_by_twig.items():
            if held[document] != (number in keys):
                raise Disagreement(
                    f"document {document}, twig {twigs[number]}: lxml says {held[document]}"
                )


def parser_speeds(source: Any) -> dict[str, float]:
    """Megabytes per second by parser, the fastest of some passes over the same documents."""
    etree, encoder = load_lxml(), find_engine("twigs").encoder
    each = n_xml_bytes(source.events(1))
    documents = source.events(max(1, _PARSED_BYTES // each))
    staging = encoder.Staging()
    some = source.subscriptions(0, min(1000, source.size))
    staging.add(encoder.subscription_column(some[0], encoder.Options()), some[1])
    vocabulary = staging.take()[1]
    parser = etree.XMLParser(huge_tree=True)

    column = encoder.column(documents, encoder.Options(parser="scan"))
    texts = documents.to_pylist()
    jobs = {
        "scan": lambda: encoder.encode(column, vocabulary),
        "expat with Python callbacks": lambda: [_read_with_callbacks(text) for text in texts],
        "lxml to a tree": lambda: [etree.fromstring(text, parser) for text in texts],
    }
    n_bytes = sum(map(len, texts))
    return {name: n_bytes / _fastest(job) / 1e6 for name, job in jobs.items()}


def _read_with_callbacks(document: bytes) -> list[str | None]:
    """The tags of a document, with None for a closing tag."""
    parser, tags = expat.ParserCreate(), []
    parser.StartElementHandler = lambda name, attributes: tags.append(name)
    parser.EndElementHandler = lambda name: tags.append(None)
    parser.Parse(document, True)
    return tags


def _fastest(job: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(_PARSER_PASSES):
        start = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def load_lxml() -> Any:
    """Import lxml's module for parsing and evaluation."""
    try:
        from lxml import etree
    except ImportError:
        raise UsageError("this rival needs lxml: pip install lxml") from None
    return etree
