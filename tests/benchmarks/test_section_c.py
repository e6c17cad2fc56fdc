from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from benchmarks.sections import c
from framefeed.bench import Rounds, run_row
from framefeed.bench.baselines import Peers
from framefeed.decode import Pixels
from framefeed.errors import MissingMedia

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> c.Album:
    return c.make_pictures(tmp_path_factory.mktemp("c") / "pictures", 12)


@pytest.fixture(scope="module")
def pictures(album: c.Album) -> list[Pixels]:
    return [c.decode_by_pillow(path) for path in album.paths]


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Peers:
    monkeypatch.setattr(c, "THREADS", 0)  # in this process
    return Peers.find(c.SECTION.peers)


@pytest.mark.slow
@pytest.mark.parametrize("epochs", [pytest.param(0, marks=pytest.mark.test_all), 1])
def test_our_routes_give_every_picture_of_an_epoch(album: c.Album, peers: Peers, epochs: int) -> None:
    with ExitStack() as stack:
        row = run_row(c.epochs_row(album, peers, stack, epochs), Rounds(1))
    complaints = {each["name"]: each["wrong"] for each in row["contenders"]}
    assert complaints.keys() >= {c.OURS, c.OURS_TORCH, c.PILLOW}
    assert not any(complaints.values())
    assert c.DALI_MIXED in row["failed"]


def deal(pictures: list[Pixels], order: list[int]) -> Iterator[tuple[Pixels, list[int]]]:
    yield np.stack([pictures[number] for number in order]), order


def test_an_epoch_with_wrong_pictures_or_order_is_not_timed(pictures: list[Pixels]) -> None:
    order = [*range(1, 12), 0]
    assert c.check_epoch(deal(pictures, order), pictures) == []
    assert c.check_epoch(deal(pictures, sorted(order)), pictures) == ["the order is that of the files"]
    assert c.check_epoch(deal(pictures, order[1:]), pictures) == ["11 pictures, 11 different ones, of 12"]
    swapped = [(shown, order) for shown, _ in deal(pictures, [*order[1:], order[0]])]
    assert len(c.check_epoch(swapped, pictures)) == len(order)


def test_pictures_of_the_user_are_those_that_can_be_decoded(album: c.Album, tmp_path: Path) -> None:
    for number in (3, 5):
        (tmp_path / f"{number}.jpg").write_bytes(Path(album.paths[number]).read_bytes())
    (tmp_path / "cut.jpg").write_bytes(Path(album.paths[0]).read_bytes()[:3000])
    found = c.find_pictures(tmp_path)
    assert [Path(path).name for path in found.paths] == ["3.jpg", "5.jpg"]
    (tmp_path / "none").mkdir()
    with pytest.warns(UserWarning, match="none"), pytest.raises(MissingMedia, match="no JPEG"):
        c.find_pictures(tmp_path / "none")
