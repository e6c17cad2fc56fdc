"""What kills a worker process: the function that a program sends to it has to lie in a module."""

from __future__ import annotations

import os
import signal

from framefeed.index import chunks
from framefeed.index.survey import SurveyOptions


def survey_chunk(chunk: chunks.Chunk, options: SurveyOptions) -> chunks.Surveyed:
    """Do as `chunks.survey_chunk`, but die of one file."""
    if any("p27.png" in part.names for part in chunk.parts):
        os.kill(os.getpid(), signal.SIGKILL)
    return chunks.survey_chunk(chunk, options)
