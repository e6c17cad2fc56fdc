"""Program that indexes or scans without the cyclic collector, and prints its peak memory beyond the imports."""

from __future__ import annotations

import gc
import json
import sys

import framefeed as ff


def peak_bytes() -> int:
    """Most resident memory so far, in bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def main() -> None:
    path, verify = sys.argv[1:]
    gc.collect()
    gc.disable()
    before = peak_bytes()
    catalog = ff.scan(path, verify=verify, workers=2)
    print(json.dumps({"rows": len(catalog), "failed": len(catalog.failures), "bytes": peak_bytes() - before}))


if __name__ == "__main__":
    main()
