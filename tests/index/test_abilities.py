"""What algorithms can do beyond the contract: each ability is that of some, and `configure` knows whose."""

from __future__ import annotations

import pytest

import matchyard as my
from matchyard.engine import Abilities, abilities_of, configure, find_algorithm, find_engine

ALGORITHMS = [(name, one) for name in my.ENGINES for one in find_engine(name).algorithms]


@pytest.mark.parametrize("ability", Abilities._fields)
def test_every_ability_is_that_of_some_algorithm(ability: str) -> None:
    devices = [("cpu", name, one) for name, one in ALGORITHMS] + [("gpu", "tags", "rarest")]
    found = [find_algorithm(find_engine(name), one, device) for device, name, one in devices]
    able = [getattr(abilities_of(one), ability) is not None for one in found]
    assert any(able)
    assert not all(able)


def test_a_configured_index_knows_what_its_algorithm_can() -> None:
    rarest, scan = configure("tags", "rarest", {}), configure("tags", "scan", {})
    assert rarest.abilities.join is not None
    assert scan.abilities.join is None
    assert configure("predicates", "hem", {}).abilities.accept is not None
    assert configure("predicates", "tiles", {}).abilities == abilities_of(
        find_algorithm(find_engine("predicates"), "tiles")
    )
