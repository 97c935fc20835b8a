"""Print the twigs that XML documents satisfy: files, or the records of one large file.

    python examples/xml_feeds.py twigs.txt news.xml sports.xml
    python examples/xml_feeds.py twigs.txt --record article dblp.xml

A line of the first file is a key, a tab and a twig, such as

    recent	//article[@year > 2000][author = "Ada"]/title

For every document with matches, it prints a line with its name and the keys. Documents that are not
XML are reported on standard error and skipped.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matchyard as my


def read_twigs(path: Path) -> my.TwigIndex:
    """An index of the twigs; exits at a twig that cannot be read, with its line."""
    index = my.TwigIndex(options={"undefined_entities": "skip"})
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        key, _, twig = line.partition("\t")
        try:
            index.add(twig, key)
        except my.ParseError as error:
            raise SystemExit(f"{path}, line {number}: {error}") from None
    return index.consolidate()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("twigs", type=Path, help="lines of key, tab and twig")
    parser.add_argument("documents", type=Path, nargs="+", help="XML files")
    parser.add_argument("--record", help="match every element of this name as a document")
    given = parser.parse_args()
    index = read_twigs(given.twigs)
    for path in given.documents:
        try:
            if given.record is None:
                report(str(path), index.match([path.read_bytes()])[0])
                continue
            number = 0
            for _, matches in index.match_records(path, given.record):
                for keys in matches.to_lists():
                    number += 1
                    report(f"{path}, {given.record} {number}", keys)
        except my.ParseError as error:
            print(f"{path}: {error}", file=sys.stderr)


def report(name: str, keys: list[str]) -> None:
    if keys:
        print(f"{name}: {', '.join(sorted(keys))}")


if __name__ == "__main__":
    main()
