"""Encode twigs and documents as numbers. Read `layout.py` first, then `encoder.py`."""

from matchyard.engines.twigs.encoder.encoder import (
    accept,
    column,
    counts,
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
    records,
    sizes,
    subscription_column,
    texts,
)
from matchyard.engines.twigs.encoder.events.intake import Column, Reader
from matchyard.engines.twigs.encoder.layout import Batch, Twigs, Vocabulary
from matchyard.engines.twigs.encoder.scanner.one_document import (
    Buffers,
    Reading,
    encode_one,
    new_buffers,
    reading,
)
from matchyard.engines.twigs.encoder.subscriptions.intake import (
    VALUES,
    Staging,
    Subscriptions,
    Writer,
    concatenate,
    merge,
)
from matchyard.engines.twigs.encoder.subscriptions.vocabulary import inspect, merge_counts
from matchyard.engines.twigs.language.options import Options, check

__all__ = [
    "VALUES", "Batch", "Buffers", "Column", "Options", "Reader", "Reading", "Staging", "Subscriptions", "Twigs",
    "Vocabulary", "Writer", "accept", "check", "column", "concatenate", "counts", "decode", "encode",
    "encode_one", "encode_some", "estimate", "inspect", "keep", "kind", "layout", "merge",
    "merge_counts", "n_ids", "names_of", "new_buffers", "parse", "parse_column", "parse_event", "rarest", "read_event", "reading",
    "recode", "records", "sizes", "subscription_column", "texts",
]  # fmt: skip
