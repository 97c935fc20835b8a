"""Parse the paths in the text of a twig: steps to an element, an attribute or a text."""

from __future__ import annotations

from typing import NamedTuple

from matchyard.engines.twigs.language.model import ANY, Axis, Comparison, Source, Test
from matchyard.engines.twigs.language.normal_form import Condition, Path, Step
from matchyard.engines.twigs.language.xpath_tokens import Tokens

_AXES = ("child", "descendant", "attribute", "self", "descendant-or-self")
_OTHER_AXES = frozenset(
    {"ancestor", "ancestor-or-self", "following", "following-sibling", "namespace", "parent",
     "preceding", "preceding-sibling"}
)  # fmt: skip
_NODE = ["node", "(", ")"]
_PARTS = {
    "comment": "node", "node": "node", "processing-instruction": "node",
    "position": "position", "last": "position",
}  # fmt: skip
_STEPS = frozenset({"*", "@", ".", ".."})


class Operand(NamedTuple):
    """A path, and the part of its last element that is tested."""

    steps: tuple[Step, ...]
    source: Source = Source.VALUE
    attribute: str | None = None
    axis: Axis = Axis.CHILD  # DESCENDANT: also the descendants of the last element
    is_document: bool = False  # it starts at the document and has no steps

    def tested(self, how: Comparison, operand: str | float | None) -> Path:
        """The condition that the path exists, or satisfies a test."""
        if self.source == Source.VALUE and how == Comparison.EXISTS:
            return Path(self.steps)
        test = Step(self.axis, Test(self.source, self.attribute, how, operand))
        if self.is_document:
            return Path((Step(Axis.CHILD, ANY), test))  # the value of the root is the document's
        return Path((*self.steps, test))


class Paths(Tokens):
    """Parses paths; the subclass parses the part between brackets."""

    n_predicates = 0  # brackets within each other

    def predicate(self) -> Condition:
        """Read a condition between brackets."""
        raise NotImplementedError

    def path(self) -> Operand:
        """Read a path."""
        steps: list[Step] = []
        is_deep = self.start()
        if is_deep is None:
            return Operand((), is_document=True)
        while True:
            is_deep, end = self.step(is_deep, steps)
            if end or self.token not in ("/", "//"):
                break
            is_deep = is_deep or self.token == "//"
            self.at += 1
        if end:
            return end
        if is_deep:  # `a//.`: with all nodes below, texts among them
            self.fail("a step other than . after //", self.at - 1, "axis")
        return Operand(tuple(steps), is_document=not steps and self.n_predicates == 0)

    def start(self) -> bool | None:
        """True if the path starts at any depth; None if it is `/` alone, the document."""
        is_top, token = self.n_predicates == 0, self.token
        if token not in ("/", "//"):
            is_at_document = token == "." or (token == "self" and self.following() == "::")
            return is_top and not is_at_document
        self.at += 1
        if token == "/" and is_top and not self.is_name() and self.token not in _STEPS:
            return None
        return token == "//"

    def step(self, is_deep: bool, steps: list[Step]) -> tuple[bool, Operand | None]:
        """Read one step; returns true if the next one is at any depth, and the path if it ended in
        an attribute or text."""
        if self.token == "..":
            self.unsupported("axis")
        if self.token == ".":
            self.at += 1
            return self.stayed(is_deep)
        name = self.axis() if self.following() == "::" else ""
        if name in ("self", "descendant-or-self"):
            self.at += 3
            return self.stayed(is_deep or name != "self")
        is_deep = is_deep or name == "descendant"
        if self.token == "@" or name == "attribute":
            return False, self.attribute(is_deep, steps, name)
        if self.following() == "(":
            return False, self.texts(is_deep, steps)
        element = self.name("a step, such as title, *, @year or text()")
        conditions = []
        while self.token == "[":
            conditions.append(self.predicate())
        steps.append(Step(Axis(is_deep), element, tuple(conditions)))
        return False, None

    def stayed(self, is_deep: bool) -> tuple[bool, None]:
        """Finish a step that stays at its element."""
        if self.token == "[":
            self.unsupported("predicate")
        return is_deep, None

    def axis(self) -> str:
        """Read an axis that is written out."""
        name, at = self.token, self.at
        if name in _OTHER_AXES:
            self.unsupported("axis")
        if name not in _AXES:
            self.fail(f"one of the axes {', '.join(_AXES)}")
        self.at += 2
        if name in ("self", "descendant-or-self") and self.all[self.at : self.at + 3] != _NODE:
            self.unsupported("axis", at)
        return name

    def attribute(self, is_deep: bool, steps: list[Step], axis: str) -> Operand:
        """Read `@name` or `attribute::name`, the end of a path."""
        at = self.at
        self.at += not axis
        if self.token == ANY:
            self.unsupported("wildcard")
        return self.end(at, is_deep, steps, Source.ATTRIBUTE, self.name("the name of an attribute"))

    def texts(self, is_deep: bool, steps: list[Step]) -> Operand:
        """Read `text()`, the end of a path."""
        at, token = self.at, self.token
        if token != "text":
            self.unsupported(_PARTS.get(token, "function"))
        self.at += 2
        self.expect(")", "), as in text()")
        return self.end(at, is_deep, steps, Source.TEXT, None)

    def end(
        self, at: int, is_deep: bool, steps: list[Step], source: Source, attribute: str | None
    ) -> Operand:
        """The path that ends in an attribute or text of its last element, or of any descendant."""
        if self.token == "[":
            self.unsupported("predicate")
        if self.token in ("/", "//"):
            self.fail("nothing below an attribute or text")
        if steps or self.n_predicates:
            return Operand(tuple(steps), source, attribute, Axis(is_deep))
        if not is_deep:
            self.unsupported("document", at)
        return Operand((Step(Axis.DESCENDANT, ANY),), source, attribute)

    def name(self, expected: str) -> str:
        """Read the name of an element or attribute, or `*`."""
        name = self.token
        if name.endswith(":*"):
            self.unsupported("wildcard")
        if name != ANY and not self.is_name():
            self.fail(expected)
        self.at += 1
        return name
