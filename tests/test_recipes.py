"""The guide's five recipes, each alone, on real files: what `test_docs` runs on generated ones."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from types import ModuleType

import pytest

from tests.test_docs import HAS_TORCH, ROOT, Block, blocks_of, page_module, run_python, run_shell

GUIDE = ROOT / "docs" / "guide.md"
_RECIPE = re.compile(r"^### (\d)\. (.*)$", re.M)

__all__ = ["page_module"]  # a fixture

VIDEOS = (
    "torchcodec/h264_10bits.mp4",
    "androidx-media/h265_bframes.mp4",
    "firefox-esr/h264.mp4",
    "androidx-media/sample_simple.mp4",
    "mp4ff/h264.mp4",
    "WebGL/red-green-480x272-sar-136x135-dar-16x9.mp4",
)
"""H.264 and HEVC with and without B-frames, 8 and 10 bits."""
PHOTOS = ("dali_photos", "dali_exif_orientation")
_PHOTOS_EACH = 6
_GENERATED = '"photos/cat/'
"""In blocks that say what comes of the generated files: test_docs runs them."""


def recipe_blocks(number: int) -> list[Block]:
    """Blocks of one recipe, in order."""
    text = GUIDE.read_text(encoding="utf-8")
    start = next(match.end() for match in _RECIPE.finditer(text) if int(match[1]) == number)
    stop = re.compile(r"^##+ ", re.M).search(text, start)
    assert stop is not None
    first, last = (text.count("\n", 0, place) + 1 for place in (start, stop.start()))
    blocks = [block for block in blocks_of(GUIDE) if first < block.line < last and block.reason is None]
    return [block for block in blocks if _GENERATED not in block.code]


RECIPES = [(int(match[1]), match[2]) for match in _RECIPE.finditer(GUIDE.read_text(encoding="utf-8"))]


def put_videos(media: Path, folder: Path) -> list[Path]:
    """Put real videos into two folders, one a class."""
    targets = []
    for name, kind in zip(VIDEOS, cycle(("red", "blue")), strict=False):
        target = folder / "videos" / kind / name.replace("/", "_")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(media / "video" / name, target)
        targets.append(target.relative_to(folder))
    return targets


def put_lists(videos: list[Path], folder: Path) -> None:
    """Write the lists that the recipes read."""
    lines = [f"{path} {number % 2}\n" for number, path in enumerate(videos)]
    (folder / "train.txt").write_text("".join(lines))
    rows = [f"{path},0.05,jump\n" for path in videos]
    (folder / "annotations.csv").write_text("path,seconds,label\n" + "".join(rows))
    (folder / "clips" / "jump").mkdir(parents=True)
    shutil.copy(folder / videos[0], folder / "clips/jump/abc_000010_000020.mp4")
    (folder / "kinetics.csv").write_text("label,youtube_id,time_start,time_end,split\njump,abc,10,20,train\n")
    shutil.copy(folder / videos[3], folder / "video.mp4")


def put_photos(media: Path, folder: Path) -> None:
    """Put real photos into two folders, one a class."""
    for name in PHOTOS:
        target = folder / "photos" / name
        target.mkdir(parents=True)
        for path in sorted((media / "image" / name).rglob("*.jp*g"))[:_PHOTOS_EACH]:
            shutil.copy(path, target)


@pytest.fixture
def real_files(media_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder that has the recipes' files."""
    missing = [name for name in VIDEOS if not (media_root / "video" / name).is_file()]
    missing += [name for name in PHOTOS if not (media_root / "image" / name).is_dir()]
    if missing:
        pytest.skip(f"{media_root} has no {', '.join(missing)}")
    put_lists(put_videos(media_root, tmp_path), tmp_path)
    put_photos(media_root, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_guide_has_five_recipes() -> None:
    assert [number for number, _ in RECIPES] == [1, 2, 3, 4, 5]
    assert all(any(block.language == "python" for block in recipe_blocks(number)) for number, _ in RECIPES)


CHECKS: dict[int, Callable[[ModuleType], bool]] = {
    1: lambda page: len(page.catalog) == len(VIDEOS) and not page.catalog.failures and not page.kinetics.failures,
    2: lambda page: page.cache.info().num_frames == len(page.all_frames),
    3: lambda page: len(page.evaluation) == len(VIDEOS) and len(page.by_number) == len(VIDEOS),
    4: lambda page: len(page.photos) == len(PHOTOS) * _PHOTOS_EACH and not page.photos.failures,
    5: lambda page: os.path.getsize("frame.png") > 0 and len(os.listdir("shots")) == 1,
}
"""What must be there once a recipe has been run."""


@pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:.*use of fork:DeprecationWarning")
@pytest.mark.skipif(not HAS_TORCH, reason="four of the five recipes need torch")
@pytest.mark.parametrize(("number", "title"), RECIPES, ids=[str(number) for number, _ in RECIPES])
@pytest.mark.usefixtures("real_files")
def test_a_recipe_runs_on_real_files(number: int, title: str, page_module: ModuleType) -> None:
    # Each recipe imports nothing that the first block of the guide, or the recipe before it, has imported already.
    exec("import csv, torch\nimport framefeed as ff\nfrom PIL import Image", page_module.__dict__)  # noqa: S102
    for block in recipe_blocks(number):
        if block.language == "python":
            run_python(block, page_module)
        else:
            run_shell(block)
    assert CHECKS[number](page_module), title
