"""What matches give, whatever the width of the keys in their parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from matchyard.matches import Matches, Part

NARROW = Part(np.array([0, 2, 2]), np.array([7, -9], np.int32), 3)
WIDE = Part(np.array([0, 1]), np.array([1 << 40], np.int64), 4)


@pytest.mark.parametrize("parts", [[NARROW], [NARROW, NARROW], [NARROW, WIDE], [WIDE, NARROW], []])
def test_keys_are_as_wide_as_needed_and_of_64_bits_in_arrow(parts: list[Part]) -> None:
    found = Matches(parts)
    wanted = Matches([part._replace(found=part.keys.astype(np.int64)) for part in parts])
    assert found.keys.dtype == (np.int64 if any(part is WIDE for part in parts) else np.int32)
    assert found.keys.tolist() == wanted.keys.tolist()
    assert found.to_lists() == wanted.to_lists()
    assert found.to_arrow().equals(wanted.to_arrow())
    assert found.to_arrays().equals(wanted.to_arrays())
    assert found.work == wanted.work


def test_keys_with_names_may_be_narrow() -> None:
    names = pa.array(["ada", "bob"], pa.large_string())
    found = Matches([Part(np.array([0, 2]), np.array([1, 0], np.int32))], names)
    assert found.to_lists() == [["bob", "ada"]]
    assert found.to_arrow()["key"].to_pylist() == ["bob", "ada"]
    assert found.to_arrays().to_pylist() == [["bob", "ada"]]
