"""The options for reading twigs and documents, the same for every algorithm."""

from __future__ import annotations

from typing import NamedTuple

from matchyard.engines.twigs.language.normal_form import MAX_TREES
from matchyard.errors import UsageError

SCAN, EXPAT = "scan", "expat"
SKIP, REFUSE = "skip", "refuse"
_MOST_LEVELS = 1 << 16  # readers reserve memory for `max_depth` levels
_CHOICES = {
    "parser": (SCAN, EXPAT),
    "undefined_entities": (SKIP, REFUSE),
    "malformed": (SKIP, REFUSE),
}
_LEAST = {
    "max_depth": 1,
    "max_document_bytes": 1,
    "max_entity_expansion": 0,
    "max_value_hits": 0,
    "max_trees": 1,
}


class Options(NamedTuple):
    """Options for reading twigs and documents."""

    max_trees: int = MAX_TREES  # that one twig may be expanded to
    parser: str = SCAN  # or expat, which is slower; it also reads what the scanner cannot
    max_depth: int = 512  # elements within each other
    max_document_bytes: int = 1 << 30
    max_entity_expansion: int = 1 << 20  # bytes that entities may add to a document
    max_value_hits: int = 1 << 20  # tests that the values of a document may satisfy
    undefined_entities: str = REFUSE  # or skip: references to undeclared entities
    malformed: str = REFUSE  # or skip: malformed documents match nothing


DEFAULTS = Options()


def check(options: Options) -> None:
    """Refuse unknown choices and numbers that are out of range."""
    for name, choices in _CHOICES.items():
        value = getattr(options, name)
        if value not in choices:
            raise UsageError(f'option "{name}" is {value!r}; expected one of: {", ".join(choices)}')
    for name, least in _LEAST.items():
        if getattr(options, name) < least:
            raise UsageError(
                f'option "{name}" must be at least {least}, not {getattr(options, name)}'
            )
    if options.max_depth > _MOST_LEVELS:
        raise UsageError(
            f'option "max_depth" must be at most {_MOST_LEVELS}, not {options.max_depth}'
        )
