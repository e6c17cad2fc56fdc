"""The ffmpeg program: a video decoded and encoded again, no picture leaves it."""

from __future__ import annotations

import shutil
import subprocess

PROGRAM = shutil.which("ffmpeg") or ""
if not PROGRAM:
    raise ImportError("ffmpeg is not on PATH: it comes with the system's package of that name")
VERSIONS = {
    "ffmpeg": subprocess.run([PROGRAM, "-version"], capture_output=True, text=True, check=True).stdout.split()[2]
}


def encode_again(source: str, out: str, options: dict[str, str], threads: int) -> None:
    """Decode the first video stream and encode it with x264, both with so many threads."""
    encoder = [word for name, value in options.items() for word in (f"-{name}", value)]
    decode = [PROGRAM, "-v", "error", "-nostdin", "-y", "-threads", str(threads), "-i", source]
    encode = ["-map", "0:v:0", "-c:v", "libx264", *encoder, "-pix_fmt", "yuv420p", "-threads", str(threads), out]
    subprocess.run([*decode, *encode], check=True)
