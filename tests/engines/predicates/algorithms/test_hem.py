"""hem: the worked example of the paper, the work that the groups save, and its bitsets."""

from __future__ import annotations

import numpy as np
import pytest

from matchyard.engines.predicates.algorithms import hem
from matchyard.engines.predicates.algorithms.shared import intervals
from matchyard.errors import UsageError
from tests.engines.predicates import interval_cases as cases


def code(value: float) -> int:
    """The code of a value of the paper's example, in hundredths."""
    return 2 * round(100 * value)


A1, A2 = 0, 1
SAMPLE = [  # Table 1 of the paper
    [(A1, 0.9, 0.95), (A2, 0.8, 0.9)],
    [(A1, 0.0, 0.3), (A2, 0.5, 0.7)],
    [(A1, 0.63, 0.69), (A2, 0.1, 0.2)],
    [(A1, 0.38, 0.76)],
    [(A2, 0.4, 0.57)],
]
SAMPLE_OPTIONS = hem.Options(n_cells=16, n_groups=4)


@pytest.fixture
def sample() -> hem.Table:
    subscriptions = cases.filters(
        [[(slot, code(low), code(high)) for slot, low, high in row] for row in SAMPLE]
    )
    stored = intervals.store(subscriptions, np.arange(1, 6), "hem")
    zero, one = np.zeros(2), np.full(2, float(code(1)))
    domains = intervals.domains_between(np.arange(2, dtype=np.int32), zero, one)
    return hem.build(stored, domains, SAMPLE_OPTIONS)


def bits(table: hem.Table, attribute: int, end: int, group: int) -> str:
    """Bitset B_group as the paper writes it, the first subscription on the left."""
    word = int(table.bitsets[attribute, end, group - 1, 0])
    return "".join(str(word >> row & 1) for row in range(5))


def cell(table: hem.Table, attribute: int, end: int, number: int) -> list[int]:
    """The subscriptions in cell c_number."""
    at = (attribute * 2 + end) * 16 + number - 1
    start = table.cell_start[at]
    return [int(row) + 1 for row in table.ids[start : start + table.cell_size[at]]]


def test_the_example_of_the_paper_finds_s4_only(sample: hem.Table) -> None:
    event = cases.batch([[(A1, code(0.64)), (A2, code(0.32))]])
    assert cases.matches_of(hem, sample, event, SAMPLE_OPTIONS) == [[4]]


def test_the_first_subscription_of_the_example_is_in_the_cells_that_the_paper_names(
    sample: hem.Table,
) -> None:
    assert cell(sample, A1, hem.LOW, 15) == [1]
    assert cell(sample, A1, hem.HIGH, 16) == [1]
    assert cell(sample, A1, hem.LOW, 11) == [3]
    assert cell(sample, A2, hem.LOW, 7) == [5]


def test_the_bitsets_of_the_example_are_those_that_the_paper_names(sample: hem.Table) -> None:
    assert [bits(sample, A1, hem.LOW, group)[0] for group in (1, 2, 3, 4)] == ["1"] * 4
    assert [bits(sample, A1, hem.HIGH, group)[0] for group in (1, 2, 3, 4)] == list("0001")
    assert bits(sample, A1, hem.LOW, 1) == "10000"
    assert bits(sample, A1, hem.HIGH, 2) == "01000"
    assert bits(sample, A2, hem.LOW, 2) == "11000"
    assert bits(sample, A2, hem.HIGH, 1) == "00100"


def test_the_event_of_the_example_marks_nothing_one_by_one(sample: hem.Table) -> None:
    event = cases.batch([[(A1, code(0.64))]])
    assert hem.marks(sample, event, SAMPLE_OPTIONS) == 0


def test_doubling_the_groups_halves_the_marks() -> None:
    subscriptions, keys, events = cases.hem_workload(20_000, 40)
    marks, matches = {}, []
    for n_groups in (0, 1, 2, 4, 8, 16, 32):
        options = hem.Options(n_groups=n_groups)
        table = hem.compile(subscriptions, keys, None, options)
        marks[n_groups] = hem.marks(table, events, options)
        matches.append(cases.matches_of(hem, table, events, options))
    assert all(found == matches[0] for found in matches)
    assert marks[1] == marks[2]  # a single group covers half of the cells
    for n_groups in (2, 4, 8, 16):
        assert 0.4 < marks[2 * n_groups] / marks[n_groups] < 0.6
    assert marks[32] / marks[0] < 0.07


def test_an_absent_attribute_costs_no_marks() -> None:
    subscriptions, keys, _ = cases.hem_workload(1000, 1)
    table = hem.compile(subscriptions, keys, None, hem.Options())
    nothing = cases.batch([[]])
    assert hem.marks(table, nothing, hem.Options()) == 0
    assert cases.matches_of(hem, table, nothing, hem.Options()) == [[]]


def test_an_inserted_table_has_the_bitsets_of_a_built_one(sample: hem.Table) -> None:
    rows = cases.filters([[(A1, code(0.1), code(0.2))], [(A2, code(0.9), code(1))]])
    table = hem.insert(sample, rows, np.array([6, 7]), SAMPLE_OPTIONS)
    assert [bits(table, A1, hem.LOW, group) for group in (3, 4)] == ["10110", "11110"]
    words = table.bitsets[:, :, :, 0] >> np.uint64(5)
    assert words[A1, hem.LOW].tolist() == [0, 0, 0, 1]
    assert words[A1, hem.HIGH].tolist() == [1, 1, 1, 1]
    assert words[A2, hem.LOW].tolist() == [2, 2, 2, 2]
    table = hem.remove(table, np.array([5, 6]), SAMPLE_OPTIONS)
    assert not (table.bitsets[:, :, :, 0] >> np.uint64(5)).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (hem.Options(n_cells=0), '"n_cells" must be at least 1, not 0'),
        (hem.Options(n_groups=-1), '"n_groups" must be from 0 to "n_cells"'),
        (hem.Options(n_cells=10, n_groups=11), "not 11"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: hem.Options, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hem.check(options)
