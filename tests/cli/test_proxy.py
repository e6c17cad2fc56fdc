"""`framefeed proxy`: smaller copies of a catalog's files, or an estimate of what they would bring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import framefeed as ff
from framefeed.cli import main
from tests.cli.running import Answer, only_line
from tests.proxies.conftest import count_pixels
from tests.proxies.originals import files_in, fill, rows_of, scan

NAMES = ("plain.mp4", "variable.mp4", "still.jpg", "alpha.png")


@pytest.fixture(autouse=True)
def time_is_counted_by_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framefeed.proxies._estimate._time_clips", count_pixels)


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalog beside the folder of its files."""
    monkeypatch.chdir(tmp_path)
    scan(fill(tmp_path / "in", NAMES), out=tmp_path / "cat.parquet")
    return tmp_path / "cat.parquet"


def words(*more: str) -> list[str]:
    return ["proxy", "cat.parquet", *more, "--short-side", "96", "--workers", "1"]


def test_copies_are_made_and_a_catalog_of_them(catalog: Path, tmp_path: Path, answer: Answer) -> None:
    out, err = answer(*words("small"))
    lines = out.splitlines()
    assert lines[0].startswith("small: 3 proxies of 4 files, in ")
    assert [line.split()[0] for line in lines[1:4]] == ["bytes", "luma", "RGB"]
    assert "the worst frame " in lines[2]
    assert lines[4] == "stay as they are, 1: it has an alpha channel"
    assert lines[5] == "saved as small/catalog.parquet"
    assert err == ""
    small = ff.Catalog.open(tmp_path / "small" / "catalog.parquet")
    made = [Path(str(entry.source)).parent.name for entry in small]
    assert sorted(made) == ["in", "small", "small", "small"]
    assert small.fingerprint == ff.Catalog.open(catalog).fingerprint
    plan = ff.plan_clips(small, ff.Uniform(2), seed=0, size=(48, 64))
    with ff.ClipLoader(plan, batch_size=4, workers=0) as loader:
        assert all(batch.ok.all() for batch in loader)


def test_a_second_run_keeps_all_and_another_makes_all_anew(catalog: Path, tmp_path: Path, answer: Answer) -> None:
    answer(*words("small"))
    times = {name: (tmp_path / "small" / name).stat().st_mtime_ns for name in ("plain.mp4", "still.jpg")}
    answer(*words("small"))
    assert times == {name: (tmp_path / "small" / name).stat().st_mtime_ns for name in times}
    answer(*words("small", "--no-resume", "--gop", "4"))
    assert all((tmp_path / "small" / name).stat().st_mtime_ns > times[name] for name in times)


def test_the_result_as_json(catalog: Path, tmp_path: Path, answer: Answer) -> None:
    document = json.loads(answer(*words("small", "--json")).out)
    rows = rows_of(tmp_path / "small")
    made = [row for row in rows.values() if row["proxy"]]
    assert (document["files"], document["proxies"]) == (4, 3)
    assert document["original_bytes"] == sum(row["bytes"] for row in made)
    assert document["proxy_bytes"] == sum(row["proxy_bytes"] for row in made)
    assert document["psnr_mean"] == pytest.approx(sum(row["psnr"] for row in made) / 3)
    assert document["psnr_worst"] == min(row["psnr_worst"] for row in made)
    assert rows[Path(document["worst"]).name]["psnr_worst"] == document["psnr_worst"]
    assert document["stay"] == {"it has an alpha channel": 1}
    assert document["failed"] == []
    assert document["seconds"] >= 0


def test_an_estimate(catalog: Path, tmp_path: Path, answer: Answer) -> None:
    out, err = answer(*words("--estimate"))
    assert out.splitlines()[0].split()[:2] == ["kind", "files"]
    assert out.splitlines()[-1].startswith("Yes: proxies of 3 files at 96 pixels give clips ")
    assert err == ""
    document: dict[str, Any] = json.loads(answer(*words("--estimate", "--json")).out)
    assert (document["num_files"], document["num_proxies"], document["workers"]) == (4, 3, 1)
    assert document["bytes"] == sum(path.stat().st_size for path in (tmp_path / "in").iterdir())
    assert sum(each["num_files"] for each in document["kinds"]) + sum(document["stay"].values()) == 4
    assert document["gain_low"] <= document["gain"] <= document["gain_high"]
    assert document["answer"].startswith("Yes: ")
    assert document["stay"] == {"it has an alpha channel": 1}
    assert not (tmp_path / "small").exists()


