"""What works without any extra, and what names its extra: run where none can be imported, in an empty folder.

Writes JSON: name of a step -> "" if it went well, else its error.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import framefeed as ff
from framefeed.cli import main
from framefeed.testing import ClipSpec, draw_stamp, make_folder, read_stamps, write_clip

Step = Callable[[], object]
CLIP = "clip.mp4"


def expect_extra(extra: str, call: Step) -> None:
    """Check that a call raises MissingDependency, with the words that install what it lacks."""
    try:
        call()
    except ff.MissingDependency as error:
        said = str(error)
    else:
        raise AssertionError(f"expected MissingDependency for the extra {extra}")
    assert f"pip install 'framefeed[{extra}]'" in said, said


def run_command(*words: str, code: int = 0) -> str:
    """Run the command line in this process; return what it says, on both streams."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        got = main(list(words))
    assert got == code, f"exit code {got}: {said.getvalue()}"
    return said.getvalue()


def make_plan() -> ff.EpochPlan:
    return ff.plan_clips(ff.scan("videos/", label_from="parent"), ff.Uniform(4), seed=0, size=(48, 64))


def load(**options: object) -> list[bytes]:
    with ff.ClipLoader(make_plan(), batch_size=2, **options) as loader:  # type: ignore[arg-type]
        return [batch.data.tobytes() for batch in loader]


# --- steps: every function below is one -----------------------------------------------------------


def probe() -> None:
    assert ff.probe(CLIP).width == 128


def scan_and_catalog() -> None:
    catalog = ff.scan("videos/", label_from="parent")
    catalog.to_parquet("saved.parquet")
    assert len(ff.Catalog.open("saved.parquet")) == len(catalog) == 2


def plan() -> None:
    assert len(make_plan()[0].indices) == 4


def video_decoder() -> None:
    with ff.VideoDecoder(CLIP) as decoder:
        assert read_stamps(decoder.get_frames_at([7, 3]).data) == [7, 3]


def pictures() -> None:
    from PIL import Image

    Path("pictures").mkdir()
    for number in range(3):
        Image.fromarray(draw_stamp(number, 48, 64)).save(f"pictures/{number}.png")
    with ff.VideoDecoder(ff.ImageSequence("pictures", fps=5)) as decoder:
        assert read_stamps(decoder[:]) == [0, 1, 2]


def clip_loader() -> None:
    assert load(workers=0) == load(workers=2)


def frame_cache() -> None:
    for codec in ("auto", "raw", "zstd", "lz4"):
        with ff.FrameCache(f"cache-{codec}", codec=codec) as cache:
            assert load(workers=0, cache=cache) == load(workers=0, cache=cache) == load(workers=0)


def command_scan_feed_and_cache() -> None:
    run_command("scan", "videos/", "--label-from", "parent", "-o", "cat.parquet")
    run_command("feed", "cat.parquet", "--rates", "1:4", "--batch-size", "2", "--size", "48x64")
    run_command("cache", "build", "cat.parquet", "built", "--size", "48x64")
    run_command("cache", "verify", "built")
    run_command("report", "cat.parquet", "-o", "report.html")


def command_clip() -> None:
    run_command("clip", CLIP, "--at", "0.2", "-o", "shots/")


def command_doctor() -> None:
    for name in ("torch", "fsspec", "decord2"):
        assert re.search(rf"{name} missing", run_command("doctor")), run_command("doctor")


def heic_and_jpeg_xl_name_their_extra() -> None:
    begun = {
        "tiles.heic": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic\0\0\0\x6cmeta\0\0grid" + bytes(94),
        "a.jxl": bytes.fromhex("ff0a58d30100138802003001b59f") + bytes(8),
    }
    Path("plugged").mkdir()
    for name, data in begun.items():
        Path("plugged", name).write_bytes(data)
        for call in (ff.probe, ff.build_index, ff.VideoDecoder):
            expect_extra("stills", lambda call=call, name=name: call(f"plugged/{name}"))  # type: ignore[misc]
    for depth in ("frames", "header"):
        kinds = [kind for _, kind, _ in ff.scan("plugged", depth=depth, workers=0).failures]  # type: ignore[arg-type]
        assert kinds == ["MissingDependency"] * 2, kinds


def url_names_its_extra() -> None:
    for call in (ff.probe, ff.build_index, ff.VideoDecoder, ff.scan):
        expect_extra("remote", lambda call=call: call("https://example.invalid/clip.mp4"))  # type: ignore[misc]
        expect_extra("remote", lambda call=call: call("s3://bucket/clip.mp4"))  # type: ignore[misc]
        expect_extra("url", lambda call=call: call("memory://clip.mp4"))  # type: ignore[misc]


def jpeg_cache() -> None:
    with ff.FrameCache("jpeg", codec="jpeg:90") as cache:
        load(workers=0, cache=cache)


def torch_names_its_extra() -> None:
    expect_extra("torch", lambda: ff.torch.ClipDataset)


def tensorflow_and_jax_name_their_extras() -> None:
    expect_extra("tensorflow", lambda: ff.tensorflow.dataset)
    expect_extra("jax", lambda: ff.jax.iterate)


def engines_name_their_extras() -> None:
    expect_extra("dali", lambda: ff.dali.pipeline)
    expect_extra("ray", lambda: ff.ray.dataset)
    expect_extra("dali", lambda: ff.VideoDecoder(CLIP, backend="dali"))
    for backend in ("opencv", "torchcodec", "torchcodec-approximate", "decord"):
        expect_extra("engines", lambda backend=backend: ff.VideoDecoder(CLIP, backend=backend))  # type: ignore[misc]


def command_demo_names_its_extra() -> None:
    assert "pip install 'framefeed[torch]'" in run_command("demo", code=1)


STEPS: dict[str, Step] = {
    step.__name__: step
    for step in (
        probe,
        scan_and_catalog,
        plan,
        video_decoder,
        pictures,
        clip_loader,
        frame_cache,
        command_scan_feed_and_cache,
        command_clip,
        command_doctor,
        url_names_its_extra,
        jpeg_cache,
        torch_names_its_extra,
        tensorflow_and_jax_name_their_extras,
        command_demo_names_its_extra,
    )
}


def outcome(step: Step) -> str:
    try:
        step()
    except Exception:  # of any kind: the tests show it
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    write_clip(CLIP, ClipSpec(num_frames=25))
    make_folder("videos", classes=1, videos_per_class=2, seconds=2.0)
    json.dump({name: outcome(step) for name, step in STEPS.items()}, sys.stdout)
