"""Program without a main guard that scans with processes, one of which kills itself."""

from __future__ import annotations

import json
import os
import sys

from framefeed.errors import WorkerLost
from framefeed.scanning import _chunks, _journal
from framefeed.scanning._scan import scan
from tests.scanning import killed_worker

folder, target = sys.argv[1:]
os.environ[killed_worker.JOURNAL] = f"{target}.journal"
_journal.WRITE_SECONDS = 0.0
_chunks.CHUNK_WEIGHT, _chunks.VIDEO_WEIGHT, _chunks.MIN_PICTURES_FOR_PROCESSES = 8, 4, 1
harmless, _chunks.survey_chunk = _chunks.survey_chunk, killed_worker.survey_chunk
try:
    scan(folder, out=target, workers=2)
    message = ""
except WorkerLost as error:
    message = str(error)
kept = sum(entry.stat().st_size for entry in os.scandir(f"{target}.journal"))
_chunks.survey_chunk = harmless
rows = len(scan(folder, out=target, workers=0))
print(json.dumps({"told": message, "kept": kept, "rows": rows}))  # the report
