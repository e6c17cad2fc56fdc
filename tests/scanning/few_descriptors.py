"""Program that scans with a limit on open files, and prints the outcome."""

from __future__ import annotations

import json
import resource
import sys

import framefeed as ff


def main() -> None:
    path, most = sys.argv[1], int(sys.argv[2])
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        catalog = ff.scan(path, workers=2)
        found = {"rows": len(catalog), "failed": [kind for _, kind, _ in catalog.failures]}
    except ff.ResourceExhausted as error:
        found = {"error": error.resource}
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
