"""Predicates as text: `area = "north" and temp > 30 or wind > 20`.

    predicate   conjunction or conjunction …
    conjunction part and part …
    part        not part | (predicate) | true | false | exists name | name exists | name [not] test
    test        = == != <> < <= > >= value | prefix suffix contains wildcard text
                in [low, high] | in {value or test, …} | in cidr text
                except value | except {value, …} | except prefix suffix wildcard {text, …}

`ignoring case` may follow a text. A round bracket of an interval excludes its end. Keywords may be in
any case. A name that is not an identifier (with dots and dashes inside) stands between backticks.
"""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

from matchyard.engines.conditions import And, Not, Or
from matchyard.engines.predicates.language.canonical import check_name, make_test, refused
from matchyard.engines.predicates.language.examples import PREDICATE
from matchyard.engines.predicates.language.model import Constraint, Test
from matchyard.engines.predicates.language.normal_form import Condition, constrain
from matchyard.errors import ParseError, place_after

_IDENTIFIER = r"[^\W\d]\w*(?:[.-]\w+)*"
_TOKEN = re.compile(
    rf"""\s*(
        "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | `(?:[^`\\]|\\.)*`
      | [-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)? | [-+]inf\b
      | {_IDENTIFIER} | <= | >= | <> | != | == | \S )""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN_NAME = re.compile(_IDENTIFIER)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"} | {c: c for c in "/\\\"'`"}
_COMPARISONS = {
    "=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip
_FOLLOWING = frozenset({"and", "or", ")", ""})  # among others
_MATCHERS = ("prefix", "suffix", "contains", "wildcard")
_WORDS = {"true": True, "false": False, "null": None, "inf": float("inf"), "nan": float("nan")}
RESERVED = frozenset({"and", "or", "not", "exists", "true", "false"})  # no names without backticks
_MAX_DEPTH = 100
_OPERATOR = "an operator such as = or in"
_VALUE = 'a value such as 30 or "north"'
_LONGEST = 40  # characters of a text in an error
EXAMPLE = f"for example: {PREDICATE}"


def parse_text(text: str) -> Condition:
    """The condition that a text stands for."""
    parser = _Parser(text)
    condition = parser.disjunction()
    if parser.tokens[parser.at]:
        parser.fail(parser.at, "and, or, or the end")
    return condition


def is_plain_name(name: str) -> bool:
    """True if the name needs no backticks."""
    return _PLAIN_NAME.fullmatch(name) is not None and name.lower() not in RESERVED


class _Parser:
    """Recursive descent over the tokens, with empty tokens after the last one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [*_TOKEN.findall(text), "", ""]
        self.at = 0
        self.depth = 0

    def disjunction(self) -> Condition:
        parts = [self.conjunction()]
        while self.tokens[self.at].lower() == "or":
            self.at += 1
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def conjunction(self) -> Condition:
        parts = [self.part()]
        while self.tokens[self.at].lower() == "and":
            self.at += 1
            parts.append(self.part())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def part(self) -> Condition:
        word = self.tokens[self.at].lower()
        op = _COMPARISONS.get(self.tokens[self.at + 1]) if word[:1].isalpha() else None
        if op and word not in RESERVED and (simple := self.simple(op)):
            return simple
        if word in ("(", "not"):
            return self.nested(word)
        if word == "exists":
            self.at += 1
            return constrain(self.name(), [Test("exists", None)])
        if word in ("true", "false"):
            self.at += 1
            return And(()) if word == "true" else Or(())
        name = self.name()
        is_negated = self.tokens[self.at].lower() == "not"
        self.at += is_negated
        condition = constrain(name, self.tests())
        return Not(condition) if is_negated else condition

    def simple(self, op: str) -> Constraint | None:
        """`name op value` with a plain value, or None: the most frequent form has a fast path."""
        name, _, token, after = self.tokens[self.at : self.at + 4]
        value: Any
        if token.isdecimal() and token.isascii() and len(token) < 19:
            value = int(token)
        elif token[:1] in ('"', "'") and len(token) > 1 and token.isascii() and "\\" not in token:
            value = token[1:-1]
        else:
            return None
        if after not in _FOLLOWING:
            return None
        self.at += 3
        return Constraint(name, (Test(op, value),))

    def nested(self, word: str) -> Condition:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.fail(self.at, f"at most {_MAX_DEPTH} parentheses and nots within each other")
        self.at += 1
        if word == "not":
            condition: Condition = Not(self.part())
        else:
            condition = self.disjunction()
            self.expect(")", "and, or, or )")
        self.depth -= 1
        return condition

    def name(self) -> str:
        token: str = self.tokens[self.at]
        if not is_plain_name(token):
            if token[:1] != "`" or len(token) == 1:
                self.fail(self.at, "the name of an attribute")
            self.at += 1
            name = self.unquote(token)
            try:
                return check_name(name)
            except ParseError as error:
                raise self.placed(self.at - 1, error, self.piece(self.at - 1)) from None
        self.at += 1
        return token

    def tests(self) -> list[Test]:
        """The tests after a name."""
        token = self.tokens[self.at]
        if token in _COMPARISONS:
            return [self.comparison(_COMPARISONS[token])]
        word = token.lower()
        if word == "in":
            self.at += 1
            if self.tokens[self.at] == "{":
                return self.listed(self.element)
            if self.tokens[self.at].lower() == "cidr":
                return [self.operation("cidr")]
            return [self.interval()]
        if word in _MATCHERS:
            return [self.operation(word)]
        if word == "except":
            return [self.exception()]
        if word == "exists":
            self.at += 1
            return [Test("exists", None)]
        return self.fail(self.at, _OPERATOR)

    def comparison(self, op: str) -> Test:
        at = self.at = self.at + 1
        value = self.value()
        if self.tokens[self.at].lower() == "ignoring" and self.ignoring_case():
            if op != "=":
                self.fail(
                    at - 1, '= or except where case is ignored, as in: x except "ab" ignoring case'
                )
            op = "ignore-case"
        return self.test(at, op, value)

    def operation(self, op: str) -> Test:
        """`prefix "ab"` and the like."""
        at = self.at = self.at + 1
        value = self.value()
        if self.tokens[self.at].lower() == "ignoring" and op != "cidr" and self.ignoring_case():
            op += " ignore-case"
        return self.test(at, op, value)

    def interval(self) -> Test:
        at, start = self.at, self.tokens[self.at]
        if start not in ("[", "("):
            self.fail(at, "an interval such as [1, 9), a set such as {1, 2}, or cidr")
        self.at += 1
        low = self.value()
        self.expect(",", "a comma; an interval has two ends, such as [1, 9]")
        high = self.value()
        end = self.tokens[self.at]
        if end not in ("]", ")"):
            self.fail(self.at, "] or ); an interval has two ends, and a set is written {1, 2, 3}")
        self.at += 1
        return self.test(at, "between", (low, start == "(", high, end == ")"))

    def element(self) -> Test:
        """A member of a set: a value, or a test."""
        token = self.tokens[self.at]
        if token in ("[", "("):
            return self.interval()
        if token in _COMPARISONS:
            return self.comparison(_COMPARISONS[token])
        word = token.lower()
        if word in _MATCHERS or word == "cidr":
            return self.operation(word)
        if word == "except":
            return self.exception()
        if word == "exists":
            self.at += 1
            return Test("exists", None)
        return self.test(self.at, "=", self.value())

    def exception(self) -> Test:
        """`except {…}`, with a kind of pattern or not."""
        at = self.at = self.at + 1
        kind = self.tokens[at].lower()
        if kind in _MATCHERS:
            if kind == "contains":
                self.fail(at, 'prefix, suffix or wildcard; write except wildcard "*ab*"')
            self.at += 1
        values = self.listed(self.value) if self.tokens[self.at] == "{" else [self.value()]
        if kind in _MATCHERS:
            return self.test(at, f"not {kind}", values)
        ignores = self.tokens[self.at].lower() == "ignoring" and self.ignoring_case()
        return self.test(at, "not ignore-case" if ignores else "except", values)

    def listed(self, member: Any) -> list[Any]:
        """Members between braces."""
        self.at += 1
        members = [member()]
        while self.tokens[self.at] == ",":
            self.at += 1
            members.append(member())
        self.expect("}", "a comma or }")
        return members

    def ignoring_case(self) -> bool:
        self.at += 1
        if self.tokens[self.at].lower() != "case":
            self.fail(self.at, "case, as in: ignoring case")
        self.at += 1
        return True

    def value(self) -> Any:
        at, token = self.at, self.tokens[self.at]
        self.at = at + 1
        first = token[:1]
        if first in ('"', "'") and len(token) > 1:
            return self.unquote(token)
        if ("0" <= first <= "9") or (first in ("-", "+", ".") and len(token) > 1):  # ASCII only
            try:
                return int(token)
            except ValueError:
                if token.lstrip("+-").isdecimal():  # `int` refuses thousands of digits
                    self.fail(at, "an integer of at most 64 bits")
                value = float(token)
                if math.isinf(value) and "inf" not in token:
                    self.fail(at, "a number that a double can hold, or inf")
                return value
        word = token.lower()
        if word in _WORDS:
            return _WORDS[word]
        return self.fail(at, _VALUE)

    def unquote(self, token: str) -> str:
        if "\\" not in token:
            return token[1:-1]
        at = self.at - 1

        def replace(escape: re.Match[str]) -> str:
            code = escape[1]
            if len(code) == 5:
                return chr(int(code[1:], 16))
            if code not in _ESCAPED:
                self.fail(
                    at, rf"one of the escapes \n \t \r \b \f \/ \\ \" \' \` \u00e9, not \{code}"
                )
            return _ESCAPED[code]

        text = _ESCAPE.sub(replace, token[1:-1])
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    def test(self, at: int, op: str, value: Any) -> Test:
        try:
            return make_test(op, value)
        except ParseError as error:
            raise self.placed(at, error, self.piece(at)) from None

    def expect(self, token: str, expected: str) -> None:
        if self.tokens[self.at] != token:
            self.fail(self.at, expected)
        self.at += 1

    def fail(self, at: int, expected: str) -> NoReturn:
        token = self.tokens[at]
        found = _shorten(token) if token else "the end"
        message = (
            "found {found}; expected {expected}" if token else "it ends here; expected {expected}"
        )
        if token in ('"', "'", "`"):
            message = "found {found}, which is not closed; expected {expected}"
        raise self.placed(at, refused(message, found, expected), found)

    def piece(self, at: int) -> str:
        """The text from a token to the last one that was read."""
        tokens = list(_TOKEN.finditer(self.text))
        return _shorten(self.text[tokens[at].start(1) : tokens[self.at - 1].end(1)])

    def placed(self, at: int, error: ParseError, found: str) -> ParseError:
        """The error with the line of the text and a caret below the token."""
        starts = [token.start(1) for token in _TOKEN.finditer(self.text)]
        offset = starts[at] if at < len(starts) else len(self.text.rstrip())
        line, column = place_after(self.text[:offset])
        whole = self.text.split("\n")[line - 1]
        from_column = max(0, column - 61)
        return ParseError.of(
            "not a predicate: {where}: {reason}\n  {shown}\n  {caret}\nfor example: {example}",
            where=f"column {column}" if line == 1 else f"line {line}, column {column}",
            reason=error,
            shown=whole[from_column : column + 39].replace("\t", " "),
            caret=" " * (column - 1 - from_column) + "^",
            line=line,
            column=column,
            found=found,
            expected=error.expected,
            example=PREDICATE,
        )


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
