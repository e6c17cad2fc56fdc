"""A frame says its number through resizing, turning and coding, or says that it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from framefeed.testing._stamps import draw_stamp, find_stamp, read_stamp


@pytest.mark.parametrize("size", [(24, 32), (48, 64), (96, 128), (97, 131), (720, 1280)])
def test_every_size_reads_back(size: tuple[int, int]) -> None:
    for number in (0, 1, 2, 255, 256, 4095, 65535):
        assert read_stamp(draw_stamp(number, *size)) == number


def test_number_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="65535"):
        draw_stamp(65536, 96, 128)


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("mirrored", [False, True])
def test_turned_frames_are_found_and_not_misread(turns: int, mirrored: bool) -> None:
    picture = draw_stamp(1234, 96, 128)
    shown = np.rot90(picture[:, ::-1] if mirrored else picture, -turns)
    reading = find_stamp(shown)
    assert (reading.number, reading.rotation, reading.mirrored) == (1234, 90 * turns, mirrored)
    if turns or mirrored:
        with pytest.raises(ValueError, match="stamp"):
            read_stamp(shown)


def test_layouts_and_dtypes() -> None:
    picture = draw_stamp(77, 96, 128)
    for frame in (picture, picture.transpose(2, 0, 1), picture.mean(axis=2), picture / 255.0, picture[::2, ::2]):
        assert read_stamp(frame) == 77


def test_two_blended_frames_are_neither() -> None:
    blend = (draw_stamp(20, 96, 128).astype(int) + draw_stamp(21, 96, 128)) // 2
    with pytest.raises(ValueError, match="unreadable"):
        read_stamp(blend)


def test_one_flipped_cell_is_detected() -> None:
    for column in range(1, 7):
        picture = draw_stamp(500, 96, 128)
        cell = picture[12:24, 16 * column : 16 * column + 16]
        cell[:] = 251 - cell
        with pytest.raises(ValueError, match="damaged"):
            read_stamp(picture)


@pytest.mark.parametrize("level", [0, 128, 255])
def test_plain_pictures_have_no_stamp(level: int) -> None:
    with pytest.raises(ValueError, match="no stamp"):
        read_stamp(np.full((96, 128, 3), level, np.uint8))


def test_noise_has_no_stamp() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        with pytest.raises(ValueError, match="stamp"):
            read_stamp(rng.integers(0, 256, (96, 128, 3), dtype=np.uint8))


def test_styles_and_seeds_look_different() -> None:
    pictures = [draw_stamp(5, 96, 128, style=style, seed=seed) for style in (0, 1) for seed in (0, 1)]
    lower = [picture[48:].astype(int) for picture in pictures]
    for position, one in enumerate(lower):
        for other in lower[position + 1 :]:
            assert np.abs(one - other).mean() > 10
