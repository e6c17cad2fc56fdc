from __future__ import annotations

from pathlib import Path

import pytest

from framefeed.errors import UsageError
from framefeed.parallel._budget import (
    decide_budget,
    parse_groups,
    parse_v1_quota,
    parse_v2_quota,
    read_cgroup_quotas,
    thread_budget,
)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("max 100000\n", None),
        ("150000 100000\n", 1.5),
        ("200000 100000\n", 2.0),
        ("50000 200000\n", 0.25),
        ("max\n", None),
        ("300000\n", 3.0),
    ],
)
def test_L03_version_2_quota(text: str, cpus: float | None) -> None:
    assert parse_v2_quota(text) == cpus


@pytest.mark.parametrize(
    ("quota", "period", "cpus"), [("-1\n", "100000\n", None), ("200000\n", "100000\n", 2.0), ("5000\n", "10000\n", 0.5)]
)
def test_L03_version_1_quota(quota: str, period: str, cpus: float | None) -> None:
    assert parse_v1_quota(quota, period) == cpus


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("", {}),
        ("0::/\n", {"": "/"}),
        ("0::/user.slice/a:b\n", {"": "/user.slice/a:b"}),
        (
            "4:cpu,cpuacct:/docker/ab\n1:name=systemd:/x\n",
            {"cpu": "/docker/ab", "cpuacct": "/docker/ab", "name=systemd": "/x"},
        ),
    ],
)
def test_L03_groups_of_the_process(text: str, groups: dict[str, str]) -> None:
    assert parse_groups(text) == groups


def system(root: Path, **files: str) -> Path:
    """A file system with these files, ``__`` standing for a slash."""
    for name, text in files.items():
        file = root / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_L03_every_group_above_counts(tmp_path: Path) -> None:
    root = system(
        tmp_path,
        proc__self__cgroup="0::/slice/pod\n",
        **{
            "sys__fs__cgroup__slice__pod__cpu.max": "max 100000\n",
            "sys__fs__cgroup__slice__cpu.max": "300000 100000\n",
        },
    )
    assert read_cgroup_quotas(root) == {"/sys/fs/cgroup/slice/cpu.max": 3.0}


def test_L03_inside_a_container_the_top_group_counts(tmp_path: Path) -> None:
    # The path is the host's and does not exist here.
    root = system(tmp_path, proc__self__cgroup="0::/docker/0a1b\n", **{"sys__fs__cgroup__cpu.max": "200000 100000\n"})
    assert read_cgroup_quotas(root) == {"/sys/fs/cgroup/cpu.max": 2.0}


def test_L03_version_1_beside_an_empty_version_2(tmp_path: Path) -> None:
    root = system(
        tmp_path,
        proc__self__cgroup="4:cpu,cpuacct:/docker/0a1b\n0::/\n",
        **{
            "sys__fs__cgroup__unified__cgroup.procs": "1\n",
            "sys__fs__cgroup__cpu,cpuacct__cpu.cfs_quota_us": "400000\n",
            "sys__fs__cgroup__cpu,cpuacct__cpu.cfs_period_us": "100000\n",
        },
    )
    assert read_cgroup_quotas(root) == {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": 4.0}


def test_L03_without_control_groups_there_is_no_quota(tmp_path: Path) -> None:
    assert read_cgroup_quotas(tmp_path) == {}


@pytest.mark.parametrize(
    ("affinity", "quotas", "environment", "threads"),
    [
        (64, {}, {}, 64),
        (64, {"cpu.max": 2.0}, {}, 2),
        (64, {"cpu.max": 1.5}, {}, 2),
        (64, {"cpu.max": 0.25}, {}, 1),
        (4, {"cpu.max": 16.0}, {}, 4),
        (64, {"a": 8.0, "b": 3.0}, {}, 3),
        (2, {"cpu.max": 1.0}, {"FRAMEFEED_THREADS": "7"}, 7),
        (2, {}, {"FRAMEFEED_THREADS": " 5 "}, 5),
        (2, {}, {"FRAMEFEED_THREADS": ""}, 2),
    ],
)
def test_L03_the_least_decides_unless_asked_otherwise(
    affinity: int, quotas: dict[str, float], environment: dict[str, str], threads: int
) -> None:
    assert decide_budget(affinity, quotas, environment).threads == threads


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "²"])
def test_a_variable_that_is_no_number_of_threads_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="FRAMEFEED_THREADS"):
        decide_budget(2, {}, {"FRAMEFEED_THREADS": text})


def test_the_budget_explains_itself() -> None:
    assert decide_budget(64, {"/sys/fs/cgroup/cpu.max": 1.5}, {}).reasons == (
        "CPUs by affinity: 64",
        "CPUs by /sys/fs/cgroup/cpu.max: 1.5",
    )
    assert (
        decide_budget(4, {}, {"FRAMEFEED_THREADS": "1"}).reasons[-1] == "FRAMEFEED_THREADS=1 overrides all other limits"
    )


def test_this_process_has_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FRAMEFEED_THREADS", raising=False)
    assert thread_budget().threads >= 1
    monkeypatch.setenv("FRAMEFEED_THREADS", "3")
    assert thread_budget().threads == 3
