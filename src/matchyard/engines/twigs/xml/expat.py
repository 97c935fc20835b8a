"""Read documents by expat: the reference for the scanner, and its fallback.

Names include their prefixes. Adjacent character data is one text, also across CDATA sections and
entities; tags, comments and processing instructions separate texts.
"""

from __future__ import annotations

import codecs
import re
from functools import cached_property
from typing import Any, NamedTuple
from xml.parsers import expat

from matchyard.engines.twigs.language.options import DEFAULTS, REFUSE, SKIP, Options
from matchyard.engines.twigs.xml.encodings import LONGEST_DECLARATION, UTF_8, find_encoding
from matchyard.engines.twigs.xml.entities import Entities, NestingError
from matchyard.errors import XmlError

Signal = tuple[str, str] | tuple[str, str, dict[str, str]]

_TAG = re.compile(r"""<(?:"[^"]*"|'[^']*'|[^"'>])*>|&[^;]*;""")
_LITERAL = re.compile(r""" "[^"]*" | '[^']*' """, re.VERBOSE)
_PIECE = re.compile(r"[<&]?[^<>&;\s]{1,39}[>;]?|.", re.DOTALL)  # of a malformed document
_DECLARED = "an entity that the document declares"
EXAMPLE = "<a><b/></a>"
_TAG_BYTES = 256  # are decoded first; most tags are shorter


class Text(bytes):
    """A document in UTF-8, whatever encoding it declares."""


def as_bytes(document: bytes | str) -> bytes:
    """A document as bytes. A lone surrogate, which a Python text may have, becomes invalid UTF-8,
    so that the parser refuses it with its position."""
    return Text(document.encode(errors="surrogatepass")) if isinstance(document, str) else document


def signals(document: bytes | str, options: Options = DEFAULTS) -> list[Signal]:
    """The signals of a document, in order.

    >>> signals(b'<a x="1">b&amp;<c/></a>')
    [('open', 'a', {'x': '1'}), ('text', 'b&'), ('open', 'c', {}), ('close', 'c'), ('close', 'a')]
    """
    return with_lines(document, options)[0]


def with_lines(
    document: bytes | str, options: Options = DEFAULTS
) -> tuple[list[Signal], list[int]]:
    """The signals of a document, and the lines on which elements open."""
    reader = _Reader(document, options)
    reader.read()
    return reader.signals, reader.lines


class Prolog(NamedTuple):
    """The declarations of a document that the scanner needs."""

    entities: Entities
    is_plain: bool  # it declares only entities


def prolog(document: bytes, options: Options) -> Prolog | None:
    """The declarations before the root element, of which only the start tag need be there; None if
    they are malformed."""
    reader = _Reader(document, options)
    try:
        reader.feed(is_final=False)
    except XmlError:
        return None
    return Prolog(reader.entities, reader.is_plain) if reader.n_open else None


