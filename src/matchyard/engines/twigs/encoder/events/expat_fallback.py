"""Encode a document by expat, if the scanner cannot decide on it."""

from __future__ import annotations

from array import array

from matchyard.engines.twigs.encoder.events.value_tests import Values
from matchyard.engines.twigs.encoder.layout import CLOSE, Vocabulary
from matchyard.engines.twigs.language.options import DEFAULTS, Options
from matchyard.engines.twigs.xml.expat import EXAMPLE, signals
from matchyard.errors import XmlError


def encode(
    document: bytes | str, vocabulary: Vocabulary | Values, options: Options = DEFAULTS
) -> tuple[array[int], int]:
    """The signals of a document as numbers, and its depth."""
    values = vocabulary if isinstance(vocabulary, Values) else Values(vocabulary)
    coded = array("i")
    starts: list[int] = []  # of open elements, in `text`
    text: list[str] = []
    depth, room = 0, options.max_value_hits

    def satisfy(leaves: array[int]) -> None:
        nonlocal room
        room -= len(leaves)
        if room < 0:
            raise _too_many_hits(options)
        coded.extend(leaves)

    attributes: list[dict[str, str]]
    for kind, what, *attributes in signals(document, options):
        if kind == "open":
            coded.append(values.symbol(str(what)))
            for name, value in attributes[0].items():
                satisfy(values.leaves_of_attribute(name, value))
            starts.append(len(text))
            depth = max(depth, len(starts))
        elif kind == "text":
            text.append(str(what))
            satisfy(values.leaves_of_text(str(what)))
        else:
            start = starts.pop()
            if values.has_value_tests:
                satisfy(values.leaves_of_value("".join(text[start:])))
            coded.append(CLOSE)
    return coded, depth


def _too_many_hits(options: Options) -> XmlError:
    limit = options.max_value_hits
    return XmlError.of(
        'its attributes and texts satisfy tests of subscriptions {found} (option "max_value_hits")',
        line=1,
        column=1,
        found=f"more than {limit} times",
        expected=f"at most {limit} times",
        example=EXAMPLE,
    )
