"""Predicates and events as numbers: vocabulary, filters, batches of entries. Read `layout` first."""

from matchyard.engines.predicates.encoder.encoder import (
    Options,
    accept,
    check,
    concatenate,
    decode,
    encode,
    encode_some,
    estimate,
    keep,
    kind,
    n_ids,
    names_of,
    parse,
    parse_column,
    parse_event,
    rarest,
    read_event,
    recode,
    sizes,
    subscription_column,
    texts,
)
from matchyard.engines.predicates.encoder.events.intake import column
from matchyard.engines.predicates.encoder.events.one_event import Reader, encode_one, given
from matchyard.engines.predicates.encoder.layout import Batch, Column, Filters, Vocabulary
from matchyard.engines.predicates.encoder.subscriptions.intake import (
    VALUES,
    Staging,
    Subscriptions,
    Writer,
    merge,
)
from matchyard.engines.predicates.encoder.subscriptions.travelling import counts, merge_counts
from matchyard.engines.predicates.encoder.subscriptions.vocabulary import inspect

__all__ = [
    "VALUES", "Batch", "Column", "Filters", "Options", "Reader", "Staging", "Subscriptions",
    "Vocabulary", "Writer", "accept", "check", "column", "concatenate", "counts", "decode", "encode",
    "encode_one", "encode_some", "estimate", "events", "given", "inspect", "keep", "kind", "layout", "merge",
    "merge_counts", "n_ids", "names_of", "parse", "parse_column", "parse_event", "rarest", "read_event",
    "recode", "sizes", "subscription_column", "texts",
]  # fmt: skip
