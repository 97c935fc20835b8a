"""`matchyard build`, `match`, `explain` and `info`: an index from files, and its matches."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from matchyard.cli.arguments import (
    AlgorithmOption,
    AsJson,
    Device,
    Format,
    Threads,
    read_options,
)
from matchyard.cli.terminal import progress, say, summary


def build(
    engine: Annotated[
        str,
        typer.Argument(help="The engine: tags, predicates or twigs; or sigma, for Sigma rules."),
    ],
    subscriptions: Annotated[
        str,
        typer.Argument(
            help="A file of subscriptions, or - for standard input; of Sigma rules a folder, a file or "
            "an archive."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the index.")],
    column: Annotated[
        str | None,
        typer.Option(
            "--column",
            "--tags",
            help="The column (or JSON field) with the subscriptions; by default `tags`, for "
            "predicates `predicate`, and for twigs `twig`.",
        ),
    ] = None,
    key: Annotated[
        str,
        typer.Option(help="The column (or JSON field) with the keys, which matches return."),
    ] = "key",
    algorithm: Annotated[
        str | None, typer.Option(help="The algorithm; by default the engine's own choice.")
    ] = None,
    option: AlgorithmOption = None,
    bad: Annotated[
        Path | None,
        typer.Option(
            help="A file (JSON Lines) for subscriptions that cannot be read, with the reason. Without "
            "it, the first such subscription ends the command. Sigma rules that are not supported never "
            "do: they are counted by reason."
        ),
    ] = None,
    product: Annotated[
        list[str] | None,
        typer.Option(
            help="For sigma: leave out the rules for logs of other products, e.g. windows; as often as "
            "needed."
        ),
    ] = None,
    placeholder: Annotated[
        list[str] | None,
        typer.Option(
            help="For sigma: NAME=value, a value of a placeholder in rules; as often as needed."
        ),
    ] = None,
    format: Format = None,
) -> None:
    """Build an index from a file of subscriptions and save it.

    With sigma, the keys are the ids of the rules.
    """
    import matchyard as my
    from matchyard.cli.rows import located, rows_of

    if engine == "sigma":
        others = {"column": column, "algorithm": algorithm, "option": option, "format": format}
        refuse_others("sigma", others)
        build_sigma(subscriptions, output, product or [], placeholder or [], bad)
        return
    refuse_others(engine, {"product": product, "placeholder": placeholder})
    index = my.create(engine, algorithm, read_options(option))
    done = 0
    column = column or index.subscription_column
    for values, keys, first in rows_of(
        subscriptions, format, index.parse, column, key, need_key=True, bad=bad, what="subscription"
    ):
        with located(subscriptions, first):
            index.add_many(values, keys)
        done += len(keys)
        progress(f"{done:,} subscriptions read")
    progress("compiling")
    index.consolidate()
    progress("saving")
    index.save(output)
    facts = index.info()
    summary(
        f"{output}: {facts['subscriptions']:,} subscriptions, {facts['distinct']:,} distinct, "
        f"{facts['names']:,} names, {facts['index_bytes'] / 1e6:,.1f} MB"
    )


def refuse_others(engine: str, options: Mapping[str, object]) -> None:
    """Refuse options that this engine does not have."""
    for name, value in options.items():
        if value is not None:
            raise typer.BadParameter(f"--{name} is not for {engine}")


def build_sigma(
    rules: str, output: Path, products: list[str], placeholders: list[str], bad: Path | None
) -> None:
    """Build an index of Sigma rules, and say which ones are left out, by reason."""
    from collections import Counter

    import matchyard as my
    from matchyard.cli.formats import open_to_write

    values: dict[str, list[str]] = {}
    for text in placeholders:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"{text!r} is no placeholder; expected NAME=value")
        values.setdefault(name, []).append(value)
    found = my.sigma(rules, values, products)
    if bad is not None:
        lines = [json.dumps(rule._asdict(), ensure_ascii=False) + "\n" for rule in found.left]
        with open_to_write(bad) as file:
            file.write("".join(lines).encode())
    progress("compiling")
    found.save(output)
    summary(f"{output}: {len(found.rules):,} rules, described in {output}/rules.parquet")
    reasons = Counter(rule.reason.partition(" (")[0].partition(" %")[0] for rule in found.left)
    if reasons:
        told = ", ".join(f"{reason} {n:,}" for reason, n in reasons.most_common())
        where = "" if bad is not None else "; --bad lists them"
        summary(f"{len(found.left):,} rules are not supported: {told}{where}")


def match(
    index: Annotated[Path, typer.Argument(help="A saved index.")],
    events: Annotated[str, typer.Argument(help="A file of events, or - for standard input.")] = "-",
    output: Annotated[
        str, typer.Option("-o", "--output", help="File for the pairs; - is standard output.")
    ] = "-",
    column: Annotated[
        str | None,
        typer.Option(
            "--column",
            "--tags",
            help="The column (or JSON field) with the events; by default `tags`, for predicates the "
            "whole row, and for twigs `document`.",
        ),
    ] = None,
    id: Annotated[
        str,
        typer.Option(
            help="The column (or JSON field) that names an event; without it, events are numbered "
            "from 0."
        ),
    ] = "id",
    unique: Annotated[
        bool,
        typer.Option(
            "--unique", help="Each key once per event, however many of its subscriptions match."
        ),
    ] = False,
    arrays: Annotated[
        bool, typer.Option("--arrays", help="One row per event with its keys, not one per pair.")
    ] = False,
    bad: Annotated[
        Path | None,
        typer.Option(
            help="A file (JSON Lines) for events that cannot be read, with the reason. Without it, the "
            "first such event ends the command."
        ),
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(
            help="For XML: every element of this name in the file is an event of its own, e.g. "
            "article. Without it, the file is one event."
        ),
    ] = None,
    threads: Threads = 1,
    device: Device = "cpu",
    format: Format = None,
    output_format: Annotated[
        str | None,
        typer.Option(help="Format of the output, likewise; jsonl for standard output."),
    ] = None,
) -> None:
    """Match events against a saved index, and write pairs of event and key."""
    import matchyard as my
    from matchyard.cli.formats import Writer
    from matchyard.cli.rows import located, pairs, pairs_schema, rows_of

    opened = my.open(index, threads=threads, device=device)
    find = opened.match_unique if unique else opened.match
    n_events = n_matches = 0
    column = column or opened.event_column
    split = None
    if record is not None:
        if not isinstance(opened, my.TwigIndex):
            raise my.UsageError("records are for twigs, whose events are XML")
        split = partial(opened.records, record=record)
    schema = pairs_schema(opened.info()["keys"], arrays)
    with Writer(output, output_format, schema) as file:
        for values, ids, first in rows_of(
            events, format, opened.parse_event, column, id, bad=bad, split=split
        ):
            with located(events, first):
                matches = find(values)
            for table in pairs(matches, ids, arrays):
                file.write(table)
            n_events += len(matches)
            n_matches += matches.total
            progress(f"{n_events:,} events, {n_matches:,} matches")
    summary(f"{n_events:,} events, {n_matches:,} matches")


def explain(
    index: Annotated[Path, typer.Argument(help="A saved index.")],
    event: Annotated[
        str,
        typer.Argument(
            help="The event, e.g. 'jazz oslo', '{\"temp\": 31}' or '<a/>'; - reads it from standard "
            "input."
        ),
    ],
    key: Annotated[str, typer.Option(help="The key whose subscriptions are explained.")],
) -> None:
    """Explain why a key does or does not get an event."""
    import matchyard as my

    opened = my.open(index)
    number: int | str = key
    if opened.info()["keys"] == "int":
        try:
            number = int(key)
        except ValueError:
            raise my.UsageError(f"keys of {index} are integers, not {key!r}") from None
    asked: str | bytes = sys.stdin.buffer.read() if event == "-" else event
    if isinstance(asked, bytes) and opened.event_column != "document":
        asked = asked.decode(errors="replace")
    opened.parse_event(asked)  # its error texts have no number of the event
    say(opened.explain(asked, number))


def info(
    index: Annotated[Path, typer.Argument(help="A saved index.")],
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Check every value, for an index that you do not trust."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the contents, settings and sizes of a saved index."""
    import matchyard as my
    from matchyard import shards

    version = shards.current_version(index)
    facts = {
        "version": version,
        "versions": " ".join(one.name for one in shards.history(index)),
        "applied": shards.applied_in(shards.manifest_of(index, version)),
        **my.open(index, verify=verify or "auto", version=version).info(),
    }
    if as_json:
        print(json.dumps(facts))
        return
    for name, value in facts.items():
        text = f"{value:,}" if isinstance(value, int) else str(value)
        say(f"{name:14} {text}")
