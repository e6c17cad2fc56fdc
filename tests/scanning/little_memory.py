"""Program that indexes a file under many limits on memory, and prints the outcome of each."""

from __future__ import annotations

import json
import resource
import sys

import framefeed as ff
from framefeed import build_index


def address_space_bytes() -> int:
    """What this process has mapped."""
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[0]) * resource.getpagesize()


def outcome_within(path: str, verify: str, spare_bytes: int) -> str:
    """Index with so many bytes to spare; the number of frames, or the name of the error."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes() + spare_bytes, before[1]))
    try:
        return str(len(build_index(path, verify=verify)))
    except ff.FramefeedError as error:
        return type(error).__name__
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def main() -> None:
    path, verify, most, step = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    outcomes = {spare: outcome_within(path, verify, spare) for spare in range(0, most, step)}
    print(json.dumps({"frames": len(build_index(path, verify=verify)), "outcomes": list(outcomes.values())}))


if __name__ == "__main__":
    main()
