"""Video processors with the recorded attributes of transformers' own, which is not imported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from framefeed.request import PixelBudget
from tests.vlm.golden import read_golden

GOLDEN = read_golden()
DESCRIBED = [name for name in GOLDEN["processors"] if name.startswith(("qwen", "glm", "intern", "llava"))]


class VideoProcessor:
    """The attributes of a recorded processor; what it samples is what a test gives."""

    def __init__(self, name: str, indices: Any = None, **changes: Any) -> None:
        facts = GOLDEN["processors"][name]
        self.name = name
        self.values = {**facts["attributes"], **changes}
        self.indices = indices or (list(range(19)) if name.startswith("qwen3") else None)
        self.asked: list[Any] = []
        if "get_num_of_video_patches" in facts["methods"]:
            self.get_num_of_video_patches = self._count_patches

    def __getattr__(self, name: str) -> Any:
        if name != "values" and name in self.values:
            return self.values[name]
        raise AttributeError(name)

    def __reduce__(self) -> Any:
        return (VideoProcessor, (self.name, self.indices))

    def sample_frames(self, metadata: Any, **arguments: Any) -> Any:
        self.asked.append((metadata, arguments))
        return self.indices

    def to_dict(self) -> dict[str, Any]:
        return dict(self.values)

    def _count_patches(self, length: int, height: int, width: int, _: dict[str, Any]) -> int:
        size, multiple = self.values["size"], self.values["patch_size"] * self.values["merge_size"]
        limits = size["shortest_edge"], size["longest_edge"]
        budget = PixelBudget(multiple, *limits) if self.name.startswith("qwen2") else None
        budget = budget or PixelBudget(multiple, min_total=limits[0], max_total=limits[1]).for_frames(length)
        rows, columns = budget.fit(height, width)[0]
        return -(-length // 2) * rows * columns // self.values["patch_size"] ** 2


def make_processor(name: str, **changes: Any) -> Any:
    """A processor of text and videos, as users have it."""
    return SimpleNamespace(video_processor=VideoProcessor(name, **changes), tokenizer=None)