def test_an_estimate_without_a_sample_is_json_too(catalog: Path, tmp_path: Path, answer: Answer) -> None:
    for name in ("plain.mp4", "variable.mp4", "still.jpg"):
        (tmp_path / "in" / name).unlink()

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is not JSON")

    document = json.loads(answer(*words("--estimate", "--json")).out, parse_constant=refuse)
    assert document["num_proxies"] == 0
    assert document["kinds"][0]["gain"] is None
    assert document["answer"].startswith("No: ")


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_made(
    catalog: Path, tmp_path: Path, answer: Answer
) -> None:
    (tmp_path / "in" / "still.jpg").unlink()
    out, err = answer(*words("small"), code=3)
    assert out.splitlines()[0].startswith("small: 2 proxies of 4 files")
    assert "still.jpg" in err
    assert "no such file" in err
    document = json.loads(answer(*words("small", "--json"), code=3).out)
    assert len(document["failed"]) == 1
    assert document["proxies"] == 2
    fill(tmp_path / "in", ["still.jpg"])
    assert answer(*words("small")).out.splitlines()[0].startswith("small: 3 proxies of 4 files")


def test_names_that_are_not_utf8_are_printed(tmp_path: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = fill(tmp_path / "in", ["plain.mp4"])
    (folder / "plain.mp4").rename(folder / "\udcff.mp4")
    scan(folder, out=tmp_path / "cat.parquet")
    out, _ = answer(*words("small"))
    assert "\\xff.mp4" in out or "\\udcff.mp4" in out
    (folder / "\udcff.mp4").unlink()
    for path in (tmp_path / "small").glob("*.mp4"):
        path.unlink()
    _, err = answer(*words("small"), code=3)
    assert "no such file" in err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["proxy", "cat.parquet"], "no folder for the copies"),
        (["proxy", "none.parquet", "small"], "none.parquet"),
        (["proxy", "cat.parquet", "in"], "choose a folder outside"),
        (["proxy", "cat.parquet", "in/small"], "choose a folder outside"),
        (["proxy", "cat.parquet", "small", "--short-side", "97"], "even number"),
        (["proxy", "cat.parquet", "small", "--short-side", "2"], "short-side"),
        (["proxy", "cat.parquet", "small", "--gop", "0"], "gop"),
        (["proxy", "cat.parquet", "small", "--workers", "-1"], "workers"),
    ],
)
def test_mistakes_are_one_line(catalog: Path, tmp_path: Path, answer: Answer, given: list[str], message: str) -> None:
    out, err = answer(*given, code=1)
    assert out == ""
    assert message in only_line(err)
    assert not (tmp_path / "small").exists()


def test_proxies_of_proxies_are_refused(catalog: Path, tmp_path: Path, answer: Answer) -> None:
    answer(*words("small"))
    _, err = answer("proxy", "small/catalog.parquet", "smaller", code=1)
    assert "begin with the catalog of the originals" in only_line(err)
    assert files_in(tmp_path / "small") >= {"catalog.parquet", "proxies.parquet"}


def test_relative_paths_start_at_the_root(tmp_path: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    scan(fill(tmp_path / "in", NAMES), out=tmp_path / "cat.parquet", root=tmp_path / "in")
    (tmp_path / "in").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    out, _ = answer(*words("small", "--root", "moved"))
    assert out.splitlines()[0].startswith("small: 3 proxies of 4 files")
    small = ff.Catalog.open(tmp_path / "small" / "catalog.parquet", root=tmp_path / "moved")
    plan = ff.plan_clips(small, ff.Uniform(2), seed=0, size=(48, 64))
    with ff.ClipLoader(plan, batch_size=4, workers=0) as loader:
        assert all(batch.ok.all() for batch in loader)


def test_help_says_what_it_does(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        raise SystemExit(main(["proxy", "--help"]))
    assert not caught.value.code
    assert "--estimate" in capfd.readouterr().out
