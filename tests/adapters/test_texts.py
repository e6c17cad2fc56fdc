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
from tests.load.test_texts import TAGS, VERBS, write_table  # noqa: E402
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
    with pytest.warns(UserWarning, match=r"no text of column 'caption' in 2 rows: items have '' there; null='error'"):
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
    with pytest.raises(UsageError, match=r"no text of column 'caption' in 2 rows, 'tags' in 1 row: leave them out"):
        ClipDataset(plan(catalog, "caption", "tags"), null="error")
    with pytest.raises(UsageError, match="null: expected"):
        ClipDataset(plan(catalog, "verb"), null="skip")  # type: ignore[arg-type]
    assert len(ClipDataset(plan(catalog, "verb"), null="error")) == VIDEOS
    with pytest.raises(UsageError, match="one number per clip, but 'tags' has"):
        ClipDataset(plan(catalog, "tags"), "tags")
