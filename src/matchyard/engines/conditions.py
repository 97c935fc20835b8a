"""Conditions that several languages share: and, or, not over parts of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Part_co = TypeVar("Part_co", covariant=True)


@dataclass(frozen=True, slots=True)
class And(Generic[Part_co]):
    """All parts hold; without parts: always."""

    parts: tuple[Part_co, ...]


@dataclass(frozen=True, slots=True)
class Or(Generic[Part_co]):
    """One part holds; without parts: never."""

    parts: tuple[Part_co, ...]


@dataclass(frozen=True, slots=True)
class Not(Generic[Part_co]):
    """The part does not hold."""

    part: Part_co
