"""The built-in document type: a bibliography in the manner of DBLP.

Records and fields are those of DBLP. The order and the number of fields are declared, which DBLP's
own definition leaves open; chances and texts make documents of about 16 bytes per opening or closing
tag.
"""

from __future__ import annotations

from typing import NamedTuple

ROOT = "dblp"
_RECORDS = ("article", "inproceedings", "proceedings", "book", "incollection", "phdthesis",
            "mastersthesis", "www")  # fmt: skip
_FIELDS = ("author", "editor", "pages", "year", "address", "journal", "volume", "number", "month",
           "url", "ee", "cdrom", "cite", "publisher", "note", "crossref", "isbn", "series",
           "school", "chapter")  # fmt: skip
_MIXED = ("title", "booktitle", "sub", "sup", "i", "tt", "ref")

TEXT = "\n".join([
    '<!ENTITY % inline "(#PCDATA | sub | sup | i | tt | ref)*">',
    f"<!ELEMENT dblp ({' | '.join(_RECORDS)})*>",
    "<!ELEMENT article (author+, title, pages?, year, volume?, journal, number?, month?, cdrom?,"
    " ee?, crossref?, url?, note?, publisher?, cite*)>",
    "<!ELEMENT inproceedings (author+, title, pages?, year, booktitle, month?, number?, cdrom?,"
    " ee?, crossref?, url?, note?, cite*)>",
    "<!ELEMENT proceedings (editor*, title, booktitle?, series?, volume?, year, publisher?, isbn*,"
    " journal?, number?, address?, ee?, url?, note?)>",
    "<!ELEMENT book (author*, editor*, title, series?, volume?, year, publisher, address?, isbn*,"
    " pages?, month?, cdrom?, ee?, url?, note?, cite*)>",
    "<!ELEMENT incollection (author+, title, pages?, year, booktitle, chapter?, publisher?, isbn?,"
    " cdrom?, ee?, crossref?, url?, note?, cite*)>",
    "<!ELEMENT phdthesis (author, title, year, school+, pages?, month?, publisher?, series?,"
    " volume?, number?, address?, isbn*, ee?, url?, note?)>",
    "<!ELEMENT mastersthesis (author, title, year, school, month?, address?, ee?, url?, note?)>",
    "<!ELEMENT www (author*, editor*, title, booktitle?, year?, crossref?, ee?, url*, note*, cite*)>",
    *(f"<!ELEMENT {name} (#PCDATA)>" for name in _FIELDS),
    *(f"<!ELEMENT {name} %inline;>" for name in _MIXED),
    *(
        f"<!ATTLIST {name} key CDATA #REQUIRED mdate CDATA #IMPLIED publtype CDATA #IMPLIED>"
        for name in _RECORDS
    ),
    "<!ATTLIST author orcid CDATA #IMPLIED>",
    "<!ATTLIST title bibtex CDATA #IMPLIED>",
    "<!ATTLIST ee type (oa | archive) #IMPLIED>",
    "<!ATTLIST note type CDATA #IMPLIED>",
    "<!ATTLIST cite label CDATA #IMPLIED>",
    "<!ATTLIST publisher href CDATA #IMPLIED>",
    "<!ATTLIST series href CDATA #IMPLIED>",
    "<!ATTLIST ref href CDATA #REQUIRED>",
])  # fmt: skip

# By element, or "" for any element, and by child: the chance of an optional child, the mean number of
# a repeated child, or the weight within a choice; of an attribute, its chance. "#PCDATA" is the chance
# that an element and another text follow a text.
CHANCES: dict[str, dict[str, float]] = {
    "": {
        "author": 2.8, "editor": 1.2, "pages": 0.8, "volume": 0.8, "number": 0.3, "month": 0.05,
        "cdrom": 0.02, "ee": 0.9, "crossref": 0.3, "url": 0.8, "note": 0.04, "publisher": 0.3,
        "cite": 0.25, "booktitle": 0.7, "series": 0.3, "isbn": 0.8, "journal": 0.05, "school": 1.1,
        "address": 0.03, "chapter": 0.05, "@mdate": 0.7, "@publtype": 0.03, "@orcid": 0.05,
        "@bibtex": 0.002, "@type": 0.1, "@label": 0.3, "@href": 0.3, "#PCDATA": 0.15,
        "sub": 3.0, "sup": 3.0, "i": 3.0, "tt": 2.0, "ref": 1.0,
    },
    "dblp": {
        "article": 40, "inproceedings": 43, "proceedings": 3, "book": 2, "incollection": 4,
        "phdthesis": 2, "mastersthesis": 0.5, "www": 5.5,
    },
    "inproceedings": {"crossref": 0.8, "number": 0.02},
    "incollection": {"crossref": 0.8},
    "book": {"editor": 0.3},
    "www": {"editor": 0.1, "year": 0.1, "booktitle": 0.02, "cite": 0.05, "ee": 0.02},
    "booktitle": {"#PCDATA": 0.05},
    **{name: {"#PCDATA": 0.3} for name in ("sub", "sup", "i", "tt", "ref")},
}  # fmt: skip