class _Reader:
    """One document on its way through expat."""

    def __init__(self, document: bytes | str, options: Options) -> None:
        self.signals: list[Signal] = []
        self.lines: list[int] = []  # of elements, as they open
        self.entities = Entities()
        self.is_plain = True
        self.n_open = 0
        self._text: list[str] = []
        self._n_delivered = 0
        self._options = options
        self._data = as_bytes(document)
        self._parser = expat.ParserCreate(UTF_8 if isinstance(self._data, Text) else None)
        self._has_doctype = False
        self._listen()

    def _listen(self) -> None:
        parser = self._parser
        parser.buffer_text = True
        parser.StartElementHandler = self._open
        parser.EndElementHandler = self._close
        parser.CharacterDataHandler = self._add
        parser.CommentHandler = parser.ProcessingInstructionHandler = self._end_text
        parser.StartDoctypeDeclHandler = self._start_doctype
        parser.EndDoctypeDeclHandler = self._end_doctype
        parser.EntityDeclHandler = self._declare
        parser.AttlistDeclHandler = self._declare_attribute
        parser.ElementDeclHandler = parser.NotationDeclHandler = self._is_not_plain
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        if self._options.undefined_entities == SKIP:
            parser.UseForeignDTD(True)  # a DTD that is not read might define them
        else:
            parser.SkippedEntityHandler = self._refuse_skipped
            parser.ExternalEntityRefHandler = self._refuse_external

    def read(self) -> None:
        """Read the whole document."""
        limit = self._options.max_document_bytes
        if len(self._data) > limit:
            raise XmlError.of(
                '{found}; the limit is {limit} (option "max_document_bytes")',
                limit=limit,
                line=1,
                column=1,
                found=f"{len(self._data)} bytes",
                expected=f"at most {limit} bytes",
                example=EXAMPLE,
            )
        self.feed(is_final=True)

    def feed(self, is_final: bool) -> None:
        """Pass the data to expat, and raise its errors as XmlError."""
        try:
            self._parser.Parse(self._data, is_final)
        except expat.ExpatError as error:
            raise XmlError.of(
                "{reason}",
                reason=expat.ErrorString(error.code),
                line=error.lineno,
                column=error.offset + 1,
                found=self._piece(),
                expected="well-formed XML",
                example=EXAMPLE,
            ) from None
        except (ValueError, LookupError) as error:  # an encoding that Python does not know
            if isinstance(error, XmlError):
                raise
            message = "cannot be decoded: {found}"
            raise self._refused(message, str(error), "an encoding that is known") from None

    def _refused(self, message: str, found: str, expected: str, **said: Any) -> XmlError:
        return XmlError.of(
            message,
            line=self._parser.CurrentLineNumber,
            column=self._parser.CurrentColumnNumber + 1,
            found=found,
            expected=expected,
            example=EXAMPLE,
            **said,
        )

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        self._end_text()
        self.n_open += 1
        if self.n_open > self._options.max_depth:
            limit = self._options.max_depth
            what = f"{limit} elements in each other"
            message = '{found} (option "max_depth")'
            raise self._refused(message, f"more than {what}", f"at most {what}")
        if attributes:
            self._count(sum(len(value.encode()) for value in attributes.values()))
            # If a DTD might define them, expat skips undefined entities in attributes silently.
            if self._has_doctype and self._options.undefined_entities == REFUSE:
                self._refuse_undefined_in(self._tag())
        self.signals.append(("open", name, attributes))
        self.lines.append(self._parser.CurrentLineNumber)

    def _close(self, name: str) -> None:
        self._end_text()
        self.n_open -= 1
        self.signals.append(("close", name))

    def _add(self, text: str) -> None:
        self._count(len(text.encode()))
        self._text.append(text)

    def _count(self, n_bytes: int) -> None:
        self._n_delivered += n_bytes
        limit = self._options.max_entity_expansion
        if self._n_delivered > limit + len(self._data):
            raise self._refused_size(f"entities expand to more than {limit} bytes")

    def _refused_size(self, found: str) -> XmlError:
        limit = self._options.max_entity_expansion
        message = '{found} (option "max_entity_expansion")'
        return self._refused(message, found, f"at most {limit} bytes of entities")

    def _end_text(self, *_: Any) -> None:
        if self._text:
            self.signals.append(("text", "".join(self._text)))
            self._text = []

    def _start_doctype(self, *_: Any) -> None:
        self._has_doctype = True

    def _declare(self, name: str, is_parameter: bool, value: str | None, *rest: Any) -> None:
        if not is_parameter:
            notation = rest[-1]  # of an entity that is no XML
            try:
                self.entities.declare(name, value, value is None and notation is None)
            except NestingError as error:
                raise self._refused("{found}", str(error), "fewer entities in each other") from None

    def _declare_attribute(self, element: str, name: str, kind: str, value: Any, *_: Any) -> None:
        """Refuse undefined entities in defaults, which expat skips if a DTD might define them."""
        self.is_plain = False
        if value is not None and self._options.undefined_entities == REFUSE:
            self._refuse_undefined_in(self._literal())

    def _is_not_plain(self, *_: Any) -> None:
        self.is_plain = False

    def _end_doctype(self) -> None:
        limit = self._options.max_entity_expansion
        for name in self.entities.values:
            if self.entities.size(name) > limit:
                raise self._refused_size(f"entity {name!r} expands to more than {limit} bytes")

    def _refuse_skipped(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:
            raise self._undefined(name)

    def _refuse_external(self, *where: str | None) -> int:
        message = '{found}, which is not fetched (option "undefined_entities")'
        raise self._refused(message, f"an external entity, {where[-2]!r}", _DECLARED)

    def _refuse_undefined_in(self, text: str) -> None:
        name = self.entities.undefined(text)
        if name is not None:
            raise self._undefined(name)

    def _tag(self) -> str:
        """The tag, or the reference to an entity with a tag, that expat is at."""
        return self._read_on(_TAG)

    def _literal(self) -> str:
        """The value in quotes that expat is at, in the declaration of an attribute."""
        return self._read_on(_LITERAL)

    def _read_on(self, pattern: re.Pattern[str]) -> str:
        """The text at expat's position that matches a pattern."""
        start, text = self._parser.CurrentByteIndex, ""
        decoder = codecs.getincrementaldecoder(self._encoding)("replace")
        while start < len(self._data):
            end = start + max(_TAG_BYTES, len(text))
            text += decoder.decode(self._data[start:end])
            match = pattern.match(text)
            if match is not None:
                return match[0]
            start = end
        return text

    @cached_property
    def _encoding(self) -> str:
        if isinstance(self._data, Text):
            return UTF_8
        return find_encoding(self._data[:LONGEST_DECLARATION]).name

    def _undefined(self, name: str) -> XmlError:
        message = 'undefined entity {found} (option "undefined_entities")'
        return self._refused(message, repr(name), _DECLARED)

    def _piece(self) -> str | None:
        """The piece of the document that expat is at; None if the encoding is not known."""
        try:
            return self._read_on(_PIECE) or "the end"
        except (LookupError, UnicodeError):
            return None
