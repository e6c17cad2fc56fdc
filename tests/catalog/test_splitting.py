"""Laws of `Catalog.split`: what parts have, how near their sizes are, and what stays when rows are added."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from framefeed.catalog._catalog import Catalog
from framefeed.errors import UsageError
from tests.catalog.synthetic import catalog


@pytest.fixture(autouse=True)
def warned() -> Iterator[list[warnings.WarningMessage]]:
    """Few rows leave parts without a class: laws hold for them too."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        yield shown


def make(labels: Sequence[str | None], **columns: Sequence[Any]) -> Catalog:
    return catalog([f"{number:05d}.mp4" for number in range(len(labels))], labels=list(labels), **columns)


def split(whole: Catalog, weights: Sequence[int], seed: int = 0, **options: Any) -> list[set[str]]:
    parts = whole.split([weight / sum(weights) for weight in weights], seed, **options)
    return [{part.name(row) for row in range(len(part))} for part in parts]


def share_by_remainders(count: int, weights: Sequence[int]) -> list[int]:
    """Share by largest remainders, exactly; of equal ones the first."""
    ideals = [Fraction(count * weight, sum(weights)) for weight in weights]
    sizes = [int(ideal) for ideal in ideals]
    for part in sorted(range(len(weights)), key=lambda part: sizes[part] - ideals[part])[: count - sum(sizes)]:
        sizes[part] += 1
    return sizes


rows_of_persons = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), max_size=40)
weights_of_parts = st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any)


@given(st.lists(st.sampled_from("aaabc"), max_size=40), weights_of_parts, st.integers(0, 99))
@example(["a", "b"] * 3, [8, 2], 0)
@example(["a"] * 100, [29, 71], 0)
@example([*"aabccccddddddddd"], [5, 2, 1, 1, 1], 0)
def test_sizes_are_the_nearest_for_all_and_for_every_class(labels: list[str], weights: list[int], seed: int) -> None:
    whole = make(labels)
    for options in ({}, {"stratify": False}):
        parts = split(whole, weights, seed, **options)
        assert [len(part) for part in parts] == share_by_remainders(len(labels), weights)
        assert set().union(*parts) == set(whole.table["source"].to_pylist())
    label_of = dict(zip(whole.table["source"].to_pylist(), labels, strict=True))
    for part, weight in zip(split(whole, weights, seed), weights, strict=True):
        counts = Counter(label_of[source] for source in part)
        for label, count in Counter(labels).items():
            assert abs(counts[label] - Fraction(count * weight, sum(weights))) < 1


@given(st.data(), weights_of_parts, st.integers(0, 99))
def test_parts_do_not_depend_on_the_order_of_rows(data: st.DataObject, weights: list[int], seed: int) -> None:
    rows = data.draw(rows_of_persons)
    whole = make([label for _, label in rows], person=[person for person, _ in rows])
    order = data.draw(st.permutations(range(len(rows))))
    for options in ({}, {"by": "person"}, {"by": "person", "stratify": False}):
        assert split(whole, weights, seed, **options) == split(whole.take(order), weights, seed, **options)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), max_size=60), weights_of_parts, st.integers(0, 99)
)
def test_groups_stay_whole_and_sizes_are_within_groups(
    rows: list[tuple[int, str]], weights: list[int], seed: int
) -> None:
    whole = make([label for _, label in rows], person=[person for person, _ in rows])
    largest = max(Counter(person for person, _ in rows).values(), default=0)
    for options, groups in (({"stratify": False}, 1), ({}, 2)):
        parts = whole.split([weight / sum(weights) for weight in weights], seed, "person", **options)  # type: ignore[call-overload]
        persons = [set(part.column_values("person").tolist()) for part in parts]
        assert sum(map(len, persons)) == len(set().union(*persons))
        assert sum(map(len, parts)) == len(rows)
        for part, weight in zip(parts, weights, strict=True):
            assert abs(len(part) - Fraction(len(rows) * weight, sum(weights))) < groups * largest + 1


@pytest.mark.slow
@given(
    st.lists(st.sampled_from("aaabc"), min_size=1, max_size=40), st.lists(st.sampled_from("abcd"), max_size=4),
    weights_of_parts, st.integers(0, 99),
)  # fmt: skip
def test_rows_that_are_added_move_few_others(labels: list[str], more: list[str], weights: list[int], seed: int) -> None:
    for options, cuts in (({"stratify": False}, 1), ({}, len({*labels, *more}))):
        before, after = (split(make(each), weights, seed, **options) for each in (labels, labels + more))
        moved = sum(len(old - new) for old, new in zip(before, after, strict=True))
        assert moved <= (len(weights) - 1) * (len(more) + cuts)


def test_a_group_counts_for_the_class_of_most_of_its_rows() -> None:
    labels = [label for group in range(20) for label in ("aab" if group % 2 else "bbb")]
    whole = make(labels, person=[row // 3 for row in range(60)])
    for seed in range(5):
        for part in whole.split([0.5, 0.5], seed, by="person"):
            assert Counter(part.table["label"].to_pylist()) == {"a": 10, "b": 20}


def test_what_whole_groups_cannot_give_in_one_class_they_give_in_another() -> None:
    whole = make([f"{row // 2}" for row in range(40)], person=[row // 2 for row in range(40)])
    assert [len(part) for part in whole.split([0.5, 0.5], 0, by="person")] == [20, 20]


def test_labels_stratify_unless_told_not_to(warned: list[warnings.WarningMessage]) -> None:
    whole = make(["rare"] * 10 + ["common"] * 90)

    def count_rare(**options: Any) -> list[int]:
        first = [whole.split([0.5, 0.5], seed, **options)[0] for seed in range(5)]
        return [part.table["label"].to_pylist().count("rare") for part in first]

    assert count_rare() == count_rare(stratify="label") == [5] * 5
    assert count_rare(stratify=False) != [5] * 5
    assert not warned


@pytest.mark.parametrize("stratify", [True, 1, ["label"]])
def test_stratify_is_a_column_or_false(stratify: Any) -> None:
    with pytest.raises(UsageError, match="stratify: expected the name of a column, None or False"):
        make("ab").split([0.5, 0.5], 0, stratify=stratify)


def test_classes_missing_from_a_part_are_one_warning(warned: list[warnings.WarningMessage]) -> None:
    whole = make([*"aaabbb", None])
    assert [len(part) for part in whole.split([0.8, 0.2], seed=0)] == [6, 1]
    (shown,) = warned
    assert shown.filename == __file__
    message = str(shown.message)
    assert message.count("came into part") == 1
    assert "None" not in message.partition(": they have")[0]
    assert "stratify=False" in message
    warned.clear()
    whole.split({"train": 0.8, "val": 0.2}, seed=0, stratify=False)
    make("ab" * 10).split([0.9, 0.1, 0.0], seed=0)
    assert not warned
    make([f"{number}" for number in range(10)]).split({"train": 0.8, "val": 0.2}, seed=0)
    assert "and 5 more came into part 'val'" in str(warned[0].message)
    assert len(warned) == 1
