"""Record the times that ffprobe reads from real videos: ``python -m tests.index.record_times MEDIA``.

One thread, so that the decoding times that decoders hand on are those of a decoder without delay of its own. Times are
written as runs of [first, step, count], where ``first`` is null for frames without a time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

TIMES = Path(__file__).with_name("real_times.json")
FILES = (
    "androidx-media/sample.avi",
    "androidx-media/sample_edit_list.mp4",
    "androidx-media/sample_h264.ts",
    "bgslibrary/demo.avi",
    "file-type/fixture-raw.mts",
    "gradio/av1-video.mp4",
    "gradio/video_sample.avi",
    "intel-sample-videos/milk.mkv",
    "jcodec/cat_avc_clip.mp4",
    "mmaction2/S001C001P001R001A001_rgb.avi",
    "mmaction2/demo.mp4",
    "mmaction2/test.avi",
    "mp4ff/vp8.ivf",
    "opencv-doc/Megamind.avi",
    "opencv-doc/tree.avi",
    "p5.js-website/small.ogv",
    "pytorch-vision/RATRACE_wave_f_nm_np1_fr_goo_37.avi",
    "pytorch-vision/hmdb51_Turnk_r_Pippi_Michel_cartwheel_f_cm_np2_le_med_6.avi",
    "pytorch-vision/v_SoccerJuggling_g23_c01.avi",
    "streamio-ffmpeg/awesome_movie.mov",
    "tika/testFLV.flv",
    "tika/testWMV.wmv",
)
"""All AVIs, the MP4 with times that go backwards, and one or two of every other container."""

Run = list[int | None]


def runs_of(times: Iterable[int | None]) -> list[Run]:
    """Shorten times to runs of even steps."""
    runs: list[Run] = []
    for time in times:
        if runs and _goes_on(runs[-1], time):
            first, _, count = runs[-1]
            assert count is not None
            if time is not None and count == 1:
                runs[-1][1] = time - (first or 0)
            runs[-1][2] = count + 1
        else:
            runs.append([time, 0, 1])
    return runs


def _goes_on(run: Run, time: int | None) -> bool:
    first, step, count = run
    if first is None or time is None or step is None or count is None:
        return first is None and time is None
    return count == 1 or time == first + step * count


def times_of(runs: Iterable[Run]) -> Iterator[int | None]:
    """Undo `runs_of`."""
    for first, step, count in runs:
        for number in range(count or 0):
            yield None if first is None else first + (step or 0) * number


def _probed(path: Path, *words: str) -> dict[str, Any]:
    command = ["ffprobe", "-v", "error", "-threads", "1", "-select_streams", "v:0", "-of", "json", *words, str(path)]
    report: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return report


def recorded(path: Path) -> dict[str, Any]:
    """What ffprobe says of one file."""
    frames = _probed(path, "-show_entries", "frame=pts,pkt_dts")["frames"]
    packets = _probed(path, "-show_entries", "packet=dts")["packets"]
    return {
        "bytes": path.stat().st_size,
        "pts": runs_of(frame.get("pts") for frame in frames),
        "dts": runs_of(frame.get("pkt_dts") for frame in frames),
        "first_packet_dts": next((packet["dts"] for packet in packets[:1] if "dts" in packet), None),
    }


if __name__ == "__main__":
    root = Path(sys.argv[1]) / "video"
    version = subprocess.run(["ffprobe", "-version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    files = {name: recorded(root / name) for name in FILES}
    rows = [f"    {json.dumps(name)}: {json.dumps(facts)}" for name, facts in files.items()]
    text = ",\n".join(rows)
    TIMES.write_text(f'{{\n  "ffprobe": {json.dumps(version)},\n  "files": {{\n{text}\n  }}\n}}\n')
