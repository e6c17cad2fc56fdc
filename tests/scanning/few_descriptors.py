"""Program that scans with limits on open files, and prints the outcomes."""

from __future__ import annotations

import json
import resource
import sys

import framefeed as ff


def scan_with(path: str, most: int) -> dict[str, object]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        catalog = ff.scan(path, workers=2)
        return {"rows": len(catalog), "failed": [kind for _, kind, _ in catalog.failures]}
    except ff.ResourceExhausted as error:
        return {"error": error.resource}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


if __name__ == "__main__":
    print(json.dumps([scan_with(sys.argv[1], int(most)) for most in sys.argv[2:]]))
