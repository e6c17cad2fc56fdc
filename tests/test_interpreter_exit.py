"""What is left half-read when the interpreter ends: nothing is printed, wherever the last reference to it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpus import corpus_file
from tests.patience import PATIENCE_SECONDS

LEAVE = """
import sys
import framefeed as ff
from framefeed.decode.backends import pyav

def fail(*_):
    raise KeyError

def leave(path, folder):
    decoder, frames = ff.VideoDecoder(path), iter(ff.VideoDecoder(path))
    decoder[0], decoder[1], next(frames)
    plan = ff.plan_requests([ff.DecodeRequest(source=path, indices=[number, number + 1]) for number in range(6)])
    cache = ff.FrameCache(folder, codec="raw")
    loaders = [iter(ff.ClipLoader(plan, batch_size=1, workers=0)), iter(ff.ClipLoader(plan, batch_size=1, workers=2)),
               iter(ff.ClipLoader(plan, batch_size=1, workers=1, cache=cache))]
    mapped = iter(ff.map_video(path, lambda frame, *, index, pts_seconds: frame, workers=0))
    for each in (*loaders, mapped):
        next(each)
    own, pyav.Converter.write = pyav.Converter.write, fail
    try:
        decoder.get_frames_at([0, 3])
    except KeyError as error:  # its traceback refers to what was open
        return decoder, frames, cache, loaders, mapped, error
    finally:
        pyav.Converter.write = own

left = [leave(path, folder) for path, folder in zip(sys.argv[1::2], sys.argv[2::2])]
"""
# Python clears the modules that are still referred to in the reverse order of their import, and what they hold with
# them: kept by builtins, or by a module that was imported before framefeed, it ends after all of ours.
KEEP = {
    "by its own module": "kept = left[0]; class_ = type('Cycle', (), {}); cycle = class_(); cycle.itself = cycle; "
    "cycle.left = left[1]; del cycle, left",
    "by earlier ones": "import builtins, json; modules = [*sys.modules.values()]; builtins.kept = modules, left[0]; "
    "json.kept = modules, left[1]; del modules, left",
}


@pytest.mark.slow
@pytest.mark.parametrize("where", KEEP)
def test_L17_half_read_work_ends_silently_with_the_interpreter(where: str, tmp_path: Path) -> None:
    names = ["base.mp4", "closed_gop.ts"]  # one for each place
    paths = [word for name in names for word in (str(corpus_file(name)), str(tmp_path / name))]
    words = [sys.executable, "-W", "error", "-c", f"{LEAVE}\n{KEEP[where]}\n", *paths]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=3 * PATIENCE_SECONDS)
    assert (ran.returncode, ran.stderr) == (0, "")
