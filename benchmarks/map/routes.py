"""The ffmpeg program as a route of ``bench map``: a video decoded and encoded again."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from benchmarks.peers import ffmpeg
from framefeed.bench import run_program
from framefeed.bench.map import WORKERS, X264, Job, time_route


class FfmpegJob(Job):
    """A job of the program."""

    def run(self) -> dict[str, Any]:
        """Run it as the other routes are run."""
        result: dict[str, Any] = run_program(run_job, json.dumps(asdict(self)))
        return result


def run_job(text: str) -> dict[str, Any]:
    """Do a job whose fields are given as JSON."""
    job = Job(**json.loads(text))

    def run() -> int:
        ffmpeg.encode_again(job.source, job.out, dict(X264), WORKERS)
        return 0

    return time_route(run)
