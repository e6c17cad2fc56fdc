"""A program without a main guard that scans with processes, one of which is killed by what it is given to do."""

from __future__ import annotations

import json
import os
import sys

from framefeed.errors import WorkerLost
from framefeed.index import sweep
from framefeed.index.scanning import scan
from tests.index import lost_worker_deadly

folder, target = sys.argv[1:]
sweep.CHUNK_WEIGHT, sweep.VIDEO_WEIGHT, sweep.PROCESSES_PAY = 8, 4, 1
harmless, sweep.survey_chunk = sweep.survey_chunk, lost_worker_deadly.survey_chunk
try:
    scan(folder, out=target, workers=2)
    told = ""
except WorkerLost as error:
    told = str(error)
kept = os.path.getsize(f"{target}.journal/0000.facts.arrows")
sweep.survey_chunk = harmless
rows = len(scan(folder, out=target, workers=2))
print(json.dumps({"told": told, "kept": kept, "rows": rows}))  # the report
