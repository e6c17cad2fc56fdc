"""Text in torch's items: as it is, "" where there is none, and codes as a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import framefeed as ff  # noqa: E402
from framefeed.adapters.torch import ClipDataset, list_clips, pad_clips  # noqa: E402
from framefeed.errors import UsageError  # noqa: E402
from framefeed.plan import EpochPlan  # noqa: E402
from tests.adapters.test_collate import LOADERS  # noqa: E402
from tests.load.test_texts import TAGS, VERBS, list_videos, write_table  # noqa: E402
from tests.makers import VIDEOS  # noqa: E402

TEXTS = ["a dog", None, "a cat", "", "a bird", "a dog"]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> ff.Catalog:
    folder: Path = tmp_path_factory.mktemp("texts")
    columns: dict[str, Any] = {"caption": TEXTS, "tags": TAGS, "verb": [verb or "lie" for verb in VERBS]}
    return ff.scan(write_table(folder / "list.parquet", **columns), workers=0)


def plan(catalog: ff.Catalog, *columns: str) -> EpochPlan:
    return ff.plan_clips(catalog, ff.Uniform(1), seed=0, shuffle=False, columns=columns, size=(8, 8))


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("collate", [None, pad_clips, list_clips])
def test_texts_of_a_batch_are_a_list(catalog: ff.Catalog, loader: str, collate: Any) -> None:
    with pytest.warns(UserWarning, match=r"no text of column 'caption' in 2 rows, first of row 1: items have ''"):
        dataset = ClipDataset(plan(catalog, "caption", "verb"))
    options = {} if collate is None else {"collate_fn": collate}
    batches = list(LOADERS[loader](dataset, batch_size=4, **options))
    assert [text for batch in batches for text in batch["caption"]] == [text or "" for text in TEXTS]
    assert batches[0]["verb"] == VERBS[:4]


def test_lists_of_texts_stay_lists(catalog: ff.Catalog) -> None:
    with pytest.warns(UserWarning, match="no text of column 'tags' in 1 row"):
        dataset = ClipDataset(plan(catalog, "tags"))
    assert [dataset[row]["tags"] for row in range(VIDEOS)] == [["x", "y"], [], [], ["z"], ["x", ""], ["y"]]


@pytest.mark.parametrize("loader", LOADERS)
def test_a_target_of_text_is_its_codes(catalog: ff.Catalog, loader: str) -> None:
    own = plan(catalog, "verb", "caption")
    targets = [target for _, part in LOADERS[loader](ClipDataset(own, "verb"), batch_size=4) for target in part]
    assert [own.texts["verb"][int(target)] for target in targets] == [verb or "lie" for verb in VERBS]
    assert targets[0].dtype == torch.int64


def test_missing_texts_can_be_refused(catalog: ff.Catalog) -> None:
    with pytest.raises(
        UsageError, match=r"no text of column 'caption' in 2 rows, 'tags' in 1 row, first of row 1: leave"
    ):
        ClipDataset(plan(catalog, "caption", "tags"), null="error")
    with pytest.raises(UsageError, match="null: expected"):
        ClipDataset(plan(catalog, "verb"), null="skip")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="null"):
        ClipDataset(plan(catalog, "verb"), "verb", null="skip")  # type: ignore[arg-type]
    assert len(ClipDataset(plan(catalog, "verb"), null="error")) == VIDEOS
    with pytest.raises(UsageError, match="one number or text per clip, but 'tags' has lists of text"):
        ClipDataset(plan(catalog, "tags"), "tags")


@pytest.mark.parametrize("loader", LOADERS)
def test_lists_of_texts_of_a_batch_are_those_of_each_clip(catalog: ff.Catalog, loader: str) -> None:
    with pytest.warns(UserWarning, match="no text of column 'tags'"):
        dataset = ClipDataset(plan(catalog, "tags"))
    batches = list(LOADERS[loader](dataset, batch_size=4))
    assert [tags for batch in batches for tags in batch["tags"]] == [dataset[row]["tags"] for row in range(VIDEOS)]


def test_classes_are_the_texts_of_the_target(catalog: ff.Catalog) -> None:
    dataset = ClipDataset(plan(catalog, "verb"), "verb")
    assert dataset.classes == ["eat", "lie", "run", "sit"]
    assert dataset.class_to_idx["run"] == 2


def test_requests_without_text_are_no_targets() -> None:
    requests = [ff.DecodeRequest(path, [0]) for path in list_videos()]
    own = ff.plan_requests(requests, columns={"verb": VERBS}, size=(8, 8))
    with pytest.raises(UsageError, match="1 of 6 requests have no text of 'verb': leave them out, first number 5"):
        ClipDataset(own, "verb")
