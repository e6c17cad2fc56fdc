"""The pipeline of section C, which our own is compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("nvidia.dali", reason="DALI is not installed: make dali runs this in .venv-dali")

from benchmarks.peers import dali
from benchmarks.sections import c


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> c.Album:
    return c.make_pictures(tmp_path_factory.mktemp("pictures"), 11)


def read_labels(source: dali.Files) -> list[list[int]]:
    return [[int(label[0]) for label in labels] for _, labels in source]


def test_files_are_shuffled_each_epoch_and_dealt_to_ranks_of_equal_length(album: c.Album) -> None:
    ranks = [dali.Files(album.paths, album.labels, 4, rank=rank, world_size=2) for rank in range(2)]
    for _ in range(2):
        epoch = [read_labels(rank) for rank in ranks]
        assert [list(map(len, batches)) for batches in epoch] == [[4, 2]] * 2
        assert {label for batches in epoch for batch in batches for label in batch} == set(album.labels)
    assert read_labels(ranks[0]) != epoch[0]


def test_each_epoch_of_the_pipeline_gives_every_picture(album: c.Album) -> None:
    expected = [c.decode_by_pillow(path) for path in album.paths]
    begin = dali.open_pictures(dali.Files(album.paths, album.labels, 4), c.SIDE, 4, 2)
    for _ in range(3):
        assert c.check_epoch(begin(), expected) == []


@pytest.mark.parametrize("steps", range(1, 1 + len(dali.STEPS)))
def test_the_first_steps_run_one_epoch_after_the_other(album: c.Album, steps: int) -> None:
    read: list[int] = []

    class Counted(dali.Files):
        def __iter__(self):
            for files, labels in super().__iter__():
                read.extend(int(label[0]) for label in labels)
                yield files, labels

    run = dali.open_steps(Counted(album.paths, album.labels, 4), c.SIDE, 4, steps)
    for _ in range(2):
        run()
    assert len(read) == 2 * len(album.paths)


def test_a_damaged_file_ends_the_epoch_without_its_name(album: c.Album, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(Path(album.paths[0]).read_bytes()[:200])
    begin = dali.open_pictures(dali.Files([*album.paths, str(bad)], range(12), 4), c.SIDE, 4, 2)
    with pytest.raises(RuntimeError) as caught:
        list(begin())
    assert "bad.jpg" not in str(caught.value)
