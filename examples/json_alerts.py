"""Alert on events that match rules in the style of EventBridge, line by line.

    python examples/json_alerts.py rules.jsonl < events.jsonl

A rule is a line such as

    {"key": "hot in the north", "rule": {"area": ["north"], "temp": [{"numeric": [">", 30]}]}}

where the rule may also be text: "area = \\"north\\" and temp > 30". For every event with alerts, it
prints a line {"alerts": ["hot in the north"], "event": {…}}. Invalid lines are reported on standard
error and skipped. With `--why KEY`, it explains instead for each event why that rule does or does not
hold.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import matchyard as my

BATCH = 4096  # lines matched at once


def read_rules(path: Path) -> my.PredicateIndex:
    """An index of the rules; exits at a rule that cannot be read, with its line."""
    index = my.PredicateIndex()
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                index.add(row["rule"], key=row["key"])
            except (KeyError, TypeError, ValueError, my.MatchyardError) as error:
                raise SystemExit(f"{path}, line {number}: {error}") from None
    return index.consolidate()


def is_event(index: my.PredicateIndex, number: int, line: str) -> bool:
    """True if the line is an event; otherwise print the reason."""
    try:
        index.check([line])
    except my.ParseError as error:
        print(f"line {number}: {error}", file=sys.stderr)
        return False
    return True


def alert(index: my.PredicateIndex, lines: Iterable[str]) -> None:
    """Print the alerts of all events."""
    numbered = enumerate(lines, 1)
    while batch := list(islice(numbered, BATCH)):
        try:
            matches = index.match([line for _, line in batch])
        except my.ParseError:  # at least one line is not an event: match the others
            batch = [(number, line) for number, line in batch if is_event(index, number, line)]
            matches = index.match([line for _, line in batch])
        for (_, line), keys in zip(batch, matches.to_lists(), strict=True):
            if keys:
                print(json.dumps({"alerts": sorted(keys), "event": json.loads(line)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rules", type=Path, help="JSON Lines with the fields key and rule")
    parser.add_argument("--why", metavar="KEY", help="explain this rule for every event")
    given = parser.parse_args()
    index = read_rules(given.rules)
    if given.why is None:
        alert(index, sys.stdin)
        return
    for number, line in enumerate(sys.stdin, 1):
        if is_event(index, number, line):
            print(index.explain(line, given.why))


if __name__ == "__main__":
    main()
