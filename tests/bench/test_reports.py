import pytest

from framefeed.bench._measuring import Contender, Sample, Timings
from framefeed.bench._memory import judged
from framefeed.bench._peer import Method
from framefeed.bench._reports import closing_lines, row_lines, verdict
from framefeed.bench._workloads import Goal
from framefeed.bench.decode._comparing import Field, RuledContender, outcome_against
from framefeed.bench.decode._indexing import index_rows, pays_after


def make_method(name: str, *, resizes_itself: bool = True) -> Method:
    return Method(name, "NCHW", lambda video: pytest.fail("not opened"), resizes_itself=resizes_itself)


def entry(name: str, rule: str = "many files", *, resizes_itself: bool = True) -> RuledContender:
    return RuledContender(make_method(name, resizes_itself=resizes_itself), rule, Contender(f"{name} | {rule}", print))


SAMPLES = Timings({
    "framefeed | many files": {n: Sample(1.0, 2.0) for n in range(20)},
    "alpha exact | many files": {n: Sample(3.0, 3.0) for n in range(20)},
    "alpha bare | many files": {n: Sample(1.5, 5.0) for n in range(20)},
    "beta | many files": {n: Sample(2.0, 2.5) for n in range(20)},
})  # fmt: skip
ENTRIES = [entry("framefeed"), entry("alpha exact"), entry("alpha bare", resizes_itself=False), entry("beta")]


def test_a_goal_is_judged_against_the_fastest_way_of_its_peers() -> None:
    everyone = outcome_against(Goal("many files", 1.2, 2.0), SAMPLES, ENTRIES)
    assert (everyone["cpu"]["against"], everyone["cpu"]["median"]) == ("alpha bare", 1.5)
    assert (everyone["cpu_own_resize"]["against"], everyone["cpu_own_resize"]["median"]) == ("beta", 2.0)
    assert (everyone["wall"]["against"], everyone["wall"]["median"]) == ("beta", 1.25)
    assert outcome_against(Goal("many files", peers=("beta",)), SAMPLES, ENTRIES)["cpu"]["median"] == 2.0
    assert "cpu" not in outcome_against(Goal("many files", peers=("gamma",)), SAMPLES, ENTRIES)


def test_a_batch_of_one_file_is_one_call_for_us() -> None:
    runs = {n: Sample(1.0, 1.0) for n in range(6)}
    samples = Timings({
        "framefeed | one call": runs,
        "framefeed | clip by clip": {n: Sample(4.0, 4.0) for n in range(6)},
        "beta | clip by clip": {n: Sample(6.0, 6.0) for n in range(6)},
    })  # fmt: skip
    entries = [entry("framefeed", "one call"), entry("framefeed", "clip by clip"), entry("beta", "clip by clip")]
    assert outcome_against(Goal("clip by clip"), samples, entries)["cpu"]["median"] == 6.0


@pytest.mark.parametrize(
    ("ratio", "says"),
    [(2.3, "aim 2.2 reached"), (1.8, "floor 1.75 held, aim 2.2"), (1.7, "BELOW floor 1.75")],
)
def test_verdicts_name_floor_and_aim(ratio: float, says: str) -> None:
    assert verdict(ratio, 1.75, 2.2) == says
    assert verdict(ratio, None, None) == ""


@pytest.mark.parametrize(
    ("ours", "best", "clips"), [(0.25, 0.5, 2), (0.25, 0.45, 3), (0.2, 0.2, None), (0.3, 0.2, None)]
)
def test_an_index_pays_once_its_cost_is_saved(ours: float, best: float, clips: int | None) -> None:
    assert pays_after(0.5, ours, best) == clips


def test_rows_without_contenders_have_no_index_row() -> None:
    assert index_rows({}, [{"key": "memory"}]) == []


def test_memory_must_be_flat_once_settled() -> None:
    assert judged([100.0] * 10 + [300.0] * 53)["is_flat"]
    assert not judged([300.0] * 50 + [310.0])["is_flat"]
    assert judged([5.0]) == {
        "batches": 1, "peak_mb": 5.0, "limit_mb": 700, "later_to_first": None, "is_flat": True, "series_mb": [5.0],
    }  # fmt: skip


def fake_row(shares: float = 1.0) -> dict:
    names = ("framefeed", "alpha exact")
    contenders = [
        {"name": name, "rule": "many files", "clips_per_cpu_second": 4.0 - number, "clips_per_second": 3.5,
         "rounds": 20, "frames_right": 1.0 if number == 0 else shares}
        for number, name in enumerate(names)
    ]  # fmt: skip
    goal = outcome_against(Goal("many files", 1.75, 2.2), SAMPLES, ENTRIES)
    return {
        "key": "test-60", "title": "a row", "rules": {"many files": "what it means"}, "contenders": contenders,
        "failed": {"many files": {"beta": "RuntimeError: no"}}, "best": [goal], "goals": [goal],
    }  # fmt: skip


def test_the_lines_of_a_row_name_libraries_ratios_and_goals() -> None:
    text = "\n".join(row_lines(fake_row(0.75)))
    for part in (
        "a row",
        "what it means",
        "alpha exact",
        "75.0% WRONG",
        "beta failed: RuntimeError: no",
        "BELOW floor",
    ):
        assert part in text
    assert "WRONG" not in "\n".join(row_lines(fake_row()))


def test_the_closing_lines_name_missing_libraries() -> None:
    report = {
        "index": [{"row": "test-60", "cpu_seconds": {"ends": 0.5}, "pays_after_clips": {"ends": None}}],
        "skipped": {"trailer-4": "no media"},
        "missing": Field([], {}, {"gamma": "ModuleNotFoundError: No module named 'gamma'"}).missing,
        "machine": {"processor": "a processor", "cores": 2, "load_average": 0.5, "packages": {"av": "18"}},
        "versions": {"alpha": "1"},
    }
    text = "\n".join(closing_lines(report))
    for part in ("never", "not run: trailer-4: no media", "not installed: gamma", "a processor, 2 cores", "alpha 1"):
        assert part in text
