"""Documents at random, what becomes of them by mutation, and vocabularies to read them with."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from matchyard.engines.twigs.encoder.layout import Vocabulary
from matchyard.engines.twigs.language.model import Comparison, Source
from matchyard.kernels.strings import Interner, Names

NAMES = ["a", "b", "ns:c", "d-e.f", "_g", ":", "article", "inproceedings", "Name.of-21_letters:x"]
ATTRIBUTES = ["x", "y", "xml:lang", "key", "A1", "a-very-long.attribute_name"]
TEXTS = [
    "1",
    "x",
    " 2.50 ",
    "&amp;",
    "&lt;&gt;&quot;&apos;",
    "&#65;&#x1F600;",
    "ä",
    "日本",
    "😀",
    "\r\n",
]
TEXTS += ["\n\t", "]", "]]", ">", "'", '"', "7", "-0", ".5", "12345678901234567890", "x" * 40, " "]
ENTITIES = ["&e;", "&f;", "&g;", "&undefined;"]
DECLARATIONS = [
    "<!ENTITY e 'ee'>",
    '<!ENTITY f "&e;\n&undefined;">',
    "<!ENTITY g '<b>1</b>'>",
    "<!ENTITY e 'second'>",
    "<!ENTITY % p 'q'>",
    "<!-- no ]> end -->",
    "<?pi ]> ?>",
    '<!ENTITY h "]>">',
    "<!ENTITY i SYSTEM 'elsewhere.xml'>",
    "<!ELEMENT a ANY>",
    "<!ATTLIST b y CDATA 'given'>",
    "%p;",
    "\n",
]
PIECES = [
    *("<", ">", "/", "&", ";", "<!--", "-->", "--", "<![CDATA[", "]]>", "<?", "?>", "<?xml ", "\0"),
    *("</a>", "<a>", "<b/>", "&#0;", "&#xD800;", "&#x110000;", "&lt", "\x7f", "\ufffe", "=", '"'),
    *(
        "'",
        "<a x='1' x='2'>",
        "<!DOCTYPE a>",
        "<é>",
        " ",
        "\r",
        "\x1f",
        "[",
        "&#;",
        "&#x;",
        "&#12a;",
    ),
]


def text_of(pick: random.Random, entities: list[str]) -> str:
    return "".join(pick.choice([*TEXTS, *entities]) for _ in range(pick.randrange(4)))


def attribute_of(pick: random.Random, entities: list[str], name: str) -> str:
    quote = pick.choice("'\"")
    space, equals = pick.choice([" ", " ", "\n", "\t ", "\r\n"]), pick.choice(["=", "=", " = "])
    return f"{space}{name}{equals}{quote}{text_of(pick, entities).replace(quote, '')}{quote}"


def content_of(pick: random.Random, entities: list[str], depth: int) -> str:
    parts = []
    for _ in range(pick.randrange(5)):
        kind = pick.randrange(9)
        if kind < 4 and depth < 6:
            parts.append(element_of(pick, entities, depth + 1))
        elif kind == 4:
            parts.append(pick.choice(["<!-- c - ä -->", "<!---->", "<?pi?>", "<?p x ? > -- ?>"]))
        elif kind == 5:
            parts.append(
                pick.choice(["<![CDATA[]]>", "<![CDATA[<a>&x;]] >\r\n]]>", "<![CDATA[1]]>"])
            )
        else:
            parts.append(text_of(pick, entities))
    return "".join(parts)


def element_of(pick: random.Random, entities: list[str], depth: int = 0) -> str:
    name = pick.choice(NAMES)
    chosen = pick.sample(ATTRIBUTES, pick.choice([0, 0, 1, 2, 4]))
    tag = name + "".join(attribute_of(pick, entities, one) for one in chosen)
    if pick.random() < 0.2:
        return f"<{tag}/>"
    return f"<{tag}{pick.choice(['', '', ' '])}>{content_of(pick, entities, depth)}</{name}>"


def document_of(pick: random.Random) -> bytes:
    """A document, well-formed where references to entities are not what is wrong."""
    parts = [pick.choice(["", "", "\ufeff"])]
    parts.append(
        pick.choice(
            [
                *("", "", '<?xml version="1.0"?>', "<?xml version='1.0' encoding='UTF-8'?>\n"),
                '<?xml version="1.0" encoding="utf-8" standalone="yes" ?>',
                '<?xml version="1.0" standalone="no"?>',
            ]
        )
    )
    parts.append(pick.choice(["", "", "\n", "<!-- before -->", "<?pi before?> "]))
    entities: list[str] = []
    kind = pick.randrange(6)
    if kind == 0:
        parts.append(pick.choice(["<!DOCTYPE a>", "<!DOCTYPE a SYSTEM 'a.dtd'>\n"]))
        parts.append(pick.choice(["", "<!-- between -->"]))
    elif kind == 1:
        declarations = "".join(pick.choice(DECLARATIONS) for _ in range(pick.randrange(5)))
        outside = pick.choice(["", " SYSTEM 'a.dtd'", ' PUBLIC "-//a" "a.dtd" '])
        parts.append(f"<!DOCTYPE a{outside} [{declarations}]>\n")
    if kind <= 2:
        entities = ENTITIES
    parts.append(element_of(pick, entities))
    parts.append(pick.choice(["", "", "\n", "<!-- after -->", "<?pi after?>\r\n"]))
    return "".join(parts).encode()


def mutated(pick: random.Random, document: bytes) -> bytes:
    """The same with a byte or a piece changed, lost, copied or added, once or a few times."""
    data = bytearray(document)
    for _ in range(pick.choice([1, 1, 1, 2, 3])):
        place, other = (pick.randrange(len(data) + 1) for _ in range(2))
        length = pick.choice([1, 1, 2, 5, 20])
        kind = pick.randrange(5)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << pick.randrange(8)
        elif kind == 1:
            del data[place : place + length]
        elif kind == 2:
            data[place:place] = data[other : other + length]
        elif kind == 3:
            data[place:place] = pick.choice(PIECES).encode()
        else:
            data[place : place + length] = data[other : other + length]
    return bytes(data)


def names_of(words: Iterable[str]) -> Names:
    interner = Interner()
    interner.intern_arrow(pa.array(list(words), pa.string()))
    return interner.names()


Coded = tuple[Source, str, Comparison, str | float]


def vocabulary_of(names: Iterable[str], tests: Iterable[Coded] = ()) -> Vocabulary:
    """A vocabulary with these element names, and tests as (source, attribute, test, operand)."""
    tests = list(tests)
    attributes = sorted({attribute for _, attribute, _, _ in tests if attribute})
    texts = sorted({operand for *_, operand in tests if isinstance(operand, str)})
    rows = sorted(
        (
            int(source),
            attributes.index(attribute) if attribute else -1,
            int(test),
            texts.index(operand) if isinstance(operand, str) else -1,
            0.0 if isinstance(operand, str) else float(operand),
        )
        for source, attribute, test, operand in tests
    )
    columns = list(zip(*rows, strict=True)) or [()] * 5
    kinds = (np.uint8, np.int32, np.uint8, np.int32, np.float64)
    arrays = [np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return Vocabulary(names_of(names), names_of(attributes), names_of(texts), *arrays)


def all_tests() -> list[Coded]:
    """Every kind of test of every source, with operands that the documents above have."""
    found: list[Coded] = []
    for source, attribute in [
        *((Source.ATTRIBUTE, name) for name in ("x", "key", "a-very-long.attribute_name")),
        *((Source.TEXT, ""), (Source.VALUE, "")),
    ]:
        found.append((source, attribute, Comparison.EXISTS, 0))
        for text in ("1", "x", "", "ä", "11", " ", "x&", "ee", "\n"):
            found += [
                (source, attribute, test, text) for test in (Comparison.EQUAL, Comparison.UNEQUAL)
            ]
        for number in (1, 2.5, -0.0, 7, 11, 0.5, 12345678901234567890.0):
            found += [(source, attribute, test, number) for test in list(Comparison)[3:]]
    return found
