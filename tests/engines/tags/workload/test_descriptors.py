"""Normalisation, amplification and synonyms: their chances, and that only numbers decide."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import matchyard as my
from matchyard.engines.tags.workload.descriptors import LANGUAGES, copies, expand

LONG = [f"t{place}" for place in range(40)]


def plain(tag: str) -> str:
    return tag.rpartition("_")[2]


def many(row: list[str], n: int = 9000, **options: int) -> list[list[str]]:
    """What becomes of `n` equal descriptors, one copy each unless `options` say otherwise."""
    options = {"factor": 1, **options}
    tags, _ = expand(pa.array([row] * n), np.arange(n), seed=1, **options)
    return tags.to_pylist()


def test_five_tags_are_kept_and_up_to_ten_more() -> None:
    rows = [[plain(tag) for tag in row] for row in many(LONG)]
    assert {len(row) for row in rows} == set(range(5, 16))
    assert all(row[:5] == LONG[:5] for row in rows)
    assert all(row == sorted(row, key=LONG.index) for row in rows)


def test_the_chance_of_a_further_tag_falls_exponentially() -> None:
    rows = [{plain(tag) for tag in row} for row in many(LONG)]
    for place, chance in [(5, 0.8), (6, 0.64), (8, 0.41), (11, 0.21)]:
        assert np.mean([LONG[place] in row for row in rows]) == pytest.approx(chance, abs=0.03)


@pytest.mark.parametrize("n_tags", [0, 1, 4, 5])
def test_short_descriptors_stay_as_they_are(n_tags: int) -> None:
    assert {tuple(map(plain, row)) for row in many(LONG[:n_tags], n=50)} == {tuple(LONG[:n_tags])}


def test_none_one_or_two_tags_are_replaced_with_equal_chances() -> None:
    rows = many(LONG[:4], n_languages=1)
    replaced = [[tag for tag in row if tag.startswith("sy")] for row in rows]
    shares = np.bincount([len(tags) for tags in replaced]) / len(rows)
    np.testing.assert_allclose(shares, [1 / 3, 1 / 3, 1 / 3], atol=0.02)
    first = [tag.startswith("sy1_") for tags in replaced for tag in tags]
    assert np.mean(first) == pytest.approx(0.5, abs=0.02)
    for tag in LONG[:4]:  # whichever it is, a quarter of one replacement on average
        found = [tag in map(plain, tags) for tags in replaced]
        assert np.mean(found) == pytest.approx(0.25, abs=0.02)


def test_a_single_tag_is_replaced_in_two_cases_of_three() -> None:
    rows = many(["jazz"], n_languages=1)
    assert np.mean([row != ["jazz"] for row in rows]) == pytest.approx(2 / 3, abs=0.02)
    assert {tag for row in rows for tag in row} == {"jazz", "sy1_jazz", "sy2_jazz"}


def test_english_keeps_about_one_copy_of_each_and_has_no_prefix() -> None:
    tags, spoken = expand(pa.array([["jazz"]] * 1000), np.arange(1000), seed=4)
    assert copies() == 12
    assert len(tags) == 12_000
    assert spoken.to_pylist().count("english") == pytest.approx(1000 * 12 * 360 / 4203, rel=0.02)
    for (tag,), language in zip(tags.to_pylist(), spoken.to_pylist()):
        prefix = "" if language == "english" else f"{language}_"
        assert tag in {f"{synonym}{prefix}jazz" for synonym in ("", "sy1_", "sy2_")}
    assert set(spoken.to_pylist()) == set(LANGUAGES)


def test_only_its_number_decides_what_becomes_of_a_descriptor() -> None:
    rows = [LONG[start : start + 8 + start % 9] for start in range(20)]
    numbers = np.array([(7 * place) ** 5 - 10**6 for place in range(20)])
    whole, _ = expand(pa.array(rows), numbers, seed=1)
    order = np.random.default_rng(1).permutation(20)
    for place in order.tolist():
        alone, _ = expand(pa.array([rows[place]]), numbers[[place]], seed=1)
        assert alone.to_pylist() == whole.to_pylist()[12 * place : 12 * place + 12]
    assert expand(pa.array(rows), numbers, seed=2)[0] != whole


def test_repeated_tags_count_once_and_missing_ones_not_at_all() -> None:
    given = pa.array([["a", None, "a", "b"], None, []], pa.large_list(pa.large_string()))
    tags, _ = expand(given, np.arange(3), seed=1, n_languages=1)
    assert [[plain(tag) for tag in row] for row in tags.to_pylist()] == [["a", "b"], [], []]
    sliced, _ = expand(given[1:], np.arange(1, 3), seed=1, n_languages=1)
    assert sliced.to_pylist() == [[], []]


def test_tags_may_be_written_in_any_script() -> None:
    tags, _ = expand(pa.array([["żółw", "日本_語", ""]] * 9), np.arange(9), seed=1, n_languages=1)
    assert ["żółw", "日本_語", ""] in tags.to_pylist()


def test_the_workload_does_to_given_rows_what_it_does_to_its_own() -> None:
    work = my.workload("tags", "icn", 10, seed=1)
    tags, spoken = work.expand(pa.array([LONG]), np.array([3]))
    again, languages = expand(pa.array([LONG]), np.array([3]), seed=1)
    assert (tags, spoken, work.copies()) == (again, languages, 12)


@pytest.mark.parametrize("options", [{"n_languages": 0}, {"n_languages": 26}, {"factor": 0}])
def test_impossible_amplification_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(my.UsageError, match="expected"):
        expand(pa.array([LONG]), np.array([3]), seed=1, **options)
