"""Our loop over the same clips; run as a program, which imports what a user's loop imports.

    python -P _own_loop.py KIND SPECIFICATION

As `bench/baselines/loops.py`, whose marks it prints.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from framefeed import Catalog, ClipLoader, Dense, plan_clips


def say(word: str) -> None:
    """Print a mark, and wait until the bench has seen it."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()
    sys.stdin.readline()


def main() -> None:
    """Run the loop, as far as the specification says."""
    kind = sys.argv[1]
    spec = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    options = {"batch_size": spec["batch"], "workers": spec["workers"], "kind": kind}
    say("ready")
    catalog = Catalog.open(spec["catalog"])
    rule = Dense(spec["frames"], stride=spec["stride"])
    size = (spec["side"], spec["side"])
    plan = plan_clips(catalog, rule, clips_per_video=spec["clips_per_video"], seed=spec["seed"], size=size)
    kept = []
    with ClipLoader(plan, **options) as loader:
        for number, batch in enumerate(loader, 1):
            if number == 1:
                say("first")
            if spec["dump"]:
                kept.append(batch.data)
            if number == spec["most_batches"]:
                break
        say("done")
    if spec["dump"]:
        import numpy as np

        np.save(spec["dump"], np.concatenate(kept))


if __name__ == "__main__":
    main()
