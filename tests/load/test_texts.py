"""Text beside clips: it comes as it is in the table, for any workers, ranks, rests, mixtures and streams."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import framefeed as ff
from framefeed.catalog import Catalog
from framefeed.errors import UsageError
from framefeed.load import ClipLoader
from framefeed.plan import EpochPlan, Uniform, mix_plans, plan_clips, plan_requests
from framefeed.request import DecodeRequest
from framefeed.scanning import scan
from tests.load.test_lengths import WAYS, RandomLength
from tests.makers import VIDEOS, folder

pytestmark = pytest.mark.usefixtures("kept_processes")

CAPTIONS = ["a dog", None, "zero\0byte", "é" * 500_000, " ", "a dog"]
TAGS = [["x", "y"], [], None, ["z"], ["x", None], ["y"]]
VERBS = ["run", "sit", "run", "eat", "sit", None]


def list_videos() -> list[str]:
    return sorted(map(str, folder().rglob("*.mp4")))


def write_table(path: Path, **columns: list[Any]) -> Path:
    pq.write_table(pa.table({"path": list_videos(), **columns}), path)
    return path


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Six videos with captions, lists of tags, verbs and scores."""
    path = tmp_path_factory.mktemp("texts") / "cat.parquet"
    table = write_table(path.with_name("list.parquet"), caption=CAPTIONS, tags=TAGS, verb=VERBS, score=[*range(VIDEOS)],
                        label=["b", "a"] * 3)  # fmt: skip
    return scan(table, out=path, workers=0)


COLUMNS = ("label", "caption", "tags", "verb", "score")


def plan_texts(catalog: Catalog, **options: Any) -> EpochPlan:
    return plan_clips(catalog, Uniform(1), **{"seed": 4, "columns": COLUMNS, "clips_per_video": 2, **options})


def assert_texts(plan: EpochPlan, batches: Any) -> int:
    """Each clip has the texts of its row."""
    seen = 0
    for batch in batches:
        for slot, row in enumerate(batch.rows.tolist()):
            assert batch["caption"][slot] == CAPTIONS[row]
            assert batch["tags"][slot] == TAGS[row]
            assert batch["verb"][slot] == VERBS[row]
            assert (batch["score"][slot], plan.classes[batch["label"][slot]]) == (row, "ba"[row % 2])
            seen += 1
    return seen


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_texts_are_those_of_the_table(catalog: Catalog, options: Any) -> None:
    plan = pickle.loads(pickle.dumps(plan_texts(catalog)))
    with ClipLoader(plan, batch_size=5, **options) as loader:
        assert assert_texts(plan, loader) == 2 * VIDEOS
    for position in range(len(plan)):
        columns = plan.columns_at(position)
        assert (columns["caption"], columns["tags"]) == (CAPTIONS[plan[position].row], TAGS[plan[position].row])


def test_texts_follow_their_clips_over_ranks_rests_and_views(catalog: Catalog) -> None:
    plan = plan_texts(catalog)
    with ClipLoader(plan, batch_size=2) as loader:
        next(iter(loader))
        state = loader.state_dict()
    for rank in range(2):
        with ClipLoader(EpochPlan(replace(plan.order, rank=rank, world_size=2), plan.clips), batch_size=3) as loader:
            loader.load_state_dict(state)
            assert assert_texts(plan, loader) == 5
    with ClipLoader(plan_texts(catalog.take([4, 1, 3])), batch_size=6) as loader:
        (batch,) = loader
    assert [CAPTIONS[[4, 1, 3][row]] for row in batch.rows] == batch["caption"]


def test_codes_of_texts_are_delivered_where_they_are_asked_for(catalog: Catalog) -> None:
    plan = plan_texts(catalog, columns={"verb": "codes", "caption": None, "label": "codes"})
    with ClipLoader(plan, batch_size=12) as loader:
        (batch,) = loader
    texts = [*plan.texts["verb"], None]
    assert batch["verb"].dtype == np.int64
    assert [texts[code] for code in batch["verb"]] == [VERBS[row] for row in batch.rows]
    assert batch["caption"] == [CAPTIONS[row] for row in batch.rows]
    assert plan.texts["label"] == ("a", "b")
    assert plan.texts["caption"] == tuple(sorted({text for text in CAPTIONS if text is not None}))
    assert set(plan.texts) == {"verb", "caption", "label"}
    assert plan.fingerprint == plan_texts(catalog).fingerprint
    assert_texts_of(pickle.loads(pickle.dumps(plan)), "verb", ("eat", "run", "sit"))
    for columns, message in (
        ({"score": "codes"}, "only a column of text has codes, but 'score' holds int64"),
        ({"tags": "codes"}, "only a column of text has codes"),
        ({"verb": "texts"}, "columns\\['verb'\\]: expected \"codes\", or None"),
        ({"none": "codes"}, "no|none"),
    ):
        with pytest.raises(UsageError, match=message):
            plan_texts(catalog, columns=columns)


def assert_texts_of(plan: EpochPlan, name: str, texts: tuple[str, ...]) -> None:
    assert plan.texts[name] == texts


