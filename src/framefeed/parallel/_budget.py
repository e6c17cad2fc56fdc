"""Compute the thread budget of the process: the CPUs that it may use, which may be fewer than the machine has.

A container on a 64-core host sees 64 CPUs and may use 2. The budget is the least of

- the CPUs that this process may run on (``sched_getaffinity``),
- the CPU time that its control groups allow: the quota over the period of its own group and of every group above,
  from ``cpu.max`` (version 2) or ``cpu.cfs_quota_us`` and ``cpu.cfs_period_us`` (version 1),

unless the environment variable ``FRAMEFEED_THREADS`` gives the number. Formats: ``proc_pid_cgroup(5)``, and the Linux
kernel's "Control Group v2" (section CPU Interface Files) and "CFS Bandwidth Control".
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from framefeed.errors import UsageError

VARIABLE = "FRAMEFEED_THREADS"

# In order of preference: "unified" is where version 2 lies beside version 1; "cpu" is often a link to "cpu,cpuacct".
_V2_MOUNTS = ("sys/fs/cgroup/unified", "sys/fs/cgroup")
_V1_MOUNTS = ("sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpuacct,cpu")


@dataclass(frozen=True, slots=True)
class ThreadBudget:
    """Number of threads that this process should keep busy, with the reasons."""

    threads: int  # the budget; at least 1
    reasons: tuple[str, ...]  # one line for each limit that was found; the last one decides


def thread_budget() -> ThreadBudget:
    """Compute the thread budget of this process. Each call computes it again, because quotas can change.

    Raises:
        UsageError: If ``FRAMEFEED_THREADS`` is not an integer of at least 1.
    """
    # Only Linux and some other systems have affinities.
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return decide_budget(affinity, read_cgroup_quotas(Path("/")), os.environ)


def decide_budget(affinity: int, quotas: Mapping[str, float], environment: Mapping[str, str]) -> ThreadBudget:
    """Compute the budget from the limits.

    ``quotas`` are the CPUs that control groups allow, by the name of the file with the quota.
    """
    reasons = [(affinity, f"CPUs by affinity: {affinity}")]
    for name, cpus in quotas.items():
        # Rounded up: otherwise the last part of a CPU would never be used.
        reasons.append((max(1, math.ceil(cpus)), f"CPUs by {name}: {cpus:g}"))
    reasons.sort(key=lambda reason: -reason[0])
    override = environment.get(VARIABLE, "").strip()
    if override:
        if not override.isdecimal() or int(override) < 1:
            raise UsageError(
                f"environment variable {VARIABLE}: expected an integer of at least 1, got {override!r}: correct it, or "
                "unset it"
            )
        reasons.append((int(override), f"{VARIABLE}={override} overrides all other limits"))
    return ThreadBudget(reasons[-1][0], tuple(text for _, text in reasons))


def parse_v2_quota(cpu_max: str) -> float | None:
    """Parse the text of a ``cpu.max``: the CPUs that it allows; None for no limit.

    >>> parse_v2_quota("150000 100000")
    1.5
    >>> parse_v2_quota("max 100000")
    """
    quota, period = [*cpu_max.split(), "100000"][:2]  # the kernel's default period
    return None if quota == "max" else int(quota) / int(period)


def parse_v1_quota(quota_us: str, period_us: str) -> float | None:
    """Parse ``cpu.cfs_quota_us`` and ``cpu.cfs_period_us``: the CPUs that they allow; None for no limit.

    >>> parse_v1_quota("200000", "100000")
    2.0
    >>> parse_v1_quota("-1", "100000")
    """
    return None if int(quota_us) < 0 else int(quota_us) / int(period_us)


def parse_groups(proc_cgroup: str) -> dict[str, str]:
    r"""Parse ``/proc/self/cgroup``: the control group of each controller; "" stands for version 2.

    >>> parse_groups("4:cpu,cpuacct:/docker/ab\n0::/user.slice\n")
    {'cpu': '/docker/ab', 'cpuacct': '/docker/ab', '': '/user.slice'}
    """
    groups = {}
    for line in proc_cgroup.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def read_cgroup_quotas(root: Path) -> dict[str, float]:
    """Read the CPUs that the control groups of this process allow, by the name of the file with the quota."""
    groups = parse_groups(_read_text(root / "proc/self/cgroup"))
    quotas: dict[Path, float | None] = {}
    for folder in _list_group_folders(root, _V2_MOUNTS, groups.get("")):
        if cpu_max := _read_text(folder / "cpu.max"):
            quotas[folder / "cpu.max"] = parse_v2_quota(cpu_max)
    for folder in _list_group_folders(root, _V1_MOUNTS, groups.get("cpu")):
        quota, period = _read_text(folder / "cpu.cfs_quota_us"), _read_text(folder / "cpu.cfs_period_us")
        if quota and period:
            quotas[folder / "cpu.cfs_quota_us"] = parse_v1_quota(quota, period)
    return {f"/{file.relative_to(root)}": cpus for file, cpus in quotas.items() if cpus is not None}


def _list_group_folders(root: Path, mounts: Sequence[str], group: str | None) -> Iterator[Path]:
    mount = next((root / name for name in mounts if (root / name).is_dir()), None)
    if mount is None or group is None:
        return
    # Limits of the groups above apply too. In a container the path may be the host's: then only its top exists here.
    path = PurePosixPath(group.lstrip("/"))
    for folder in (path, *path.parents):
        yield mount / folder


def _read_text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        # No control groups, not this version of them, or no permission to read: no known limit.
        return ""
