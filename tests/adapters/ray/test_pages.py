"""The page about several machines, as programs."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import framefeed as ff
from framefeed.testing import ClipSpec, write_clip
from tests.cli.running import environment
from tests.test_docs import ROOT, as_documented, blocks_of

pytest.importorskip("ray.data", reason="Ray is not installed: make ray runs this in .venv-ray")
pytest.importorskip("torch")

SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1", "RAY_enable_metrics_collection": "0"}


@pytest.fixture
def at_home(tmp_path: Path) -> Path:
    for number in range(6):
        (folder := tmp_path / "videos" / f"class_{number % 2}").mkdir(parents=True, exist_ok=True)
        write_clip(folder / f"{number}.mp4", ClipSpec(num_frames=16, height=96, width=128, seed=number))
    return tmp_path


def run(code: str, folder: Path, settings: dict[str, str]) -> str:
    (folder / "page.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "page.py"]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment({**SETTINGS, "HOME": str(folder), **settings}),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.chaos  # Ray Train starts processes that import PyTorch
@pytest.mark.timeout(300)
def test_recipes_of_ray_are_one_program(at_home: Path, short_folder: Path) -> None:
    blocks = [block.code for block in blocks_of(ROOT / "docs" / "scale.md") if block.reason == "needs Ray"]
    code = "\n".join(blocks)
    # Two CPUs and a small store.
    with_limits = "ray.init(num_cpus=2, object_store_memory=150 << 20, include_dashboard=False, log_to_driver=True)"
    assert code.count("ray.init()") == 1
    (short_folder / "p" / "ray").mkdir(parents=True)
    settings = {"RAY_TMPDIR": str(short_folder / "p")}
    printed = run(code.replace("ray.init()", with_limits) + "\nray.shutdown()\n", at_home, settings)
    assert printed.count("torch.Size([4, 8, 3, 64, 64])") == 2
    assert "[True, True, True, True] [None, None, None, None]" in printed
    assert "6 files" in printed
    assert "[16, 16, 16, 16, 16, 16] frames" in printed
    assert sorted(path.name for path in at_home.glob("dark*.mp4")) == [f"dark{row}.mp4" for row in range(6)]


@pytest.mark.chaos
def test_the_recipe_of_slurm_gives_each_rank_its_share(at_home: Path) -> None:
    (block,) = [block.code for block in blocks_of(ROOT / "docs" / "scale.md") if "SLURM" in block.code]
    printed = "".join(run(block, at_home, {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "2"}) for rank in range(2))
    assert sorted(printed.splitlines()) == ["0 [0, 2]", "0 [4]", "1 [1, 3]", "1 [5]"]


def test_signatures_are_those_of_the_code() -> None:
    documented = [
        line
        for block in blocks_of(ROOT / "docs" / "reference.md")
        if block.language == "signature"
        for line in block.code.splitlines()
        if line.startswith("ray.")
    ]
    assert [line.partition("(")[0] for line in documented] == ["ray.dataset", "ray.scan"]
    for line in documented:
        name, expected = as_documented(line)
        actual = inspect.signature(getattr(ff.ray, name.removeprefix("ray.")))
        plain = [each.replace(annotation=inspect.Parameter.empty) for each in actual.parameters.values()]
        assert list(expected.parameters.values()) == plain


TRAIN = """
import framefeed as ff
import ray
from ray.train import DataConfig, ScalingConfig, get_context, get_dataset_shard
from ray.train.torch import TorchTrainer

ray.init(num_cpus=4, object_store_memory=150 << 20, include_dashboard=False, log_to_driver=False)
catalog = ff.scan("videos/", out="cat.parquet")


def plan_of(rank):
    return ff.plan_clips(catalog, ff.Dense(4), seed=0, clips_per_video=4, rank=rank, world_size=2, size=(32, 32))


def train():
    rank = get_context().get_world_rank()
    with ff.ClipLoader(plan_of(rank), batch_size=4) as loader:
        own = [(batch.positions.tolist(), batch.data.tobytes()) for batch in loader]
    shard = get_dataset_shard(f"rank{rank}")
    batches = shard.iter_torch_batches(batch_size=4)
    dealt = [(batch["position"].tolist(), batch["data"].cpu().numpy().tobytes()) for batch in batches]
    assert dealt == own
    with open(f"HOME/rank{rank}", "w") as file:
        print(*(position for positions, _ in own for position in positions), file=file)


datasets = {f"rank{rank}": ff.ray.dataset(plan_of(rank), batch_size=4) for rank in range(2)}
only_own = DataConfig(datasets_to_split=[])
TorchTrainer(train, scaling_config=ScalingConfig(num_workers=2), datasets=datasets, dataset_config=only_own).fit()
ray.shutdown()
"""


@pytest.mark.chaos  # four processes import PyTorch at once
@pytest.mark.timeout(300)
def test_two_ranks_of_ray_train_have_the_plan_together(at_home: Path, short_folder: Path) -> None:
    (short_folder / "r" / "ray").mkdir(parents=True)
    run(TRAIN.replace("HOME", str(at_home)), at_home, {"RAY_TMPDIR": str(short_folder / "r")})
    dealt = [list(map(int, (at_home / f"rank{rank}").read_text().split())) for rank in range(2)]
    assert [len(each) for each in dealt] == [12, 12]
    assert sorted(dealt[0] + dealt[1]) == list(range(24))
