"""How equal the tokens of ranks are that share plans of whole videos: dealt as they come, by cost, and by tokens.

    python -m benchmarks.balance_tokens ../shared/media [--seeds 20]

Prints, for two budgets of pixels, some ranks and clips a step, the slowest rank over the mean, summed over the steps of
an epoch, means of the seeds. Tokens are counted as T * H * W. Nothing is decoded.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

import framefeed as ff
from framefeed._arrays import FloatArray, IntArray
from framefeed.plan import Order

RULE = ff.WholeVideo(2, max_frames=64, multiple=2)
BUDGETS = (786_432, 25_165_824)
RANKS = (2, 4, 8)
CLIPS = (1, 4)


def compare(order: Order, predict: Callable[[IntArray], FloatArray], tokens: FloatArray, clips: int) -> float:
    """Divide the tokens of the largest rank by the mean, over all steps of so many clips on each rank."""
    shards = [replace(order, rank=rank).deal(predict) for rank in range(order.world_size)]
    numbers = np.arange(len(shards[0]) // clips * clips, dtype=np.int64)
    each = np.array([tokens[order.find_clips(shard.global_position(numbers))] for shard in shards])
    steps = each.reshape(len(shards), -1, clips).sum(axis=2)
    return float(steps.max(axis=0).sum() / steps.mean(axis=0).sum())


def main() -> None:
    """Measure, and print a line for each budget, number of ranks, and clips of a step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("media", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    videos = ff.scan(asked.media, progress=False).filter(kind="video")
    for budget in BUDGETS:
        size = ff.PixelBudget(28, max_total=budget)
        plan = ff.plan_clips(videos, RULE, size=size, unequal=True, seed=0, shuffle=False)
        tokens = np.array(plan.shapes(), dtype=np.float64).prod(axis=1)
        print(f"{len(plan)} videos, at most {budget:,} pixels: none, by cost, by tokens")
        for ranks in RANKS:
            for clips in CLIPS:
                found = []
                for seed in range(asked.seeds):
                    plain = Order(len(plan), seed, world_size=ranks, tail="drop")
                    by_cost = replace(plain, balance="cost")
                    found.append([
                        compare(plain, plan.clips.predict_costs, tokens, clips),
                        compare(by_cost, plan.clips.predict_costs, tokens, clips),
                        compare(by_cost, tokens.__getitem__, tokens, clips),
                    ])  # fmt: skip
                print(
                    f"  {ranks} ranks, {clips} a step: " + ", ".join(f"{mean:.2f}" for mean in np.mean(found, axis=0))
                )


if __name__ == "__main__":
    main()
