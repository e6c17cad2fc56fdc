"""Program that maps a video with a limit on file sizes, which acts like a full disk, and then without it."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any

from framefeed.errors import FramefeedError
from framefeed.transcode import map_video
from tests.transcode import functions


def main(clip: str, folder: str) -> list[dict[str, Any]]:
    """Map with room for no segment, then for segments only, then for all."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # else the limit kills instead of failing the write
    reports = []
    for limit in (4_000, 12_000, resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            resumed, error = map_video(clip, functions.keep, f"{folder}/out.mp4", workers=1).num_resumed_frames, ""
        except FramefeedError as caught:
            resumed, error = -1, f"{type(caught).__name__}: {caught}"
        reports.append({"error": error, "resumed": resumed, "left": sorted(os.listdir(folder))})
    return reports


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2])))  # the report