def test_a_caption_that_is_corrected_leaves_a_checkpoint_good(catalog: Catalog, tmp_path: Path) -> None:
    corrected = write_table(tmp_path / "list.parquet", caption=["a cat", *CAPTIONS[1:]], tags=TAGS, verb=VERBS,
                            score=[*range(VIDEOS)], label=["b", "a"] * 3)  # fmt: skip
    later = plan_texts(scan(corrected, workers=0))
    with ClipLoader(plan_texts(catalog), batch_size=2) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with ClipLoader(later, batch_size=10) as loader:
        loader.load_state_dict(state)
        (batch,) = loader
    assert batch["caption"] == [("a cat", *CAPTIONS[1:])[row] for row in batch.rows]


def test_mixtures_and_streams_have_the_texts_of_their_parts(catalog: Catalog) -> None:
    others = catalog.take([2, 3, 5])
    mix = mix_plans([(plan_texts(catalog), 1), (plan_texts(others, seed=9), 1)], num_clips=17, seed=0)
    with ClipLoader(mix, batch_size=5, workers=2) as loader:
        for batch in loader:
            for slot, (part, row) in enumerate(zip(batch["plan"].tolist(), batch.rows.tolist(), strict=True)):
                own = row if part == 0 else [2, 3, 5][row]
                assert (batch["caption"][slot], batch["tags"][slot]) == (CAPTIONS[own], TAGS[own])
    assert mix.texts["verb"] == ("eat", "run", "sit")
    streams = plan_clips(
        None, Uniform(1), streams={"one": catalog, "two": catalog}, on="score", seed=0, columns=COLUMNS
    )
    with ClipLoader(pickle.loads(pickle.dumps(streams)), batch_size=4) as loader:
        assert assert_texts(streams, loader) == VIDEOS


def test_mixtures_of_other_vocabularies(catalog: Catalog, tmp_path: Path) -> None:
    parts = [
        plan_requests([DecodeRequest(path, [0]) for path in list_videos()[:3]], columns={"verb": verbs}, seed=seed)
        for seed, verbs in enumerate((["a", "c", None], ["b", "c", "d"]))
    ]
    mix = mix_plans([(part, 1) for part in parts], num_clips=6, seed=0)
    assert mix.texts["verb"] == ("a", "b", "c", "d")
    with ClipLoader(mix, batch_size=6) as loader:
        (batch,) = loader
    assert sorted(map(str, batch["verb"])) == ["None", "a", "b", "c", "c", "d"]
    others = scan(write_table(tmp_path / "other.parquet", verb=["other"] * VIDEOS))
    pairs = enumerate((catalog, others))
    coded = [(plan_texts(each, columns={"verb": "codes"}, seed=seed), 1) for seed, each in pairs]
    with pytest.raises(UsageError, match="the texts of the codes of column 'verb'"):
        mix_plans(coded, num_clips=5, seed=0)


def test_texts_of_requests(catalog: Catalog) -> None:
    requests = [DecodeRequest(path, range(number + 1)) for number, path in enumerate(list_videos())]
    columns = {"caption": CAPTIONS, "tags": [tags or [] for tags in TAGS], "label": ["b", "a"] * 3,
               "array": np.array(["x", "yy"] * 3)}  # fmt: skip
    plan = plan_requests(requests, columns=columns, unequal=True)
    with ClipLoader(pickle.loads(pickle.dumps(plan)), batch_size=6) as loader:
        (batch,) = loader
    assert batch["caption"] == CAPTIONS
    assert batch["tags"] == [tags or [] for tags in TAGS]
    assert batch["label"].tolist() == [1, 0] * 3
    assert batch["array"] == ["x", "yy"] * 3
    assert plan.texts["label"] == ("a", "b")
    for wrong, message in (
        ({"label": ["a", None] * 3}, "one label per request, without None"),
        ({"caption": ["a", 1] * 3}, "expected text, None or lists of text"),
        ({"caption": ["\ud800"] * 6}, "expected text, None or lists of text"),
        ({"caption": ["a"] * 5}, r"expected one value per request \(6\), got 5"),
        ({"caption": "abcdef"}, "one number, text or list per request|expected one value"),
    ):
        with pytest.raises(UsageError, match=message):
            plan_requests(requests, columns=wrong, unequal=True)


def test_text_beside_a_clip_that_fails_stays(catalog: Catalog) -> None:
    plan = plan_texts(catalog, unequal=True)
    failing = plan_clips(catalog, RandomLength(0), seed=1, columns=("caption",), unequal=True, clips_per_video=4)
    with ClipLoader(failing, batch_size=24, on_error="skip") as loader:
        (batch,) = loader
    assert not batch.ok.all()
    assert batch["caption"] == [CAPTIONS[row] for row in batch.rows]
    assert len(plan) == 12


def test_tasks_of_lerobot_are_texts_of_plans(tmp_path: Path) -> None:
    ff.testing.make_lerobot(tmp_path / "robot", episodes=(6, 5), cameras=("observation.images.top",))
    data = ff.lerobot.open(tmp_path / "robot")
    plan = data.plan({"observation.images.top": [0.0]}, seed=0, columns=("task", "task_index"))
    with ClipLoader(pickle.loads(pickle.dumps(plan)), batch_size=4) as loader:
        for batch in loader:
            assert batch["task"] == [data.meta.tasks[int(number)] for number in batch["task_index"].reshape(-1)]
