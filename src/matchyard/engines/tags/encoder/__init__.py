"""Turn tags into numbers: the vocabulary, and batches of ids. Read `encoder.py` first."""

from matchyard.engines.tags.encoder.encoder import (
    accept,
    decode,
    encode,
    encode_some,
    estimate,
    is_known,
    keep,
    kind,
    n_ids,
    names_of,
    parse,
    parse_column,
    parse_event,
    rarest,
    read_event,
    sign,
    sizes,
    texts,
)
from matchyard.engines.tags.encoder.intake import (
    VALUES,
    Column,
    Options,
    check,
    column,
    fold,
    subscription_column,
)
from matchyard.engines.tags.encoder.layout import Batch, Vocabulary
from matchyard.engines.tags.encoder.one_event import Reader, encode_one, new_room
from matchyard.engines.tags.encoder.staging import (
    Staging,
    concatenate,
    counts,
    merge,
    merge_counts,
    recode,
)
from matchyard.kernels.inspection import inspect_names as inspect

__all__ = [
    "VALUES", "Batch", "Column", "Options", "Reader", "Staging", "Vocabulary", "accept", "check",
    "column", "concatenate", "counts", "decode", "encode", "encode_one", "encode_some", "estimate", "fold",
    "inspect", "is_known", "keep", "kind", "layout", "merge", "merge_counts", "n_ids", "names_of", "new_room", "parse",
    "parse_column", "parse_event", "rarest", "read_event", "recode", "sign", "signatures", "sizes",
    "subscription_column", "texts",
]  # fmt: skip
