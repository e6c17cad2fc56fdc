from collections import Counter
from pathlib import Path

from tests.seeds import read_options, report_seeds, try_seeds


def test_seeds_that_fail_are_listed_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "seeds.log"
    options = read_options("doc", ["--seeds", "3", "--first", "5", "--log", str(log)])

    def run(seed: int) -> Counter[str]:
        if seed == 6:
            raise AssertionError("not six")
        return Counter(["done"])

    assert report_seeds("three", try_seeds(run, options), lambda: "all well", options) == 1
    lines = ["# three, from seed 5 on", "seed 6: FAILED: not six", "    2 done", "3 seeds: 1 FAILED"]
    assert log.read_text().splitlines() == lines
    options.first = 7
    assert report_seeds("three", try_seeds(run, options), lambda: "all well", options) == 0
    assert log.read_text().splitlines()[-1] == "3 seeds: all well"
