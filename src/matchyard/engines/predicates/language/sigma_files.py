"""Read files of Sigma rules: folders, YAML files and archives ─▶ documents, and reasons for the unread ones.

Rules come from others. A kilobyte of YAML can stand for gigabytes, by aliases of aliases. So a pass over the events
of the parser counts what a document holds before anything is made of it.
"""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterable, Iterator
from importlib import import_module
from lzma import LZMAError
from pathlib import Path
from tarfile import TarError
from typing import Any

from matchyard.archives import members
from matchyard.errors import UsageError

_OF_RULES = {
    "detection",
    "correlation",
    "filter",
    "title",
    "logsource",
}  # keys of rules, and of no other documents

# A file of all of SigmaHQ's 3,780 rules has 5.8 MB; their longest one has 295 kB, with texts of 1,671 characters.
_MOST_OF_FILE = 1 << 24  # bytes; also characters that its aliases stand for
_MOST_OF_DOCUMENT = 1 << 20  # bytes; also characters, as if every alias were written out
_OF_VALUE = 10  # characters that each value counts more than it has: an object is made of it
_MOST_OF_TEXT = 1 << 16  # characters
_HARMLESS = 1 << 13  # bytes, without anchors
_DEEPEST = 100  # libyaml's time grows with the square of the depth, and its stack with the depth
_MOST_TAGS = 100  # directives, each of which libyaml compares with all before
_DAMAGE = (
    TarError,
    EOFError,
    OSError,
    LZMAError,
    zlib.error,
    ValueError,
    ArithmeticError,
    RecursionError,
)
_IN_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class _Oversized(ValueError):
    """A document that says more than a rule has to say."""


def documents(path: Path) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """The documents of YAML files, each with the name of its file; of an unread file, the reason."""
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise UsageError(
            "Sigma rules are YAML: install PyYAML, e.g. pip install 'matchyard[sigma]'"
        ) from None
    loader = _strict(yaml)
    for name, content in _files(path):
        try:
            text = _checked(content)
            if len(text) > _HARMLESS or b"&" in text:
                _count(yaml, yaml.parse(text, loader))
            found = list(yaml.load_all(text, loader))
            is_collection = any(isinstance(one, dict) and "action" in one for one in found)
            for document in found:
                if isinstance(document, list) and any(isinstance(one, dict) for one in document):
                    yield name, "a list; expected one rule in each document"
                elif isinstance(document, dict) and _OF_RULES & set(document):
                    yield name, "collection with actions" if is_collection else document
        except _Oversized as error:
            yield name, f"too large: {error}"
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            yield name, f"no YAML: {str(error).partition(chr(10))[0]}"


def _checked(content: bytes) -> bytes:
    """The content of a file, in UTF-8, if neither it nor a document in it is too long for the parser."""
    if len(content) > _MOST_OF_FILE:
        raise _Oversized(f"more than {_MOST_OF_FILE:,} bytes")
    if content.startswith(_IN_UTF16):
        content = content.decode("utf-16").encode()
    if content.count(b"%TAG") > _MOST_TAGS:
        raise _Oversized(f"more than {_MOST_TAGS} directives")
    if len(content) <= _MOST_OF_DOCUMENT:
        return content
    start = 0
    while start >= 0:
        end = content.find(b"\n---", start + 1)  # the next document
        if (end if end >= 0 else len(content)) - start > _MOST_OF_DOCUMENT:
            raise _Oversized(f"a document of more than {_MOST_OF_DOCUMENT:,} bytes")
        start = end
    return content


def _count(yaml: Any, events: Iterable[Any]) -> None:
    """Refuse documents that are too deep or, with every alias written out, too long."""
    size = of_aliases = 0
    sizes: dict[str | None, int] = {}  # of each anchor's value
    opened: list[tuple[str | None, int]] = []  # anchors, and the size before their values
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            of_aliases += sizes.get(event.anchor, 0)
            size += sizes.get(event.anchor, 0)
        elif isinstance(event, yaml.NodeEvent):
            length = len(getattr(event, "value", ""))  # of a scalar
            if length > _MOST_OF_TEXT:
                raise _Oversized(f"a text of more than {_MOST_OF_TEXT:,} characters")
            sizes[event.anchor] = length + _OF_VALUE
            if isinstance(event, yaml.CollectionStartEvent):
                opened.append((event.anchor, size))
                sizes[event.anchor] = _MOST_OF_DOCUMENT + 1  # within itself, it has no end
            size += length + _OF_VALUE
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes[anchor] = size - before
        else:  # between documents
            size, sizes = 0, {}
        if len(opened) > _DEEPEST:
            raise _Oversized(f"a value within {_DEEPEST} others")
        if size > _MOST_OF_DOCUMENT or of_aliases > _MOST_OF_FILE:
            raise _Oversized(f"more than {_MOST_OF_DOCUMENT:,} characters with aliases written out")


def _strict(yaml: Any) -> Any:
    """A loader of YAML that refuses a map with one key twice, which would lose a part of a rule."""
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc, valid-type]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if (key.tag, key.value) in seen:
                        raise yaml.YAMLError(f"the key {key.value!r} is there twice")
                    seen.add((key.tag, key.value))
            return super().construct_mapping(node, deep)

    def whole(loader: Any, node: Any) -> int:
        number: int = loader.construct_yaml_int(node)
        str(number)  # refuses thousands of digits, which no message could show later
        return number

    Loader.add_constructor("tag:yaml.org,2002:int", whole)
    return Loader


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    """The YAML files with their contents; those beyond the limit are cut behind one byte more."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if _is_yaml(file) and file.is_file():
                yield str(file.relative_to(path)), _content(file)
    elif _is_yaml(path) and path.is_file():
        yield path.name, _content(path)
    elif path.exists():
        try:
            yield from members(path, lambda name: _is_yaml(Path(name)), _MOST_OF_FILE)
        except UsageError:
            raise
        except _DAMAGE as error:
            # without a line for each compression that was tried
            reason = str(error).partition(":\n")[0]
            raise UsageError(
                f"{path} is no folder, YAML file or archive of rules: {reason}"
            ) from None
    else:
        raise UsageError(f"{path} does not exist; expected a folder of Sigma rules")


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(min(path.stat().st_size, _MOST_OF_FILE) + 1)


def _is_yaml(path: Path) -> bool:
    return path.suffix.lower() in (".yml", ".yaml")