class Slot(NamedTuple):
    """A part of a text: `fewest` to `most` texts of a pool, with spaces between them."""

    pool: str
    fewest: int = 1
    most: int = 1


def _words(texts: str) -> list[str]:
    return texts.split()


def _joined(heads: str, tails: str) -> list[str]:
    return [head + tail for head in heads.split() for tail in tails.split()]


# Texts that are drawn from; the first are drawn more often.
POOLS: dict[str, list[str]] = {
    "word": _words(
        "of for the and in on with a Data Systems Query Networks Learning Distributed Analysis"
        " Efficient Parallel Streams Documents Matching Algorithms Optimal Logic Graphs Models"
        " Filtering Semantic Adaptive Large Mobile Image Trees Index Web Design Detection Fast"
        " Software Control Robust Dynamic Neural Secure Approximate Programs Storage Patterns"
        " Scalable Wireless Sensor Recursive Automata Joins Views Schemas Caching Replicas"
        " Verification Scheduling Compression Probabilistic Transactions Indexing Ranking R&amp;D"
    ),
    "term": _words("n k x log 2 3 NP + alpha max XML epsilon n-1 O(n)"),
    "given": _joined("An Jo Mi Ka Le So Ra Pe Jü No", "na han ra lia on fia mon ter né di"),
    "family": _joined("Ber Mar Hol Kow San Lin Ta Nov Wes Rey Mü Da Ok Sil Ro",
                      "ger tin den ski chez son naka ak ley nolds ller vis afor va ssi"),
    "year": [str(year) for year in range(2013, 1969, -1)],
    "date": [f"{2013 - k % 11}-{1 + k % 12:02}-{1 + k % 28:02}" for k in range(308)],
    "number": [str(number) for number in range(1, 1000)],
    "small": [str(number) for number in range(1, 61)],
    "month": _words("March June September December January February April May July August October"
              " November"),
    "venue": _joined("D I S C K W P V", "BT CS MOD IR DD WW AI LDB"),
    "journal": [f"{kind} {of}" for of in ("Databases", "Computing", "Networks", "Logic", "Systems")
                for kind in ("J.", "Trans.", "Inf.", "Comm.", "Acta", "Annals of", "Int. J.")],
    "publisher": _joined("North South East Uni Aca", "-Press -House -Verlag demic"),
    "place": _joined("New Port Spring Green Old", "ton field haven burg ville"),
    "dash": ["-"], "slash": ["/"], "conf": ["conf/", "journals/", "books/", "tr/"],
    "db": ["db/"], "html": [".html#"], "doi": ["https://doi.org/10."], "isbn": ["978-3-"],
    "kind": ["informal", "survey", "data", "withdrawn", "award"],
    "school": ["University of"], "space": [" "], "cd": ["CD"],
}  # fmt: skip

_PERSON = (Slot("given"), Slot("space"), Slot("family"))
_KEY = (Slot("conf"), Slot("venue"), Slot("slash"), Slot("family"), Slot("small"))
_ADDRESS = (Slot("db"), *_KEY[:2], Slot("html"), Slot("small"))
WORDS = (Slot("word", 2, 6),)

# The texts of elements and attributes; the default is words.
TEXTS: dict[str, tuple[Slot, ...]] = {
    "author": _PERSON, "editor": _PERSON, "year": (Slot("year"),), "volume": (Slot("small"),),
    "number": (Slot("small"),), "chapter": (Slot("small"),), "month": (Slot("month"),),
    "pages": (Slot("number"), Slot("dash"), Slot("number")), "journal": (Slot("journal"),),
    "booktitle": (Slot("venue"),), "publisher": (Slot("publisher"),), "url": _ADDRESS,
    "ee": (Slot("doi"), Slot("number"), Slot("slash"), Slot("number")),
    "cdrom": (Slot("cd"), Slot("slash"), *_KEY), "cite": _KEY, "crossref": _KEY[:4],
    "isbn": (Slot("isbn"), Slot("number"), Slot("dash"), Slot("number")),
    "school": (Slot("school"), Slot("space"), Slot("place")), "address": (Slot("place"),),
    "series": (Slot("journal"),), "note": (Slot("word", 1, 4),), "ref": (Slot("term"),),
    "sub": (Slot("term"),), "sup": (Slot("term"),), "i": (Slot("term", 1, 2),), "tt": (Slot("term"),),
    "@key": _KEY, "@mdate": (Slot("date"),), "@publtype": (Slot("kind"),), "@type": (Slot("kind"),),
    "@label": (Slot("small"),), "@href": _ADDRESS, "@bibtex": (Slot("term"),),
    "@orcid": (Slot("number"), Slot("dash"), Slot("number"), Slot("dash"), Slot("number")),
}  # fmt: skip
