"""Options of the clips of a plan, checked when they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import get_args

from framefeed._checks import check_choice, check_integer, check_names, expected, is_number
from framefeed.request import AnySize, Crop, Filter, Letterbox, OnDamaged, PictureRule, StillQuality, as_crop

CLIP_OPTIONS = (
    "horizontal_flip", "still_quality", "filter", "clips_per_video", "size", "crop", "within", "on_damaged",
)  # fmt: skip
"""Options that determine the clips besides the seed and the shuffle."""
OMITTED_VALUES = {
    "horizontal_flip": "0.0", "still_quality": "'exact'", "filter": "'bilinear'", "clips_per_video": "1",
    "on_damaged": "'error'", "shuffle": "True",
}  # fmt: skip
"""Values that `ClipOptions.texts` and states leave out; of other options None."""
_MOST_CLIPS = 1 << 40
"""Of a video; so positions, and their products with ranks, are int64."""


@dataclass(frozen=True)
class ClipOptions:
    """The options of ``plan_clips`` and ``plan_requests`` that are about clips; those about their order are an `Order`.

    The defaults are those of docs/reference.md.
    """

    clips_per_video: int = 1
    size: AnySize | None = None
    crop: Crop | Sequence[int] | None = None
    within: tuple[str, str] | None = None
    columns: Sequence[str] | Mapping[str, str | None] = ()
    on_damaged: OnDamaged = "error"
    unequal: bool = False
    horizontal_flip: float = 0.0
    still_quality: StillQuality = "scaled"
    filter: Filter = "bilinear"
    coded: frozenset[str] = frozenset()
    """Columns of text that are delivered as codes."""

    def __post_init__(self) -> None:
        clips = check_integer("clips_per_video", self.clips_per_video, 1, _MOST_CLIPS)
        object.__setattr__(self, "clips_per_video", clips)
        if self.within is not None:
            names = tuple(self.within) if isinstance(self.within, (tuple, list)) else ()
            if len(names) != 2 or not all(isinstance(name, str) for name in names):
                what = 'the names of two columns of seconds, such as ("start_seconds", "end_seconds")'
                raise expected("within", what, self.within)
            object.__setattr__(self, "within", names)
        if isinstance(self.columns, Mapping):
            for name, form in self.columns.items():
                if form not in ("codes", None):
                    raise expected(f"columns[{name!r}]", '"codes", or None for the values', form)
            coded = frozenset(name for name, form in self.columns.items() if form is not None)
            object.__setattr__(self, "coded", coded)
            object.__setattr__(self, "columns", list(self.columns))
        object.__setattr__(self, "columns", check_names("columns", self.columns))
        check_choice("on_damaged", self.on_damaged, get_args(OnDamaged))
        if not isinstance(self.unequal, bool):
            raise expected("unequal", "True or False", self.unequal)
        if not is_number(self.horizontal_flip) or not 0 <= self.horizontal_flip <= 1:
            raise expected("horizontal_flip", "a probability from 0.0 to 1.0", self.horizontal_flip)
        object.__setattr__(self, "horizontal_flip", float(self.horizontal_flip))
        object.__setattr__(self, "crop", as_crop(self.crop))
        object.__setattr__(self, "size", self.pictures.size)

    @property
    def pictures(self) -> PictureRule:
        """Size, crop, quality and filter as one rule."""
        return PictureRule(self.size, as_crop(self.crop), self.still_quality, self.filter)

    @property
    def has_boxes(self) -> bool:
        """Whether pictures lie in larger ones that are delivered."""
        return isinstance(self.size, Letterbox)

    @property
    def texts(self) -> dict[str, str]:
        """The values of `CLIP_OPTIONS` as text, without those of `OMITTED_VALUES`."""
        texts = {name: _describe(getattr(self, name)) for name in CLIP_OPTIONS}
        return {name: text for name, text in texts.items() if text != OMITTED_VALUES.get(name, "None")}


def _describe(value: object) -> str:
    """Describe a value without those of its fields that have their defaults, so that a short text tells it."""
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    texts = {field.name: (repr(getattr(value, field.name)), repr(field.default)) for field in fields(value)}
    given = ", ".join(f"{name}={text}" for name, (text, default) in texts.items() if text != default)
    return f"{type(value).__name__}({given})"
