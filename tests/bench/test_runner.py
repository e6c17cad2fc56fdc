from math import comb
from typing import Any

import pytest

from framefeed.bench._printing import describe_closing, describe_row
from framefeed.bench._runner import (
    Comparison,
    Contender,
    Failures,
    Figure,
    Findings,
    Reading,
    Rounds,
    Row,
    Timings,
    compare_times,
    keep_best,
    measure,
    median_interval,
    rotate,
    run_row,
    settle,
)


class FakeClock:
    """Time passes only while a contender works."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def __call__(self) -> Reading:
        return Reading(self.cpu, self.wall)

    def spend(self, cpu: float, wall: float) -> None:
        self.cpu += cpu
        self.wall += wall


def contender(clock: FakeClock, name: str, seconds: float, group: str = "", **options: Any) -> Contender:
    def run(number: int) -> None:
        clock.spend(seconds * (1 + number % 3), 2 * seconds)

    return Contender(name, lambda: run, groups=(group,) if group else (), **options)


def timings_of(contenders: list[Contender], rounds: Rounds, clock: FakeClock) -> Timings:
    runs = {each.name: each.open() for each in contenders}
    return measure(contenders, runs, rounds, clock, lambda: None, Failures())


def test_ratios_are_taken_pair_by_pair() -> None:
    clock = FakeClock()
    timings = timings_of([contender(clock, "ours", 1.0), contender(clock, "peer", 2.0)], Rounds(20), clock)
    ratio = timings.ratio("peer", "ours")
    assert (ratio.median, ratio.low, ratio.high, ratio.count) == (2.0, 2.0, 2.0, 20)
    assert timings.ratio("peer", "ours", "wall").median == 2.0
    assert timings.median("ours", "wall") == 2.0
    assert compare_times(timings, "ours", "nothing") == {}


def test_what_cannot_be_best_of_its_group_stops_after_the_pilot() -> None:
    clock = FakeClock()
    contenders = [
        contender(clock, "ours", 1.0),
        contender(clock, "fast", 2.0, "peers"),
        contender(clock, "close", 2.4, "peers"),
        contender(clock, "slow", 9.0, "peers"),
        contender(clock, "alone", 9.0, "others"),
        contender(clock, "few", 0.1, most_rounds=2),
    ]
    timings = timings_of(contenders, Rounds(10, pilot=3, slack=1.3), clock)
    rounds = {name: len(runs) for name, runs in timings.of.items()}
    assert rounds == {"ours": 10, "fast": 10, "close": 10, "slow": 3, "alone": 10, "few": 2}
    assert timings.best(["fast", "close", "slow"]) == "fast"
    assert timings.ratio("slow", "ours").count == 3


def test_one_that_left_early_is_never_the_best() -> None:
    timings = Timings({"long": {0: Reading(2, 2), 1: Reading(2, 2)}, "left": {0: Reading(1, 1)}})
    assert timings.best(["long", "left"]) == "long"


def test_contenders_without_a_group_always_stay() -> None:
    timings = Timings({"a": {0: Reading(1, 1)}, "b": {0: Reading(100, 1)}})
    assert len(keep_best([Contender("a", print), Contender("b", print)], timings, 1.1)) == 2


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_rounds_rotate_the_order_of_contenders(count: int) -> None:
    names = [Contender(str(number), print) for number in range(count)]
    orders = [[c.name for c in rotate(names, number)] for number in range(2 * count)]
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    assert {order[0] for order in orders} == set(orders[0])
    for one, other in [(a.name, b.name) for a in names for b in names if a is not b]:
        before = sum(order.index(one) < order.index(other) for order in orders)
        assert before == count


@pytest.mark.parametrize("count", [1, 2, 5, 6, 20, 21, 60])
def test_the_interval_is_the_narrowest_of_order_statistics_with_the_coverage(count: int) -> None:
    interval = median_interval([float(value) for value in range(count)][::-1])
    rank = round(interval.low) + 1
    assert interval.high == count - rank
    assert interval.median == (count - 1) / 2
    assert interval.coverage == pytest.approx(1 - 2 * sum(comb(count, k) for k in range(rank)) / 2**count, abs=1e-12)
    if count >= 6:
        narrower = 1 - 2 * sum(comb(count, k) for k in range(rank + 1)) / 2**count
        assert narrower < 0.95 <= interval.coverage


def test_twenty_values_give_the_sixth_and_the_fifteenth() -> None:
    interval = median_interval([float(value) for value in range(1, 21)])
    assert (interval.low, interval.high, interval.median) == (6, 15, 10.5)
    written = Figure(interval, "ours", "theirs").as_json()
    numbers = {"median": 10.5, "low": 6.0, "high": 15.0, "coverage": 0.959, "pairs": 20}
    assert written == {**numbers, "ours": "ours", "against": "theirs"}


def test_no_round_is_begun_that_would_end_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("framefeed.bench._runner.time.perf_counter", lambda: clock[0])

    def work(number: int) -> None:
        clock[0] += 4.0

    row = Row("it", "it", [Contender("it", lambda: work)], clock=lambda: Reading(clock[0], clock[0]),
              between=lambda: None)  # fmt: skip
    for until, count in [(None, 6), (101.0, 1), (111.9, 2), (112.0, 3), (1000.0, 6)]:
        clock[0] = 100.0
        assert len(run_row(row, Rounds(pairs=6, until=until))["contenders"][0]["cpu_seconds"]) == count
    assert not Rounds(until=clock[0] + 1).has(2)


def test_settling_takes_a_clock() -> None:
    readings = iter([Reading(0, 0), Reading(5, 0), Reading(5, 0), Reading(5, 0)])
    settle(lambda: next(readings))
    assert next(readings, None) is None


# --- a whole row ----------------------------------------------------------------------------------


def make_row(clock: FakeClock, **options: Any) -> Row:
    """Ours, two peers, one of which is wrong, and one that fails as it is opened or as it runs."""

    def fail(number: int) -> None:
        raise RuntimeError("not today")

    contenders = [
        contender(clock, "ours", 1.0, amount=2),
        contender(clock, "right", 6.0, "peers", amount=4, library="a library"),
        contender(clock, "wrong", 0.1, "peers", amount=4, library="a library"),
        Contender("closed", lambda: fail(0), "a library"),
        Contender("failing", lambda: fail, "a library"),
    ]

    def conclude(timings: Timings) -> Findings:
        rivals = [name for name in timings.of if name != "ours"]
        figures = compare_times(timings, "ours", timings.best(rivals)) if rivals else {}
        return Findings([Comparison("key", "the speed of others", figures)], {"some_bytes": 5}, ["ours is odd"])

    def check(contender: Contender) -> list[str]:
        return [f"frame {number}" for number in range(7)] if contender.name == "wrong" else []

    return Row("row", "a row", contenders, conclude, "clips", check=check, clock=clock, between=lambda: None, **options)


def test_what_is_wrong_or_fails_is_shown_and_not_compared() -> None:
    result = run_row(make_row(FakeClock()), Rounds(6))
    assert result["failed"] == {"closed": "RuntimeError: not today", "failing": "RuntimeError: not today"}
    by_name = {each["name"]: each for each in result["contenders"]}
    assert by_name.keys() == {"ours", "right", "wrong"}
    assert (by_name["wrong"]["num_wrong"], len(by_name["wrong"]["wrong"])) == (7, 5)
    # What is wrong is timed a little, and puts no other contender out.
    assert [len(by_name[name]["cpu_seconds"]) for name in ("ours", "right", "wrong")] == [6, 6, 2]
    figures = result["comparisons"][0]["figures"]
    assert (figures["CPU"]["against"], figures["CPU"]["median"]) == ("right", 3.0)
    text = "\n".join(describe_row(result))
    for part in ("7 WRONG", "failing failed: RuntimeError: not today",
                 "the speed of others (against right):", "CPU: 3.00x (3.00-3.00, 6 pairs) ours",
                 "some bytes: 5", "WRONG: ours is odd"):  # fmt: skip
        assert part in text


def test_a_result_has_the_raw_numbers_of_each_round() -> None:
    result = run_row(make_row(FakeClock()), Rounds(3))
    ours = result["contenders"][0]
    assert ours["cpu_seconds"] == [1.0, 2.0, 3.0]
    assert ours["wall_seconds"] == [2.0, 2.0, 2.0]
    assert (ours["amount"], ours["per_cpu_second"], ours["per_second"]) == (2, 1.0, 1.0)


def test_output_that_is_wrong_only_while_it_is_timed_is_caught() -> None:
    row = make_row(FakeClock(), recheck=lambda each: ["another size"] if each.name == "right" else [])
    result = run_row(row, Rounds(2))
    assert [each["wrong"] for each in result["contenders"] if each["name"] == "right"] == [["another size"]]
    assert result["comparisons"] == []


def test_a_failure_of_ours_ends_the_row() -> None:
    def fail(number: int) -> None:
        raise RuntimeError("ours")

    with pytest.raises(RuntimeError, match="ours"):
        run_row(Row("row", "a row", [Contender("framefeed", lambda: fail)]), Rounds(1))


def test_a_run_may_be_timed_elsewhere_and_a_first_round_may_not_count() -> None:
    numbers: list[int] = []

    def run(number: int) -> Reading:
        numbers.append(number)
        return Reading(5.0, 7.0)

    result = run_row(Row("row", "a row", [Contender("framefeed", lambda: run)], warms_up=True), Rounds(2))
    assert numbers == [0, 0, 1]
    assert result["contenders"][0]["cpu_seconds"] == [5.0, 5.0]


def test_the_end_says_what_is_missing() -> None:
    report = {
        "skipped": {"trailer-4": "no media"},
        "missing": {"gamma": "ModuleNotFoundError: No module named 'gamma'"},
        "machine": {"processor": "a processor", "cores": 2, "load_average": 0.5, "packages": {"av": "18"}},
        "versions": {"alpha": "1"},
    }
    text = "\n".join(describe_closing(report))
    for part in ("not run: trailer-4: no media", "not installed: gamma", "a processor, 2 cores", "av 18, alpha 1"):
        assert part in text
