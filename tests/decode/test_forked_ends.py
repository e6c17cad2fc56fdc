"""A forked child ends as programs do, though its parent was in the middle of a run."""

from __future__ import annotations

import pytest

from tests.corpus import corpus_file
from tests.programs import run_python

PROGRAM = """
import os, sys
import framefeed as ff
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.media import MediaSource
from framefeed.request import OutputSpec
path = sys.argv[1]
index = ff.build_index(path)
frames = PyAVDecoder(threads=2).iter_rgb(MediaSource.of(path), index, range(len(index)), OutputSpec())
next(frames)
if os.fork() == 0:
    del frames
    ff.VideoDecoder(path)[3]
    sys.exit(7)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.slow
def test_L01_a_child_ends_though_its_parent_decoded_with_threads() -> None:
    run = run_python("-c", PROGRAM, str(corpus_file("base.mp4")))
    assert (run.returncode, run.stdout, run.stderr) == (7, "", "")
