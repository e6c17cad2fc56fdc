"""Which baselines of ``bench cache`` are installed."""

from __future__ import annotations

from dataclasses import dataclass, field

from framefeed.bench._cache_formats import FileFormat, Loaded, OrderReader, OriginalReader
from framefeed.bench.baselines import load_module

FRAME_BASELINES = (
    "frames_opencv",
    "frames_joblib",
    "frames_blosc2",
    "frames_webp",
    "frames_ffvhuff",
    "frames_jpegxl",
)
"""Modules of formats, the write-up's first."""
ORIGINAL_BASELINES = ("frames_torchcodec", "frames_decord2", "frames_opencv")
"""Modules of readers that give frames of the original at full size."""
LOADER = "frames_loader"


@dataclass(slots=True)
class FrameField:
    """All that can be measured here.

    Attributes:
        formats: Of one file a frame.
        originals: Readers of single frames.
        in_order: Readers of whole videos.
        loader: torch's DataLoader over files, or None.
        versions: Of the libraries.
        missing: Module -> why it cannot be had.
    """

    formats: list[FileFormat] = field(default_factory=list)
    originals: list[OriginalReader] = field(default_factory=list)
    in_order: list[OrderReader] = field(default_factory=list)
    loader: Loaded | None = None
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def find_frames() -> FrameField:
    """Load the baselines that are installed."""
    installed = FrameField()
    for name in dict.fromkeys((*FRAME_BASELINES, *ORIGINAL_BASELINES, LOADER)):
        module = load_module(name)
        if isinstance(module, str):
            installed.missing[name.removeprefix("frames_")] = module
            continue
        installed.versions.update(module.versions())
        installed.formats.extend(getattr(module, "formats", list)())
        installed.originals.extend(getattr(module, "originals", list)())
        installed.in_order.extend(getattr(module, "in_order", list)())
        if name == LOADER:
            installed.loader = module.batches_of
    return installed
