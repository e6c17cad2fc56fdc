"""What kills a worker process: the function that a program sends to it has to lie in a module."""

from __future__ import annotations

import os
import signal

from framefeed.catalog import _sweep
from framefeed.catalog._survey import SurveyOptions


def survey_chunk(chunk: _sweep.Chunk, options: SurveyOptions) -> _sweep.Surveyed:
    """Do as `chunks.survey_chunk`, but die of one file."""
    if any("p27.png" in part.names for part in chunk.parts):
        os.kill(os.getpid(), signal.SIGKILL)
    return _sweep.survey_chunk(chunk, options)
