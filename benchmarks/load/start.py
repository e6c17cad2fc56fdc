"""Row "start": from the start of a program to its first batch."""

from __future__ import annotations

from benchmarks.load.epochs import (
    OURS_IN_TORCH,
    OWN_LOOPS,
    PEER_LOOPS,
    choose_loops,
    compare_libraries,
    enter_loops,
)
from benchmarks.load.programs import ClipSet
from framefeed.bench import METRICS, Comparison, Figure, Findings, Row, Timings
from framefeed.bench.baselines import Peers


def start_row(clips: ClipSet, peers: Peers) -> Row:
    """From the start of the process to the first batch."""
    loops = choose_loops((OWN_LOOPS[0], OURS_IN_TORCH, *PEER_LOOPS), peers)
    specification = clips.write(1)

    def conclude(timings: Timings) -> Findings:
        comparisons = []
        for ours in (OWN_LOOPS[0].name, OURS_IN_TORCH.name):
            for library, figures in compare_libraries(timings, ours).items():
                shares = {
                    title: Figure(timings.ratio(ours, figure.against, METRICS[title]), ours, figure.against)
                    for title, figure in figures.items()
                }
                what = f"time of {ours} to its first batch, as a share of that of the fastest loop of {library}"
                comparisons.append(Comparison(f"{ours}: {library}", what, shares))
        return Findings(comparisons)

    contenders = enter_loops(loops, specification, None, "first")
    title = "from the start of the process to the first batch, catalog and page cache ready"
    return Row("start", title, contenders, conclude, unit="starts", between=lambda: None, warms_up=True)
