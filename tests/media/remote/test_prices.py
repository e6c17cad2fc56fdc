"""The price of a request in bytes is arithmetic on the first answers of a host."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.media.remote import _prices
from framefeed.media.remote._prices import (
    DEFAULT_GAP_BYTES,
    FEWEST_ANSWERS,
    GAP_PRICES,
    LEAST_BODY_BYTES,
    LEAST_GAP_BYTES,
    MOST_ANSWERS,
    MOST_GAP_BYTES,
    AnswerTime,
    GapPrices,
    price_gap,
)
from tests.decode.forks import Child
from tests.media.remote.faults import FaultServer
from tests.media.remote.getting import get

SECONDS = st.floats(0, 100)
ANSWERS = st.lists(st.builds(AnswerTime, st.integers(0, 2**23), SECONDS, SECONDS), max_size=20)
MB = 10**6


def answers_at(latency: float, rate: float, sizes: list[int]) -> list[AnswerTime]:
    return [AnswerTime(size, latency, size / rate) for size in sizes]


@pytest.mark.parametrize(
    ("latency", "rate", "gap"),
    [
        (0.020, 50 * MB, 1_000_000),
        (0.020, 10 * MB, 200_000),
        (0.005, 50 * MB, 250_000),
        (0.001, 10 * MB, LEAST_GAP_BYTES),
        (0.2, 100 * MB, MOST_GAP_BYTES),
    ],
)
def test_a_gap_costs_as_much_as_a_request(latency: float, rate: float, gap: int) -> None:
    sizes = [70_000, 300_000, MB, 8 * MB]
    assert price_gap(answers_at(latency, rate, sizes)) == gap


@given(ANSWERS)
def test_it_is_bounded_and_the_default_at_first(answers: list[AnswerTime]) -> None:
    gap = price_gap(answers)
    if sum(each.nbytes >= LEAST_BODY_BYTES for each in answers) < FEWEST_ANSWERS:
        assert gap == DEFAULT_GAP_BYTES
    assert LEAST_GAP_BYTES <= gap <= MOST_GAP_BYTES
    assert price_gap(answers) == gap
    assert price_gap(answers[::-1]) == pytest.approx(gap, abs=1)  # Sums of floats depend on their order.


@given(ANSWERS, st.floats(1, 10))
def test_it_grows_with_the_wait_and_falls_with_the_time_of_bodies(answers: list[AnswerTime], factor: float) -> None:
    slower = [each._replace(first_seconds=each.first_seconds * factor) for each in answers]
    longer = [each._replace(body_seconds=each.body_seconds * factor) for each in answers]
    assert price_gap(longer) - 1 <= price_gap(answers) <= price_gap(slower) + 1


def test_one_late_answer_changes_little() -> None:
    answers = answers_at(0.02, 50 * MB, [MB] * 9)
    assert price_gap([*answers, AnswerTime(MB, 30.0, MB / (50 * MB))]) == price_gap(answers)


def test_hosts_are_priced_apart_by_their_first_answers() -> None:
    prices, slow = GapPrices(), AnswerTime(MB, 0.02, 0.1)
    for _ in range(MOST_ANSWERS):
        prices.learn("https://user:secret@one/a", slow)
        prices.learn("https://two/a", AnswerTime(100, 0.02, 0.0))
    for _ in range(100):
        prices.learn("https://one/b", AnswerTime(MB, 9.0, 0.0001))
    assert prices.find_gap("https://one/c") == price_gap([slow] * MOST_ANSWERS) == 200_000
    assert prices.find_gap("https://two/c") == prices.find_gap("s3://three/c") == DEFAULT_GAP_BYTES


def test_answers_are_learnt_from_and_a_child_begins_anew(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def note(answers: Any) -> int:
        seen.append(list(answers))
        return 77

    monkeypatch.setattr(_prices, "price_gap", note)
    for _ in range(2):
        get(server.url + "/a.mp4", 0, 100_000)
    (first, second) = seen[-1]
    assert first.nbytes == second.nbytes == 100_000
    assert min(first.first_seconds, first.body_seconds, second.first_seconds, second.body_seconds) > 0
    assert GAP_PRICES.value.find_gap(server.url) == 77
    assert Child(lambda: str(GAP_PRICES.value.find_gap(server.url))).report() == str(DEFAULT_GAP_BYTES)
