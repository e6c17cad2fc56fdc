"""Files on the Hub of Hugging Face: read by ranges with the user's token, which no other host gets, and listed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import framefeed as ff
from framefeed.media import _identity
from framefeed.media.remote import find_options
from framefeed.media.remote._hub import HubName, find_token, list_hub, split_hub_url
from framefeed.media.remote._storage_options import HubOptions
from framefeed.parallel import release_idle
from tests.conftest import CHECKOUT
from tests.corpus import corpus_file
from tests.media.remote.faults import Fault
from tests.media.remote.hub import REPOSITORY, TOKEN, Hub, serving_hub
from tests.packed import pack

VIDEO, OTHER = corpus_file("base.mp4").read_bytes(), corpus_file("open_gop.mp4").read_bytes()
FILES = {"data/a/v 1.mp4": VIDEO, "data/b/v#2.mp4": OTHER, "data/b/notes.txt": b"text", "other/v3.mp4": VIDEO}
ROOTS = {"repository": f"hf://{REPOSITORY}", "revision": f"hf://{REPOSITORY}@main", "bucket": "hf://buckets/org/name"}


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A Hub with `FILES` that the environment names, with the token."""
    for name in [each for each in os.environ if each.startswith(("HF_", "HUGGING"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with serving_hub(FILES) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.hub.url + "/")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield served


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS)
def test_a_file_is_read_by_ranges_and_its_token_stays_at_the_hub(root: str, hub: Hub) -> None:
    with ff.VideoDecoder(f"{root}/data/a/v 1.mp4") as decoder, ff.VideoDecoder(VIDEO) as right:
        for number in (0, len(right) - 1):
            np.testing.assert_array_equal(decoder[number], right[number])
    assert hub.hub.count() == 1  # where the bytes are is remembered
    assert hub.bytes_host.count() > 1
    assert all(each.range for each in hub.bytes_host.asked)
    for each in hub.bytes_host.asked:
        assert TOKEN not in str(each)
        assert "If-Match" not in each.headers


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS)
def test_folders_and_patterns_are_listed_by_pages(root: str, hub: Hub, tmp_path: Path) -> None:
    for folder in ("", "/data", "/data/b"):
        below = {path: data for path, data in FILES.items() if f"/{path}".startswith(f"{folder}/")}
        hub.list_files(f"{REPOSITORY}/tree/main{folder}", below)
        hub.list_files(f"buckets/org/name/tree{f'{folder}/' if folder else ''}", below)
    videos = {f"{root}/{path}" for path in FILES if path.endswith(".mp4")}
    below = {each for each in videos if "/data/" in each}
    for given, rows in {
        root: videos,
        f"{root}/": videos,
        f"{root}/data/": below,
        f"{root}/data/b/": {f"{root}/data/b/v#2.mp4"},
        f"{root}/data/*/v*.mp4": below,
        f"{root}/**/*.mp4": videos,
    }.items():
        catalog = ff.scan(given, out=tmp_path / "cat.parquet")
        assert set(catalog.table["source"].to_pylist()) == rows
        assert not len(catalog.errors)
    assert all(each.headers.get("Authorization") for each in hub.hub.asked)
    with pytest.raises(ff.MissingMedia, match=r"there are objects below .*/data/b/: write the slash"):
        ff.scan(f"{root}/data/b")
    before = hub.bytes_host.count()
    ff.scan(f"{root}/**/*.mp4", out=tmp_path / "cat.parquet")
    assert hub.bytes_host.count() == before  # the list has the versions


def test_a_file_of_git_is_read_from_the_hub(hub: Hub, tmp_path: Path) -> None:
    small = {"small/s.mp4": VIDEO}
    hub.put_small("small/s.mp4", VIDEO)
    hub.list_files(f"{REPOSITORY}/tree/main/small", {}, small)
    for count in (1, 0):
        before = hub.hub.count("/datasets")
        assert not len(ff.scan(f"hf://{REPOSITORY}/small/", out=tmp_path / "cat.parquet").errors)
        assert (hub.hub.count("/datasets") > before) is bool(count)


@pytest.mark.parametrize("root", [ROOTS["repository"], ROOTS["bucket"]])
def test_D09_a_file_that_is_replaced_is_stale(root: str, hub: Hub) -> None:
    catalog = ff.scan([f"{root}/data/a/v 1.mp4"])
    release_idle()
    _identity.ACCEPTED.clear()
    before = hub.bytes_host.count()
    (stored,) = (each for each in hub.bytes_host.objects.values() if each.data == VIDEO)
    stored.etag = '"of another cache"'  # The Hub's tag stays.
    with ff.VideoDecoder(catalog[0]) as decoder:
        assert len(decoder[0])
    assert hub.bytes_host.count() == before + 1  # the frame alone: no fingerprint is compared
    release_idle()
    changed = bytearray(VIDEO)
    changed[-9] ^= 1
    hub.put("data/a/v 1.mp4", bytes(changed))
    hub.bytes_host.is_refused = lambda asked: bytes(changed) != hub.bytes_host.objects[asked.target[:65]].data
    with ff.VideoDecoder(catalog[0]) as decoder, pytest.raises(ff.StaleSource):
        decoder[0]


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS)
def test_shards_are_read_in_place(root: str, hub: Hub, tmp_path: Path) -> None:
    shards = {"shards/0.tar": pack([("a.mp4", VIDEO), ("b.mp4", OTHER)]), "shards/1.tar": pack([("c.mp4", VIDEO)])}
    for path, data in shards.items():
        hub.put(path, data)
    hub.list_files(f"{REPOSITORY}/tree/main/shards", shards)
    hub.list_files("buckets/org/name/tree/shards/", shards)
    ff.scan(f"{root}/shards/", out=tmp_path / "cat.parquet")
    catalog = ff.Catalog.open(tmp_path / "cat.parquet")
    assert len(catalog.usable_rows) == 3
    with ff.VideoDecoder(catalog[1]) as decoder, ff.VideoDecoder(OTHER) as right:
        np.testing.assert_array_equal(decoder[3], right[3])
    with ff.VideoDecoder(f"tar://c.mp4::{root}/shards/1.tar") as decoder:
        assert len(decoder[0])


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS)
def test_a_new_commit_is_seen_by_the_same_process(root: str, hub: Hub, tmp_path: Path) -> None:
    """The signed URL of the old bytes still holds."""
    for data in (VIDEO, OTHER):
        hub.put("new/a.mp4", data)
        hub.list_files(f"{REPOSITORY}/tree/main/new", {"new/a.mp4": data})
        hub.list_files("buckets/org/name/tree/new/", {"new/a.mp4": data})
        catalog = ff.scan(f"{root}/new/", out=tmp_path / "cat.parquet")
        for source in (catalog[0], f"{root}/new/a.mp4"):
            with ff.VideoDecoder(source) as decoder, ff.VideoDecoder(data) as right:
                assert len(decoder) == len(right)
                np.testing.assert_array_equal(decoder[3], right[3])


def test_a_data_set_of_lerobot_is_opened_on_the_hub(hub: Hub) -> None:
    folder = CHECKOUT / "tests" / "lerobot" / "written_h264"
    for path in (each for each in folder.rglob("*") if each.is_file()):
        put = hub.put if path.suffix in (".mp4", ".parquet") else hub.put_small
        put(path.relative_to(folder).as_posix(), path.read_bytes())
    times = {"observation.images.top": [0.0]}
    plans = [ff.lerobot.open(root).plan(times, seed=0) for root in (f"hf://{REPOSITORY}", folder)]
    batches = [next(iter(ff.ClipLoader(plan, batch_size=4, workers=0))) for plan in plans]
    assert all(batches[0].ok)
    np.testing.assert_array_equal(*(batch.data["observation.images.top"] for batch in batches))


def test_revisions_are_named(hub: Hub) -> None:
    hub.put("a.mp4", VIDEO, "refs/convert/parquet")
    with ff.VideoDecoder(f"hf://{REPOSITORY}@refs/convert/parquet/a.mp4") as decoder:
        assert len(decoder[0])


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("hf://datasets/o/n@v1/a/b@c.mp4", HubName("datasets", "o/n", "v1", "a/b@c.mp4")),
        ("hf://datasets/o/n/a%20b?c#d", HubName("datasets", "o/n", "main", "a%20b?c#d")),
        ("hf://datasets/o/n@refs%2Fpr%2F3/a", HubName("datasets", "o/n", "refs/pr/3", "a")),
        ("hf://datasets/o/n@refs/pr/3/a", HubName("datasets", "o/n", "refs/pr/3", "a")),
        ("hf://datasets/o/n", HubName("datasets", "o/n", "main", "")),
        ("hf://spaces/o/n/a/", HubName("spaces", "o/n", "main", "a/")),
        ("hf://o/n@b/a", HubName("models", "o/n", "b", "a")),
    ],
)
def test_urls_are_split_as_huggingface_hub_does(url: str, name: HubName) -> None:
    assert split_hub_url(url) == name


@pytest.mark.parametrize(
    "url", ["hf://", "hf://datasets", "hf://datasets/o", "hf://datasets/o@v/n/a", "hf://buckets/o/n@v/a", "hf://d/o@/a"]
)
def test_urls_of_nothing_are_refused(url: str) -> None:
    with pytest.raises(ff.UsageError, match="expected hf://datasets/ORG/NAME/path"):
        ff.probe(url)


def test_the_token_is_that_of_a_login(tmp_path: Path) -> None:
    (tmp_path / "huggingface").mkdir()
    (tmp_path / "huggingface" / "token").write_text("hf_file\n")
    (tmp_path / "mine").write_text("hf_mine")
    home = {"XDG_CACHE_HOME": str(tmp_path)}
    assert find_token(HubOptions(), {**home, "HF_TOKEN": " hf_1\n"}) == "hf_1"
    assert find_token(HubOptions(), {**home, "HUGGING_FACE_HUB_TOKEN": "hf_2"}) == "hf_2"
    assert find_token(HubOptions(), home) == "hf_file"
    assert find_token(HubOptions(), {"HF_HOME": str(tmp_path / "huggingface")}) == "hf_file"
    assert find_token(HubOptions(), {**home, "HF_TOKEN_PATH": str(tmp_path / "mine")}) == "hf_mine"
    assert find_token(HubOptions(), {"HF_HOME": str(tmp_path / "none")}) is None
    assert find_token(HubOptions("hf_3"), {"HF_TOKEN": "hf_1", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}) == "hf_3"
    assert find_token(HubOptions(), {"HF_TOKEN": "hf_1", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "True"}) is None
    assert find_token(HubOptions(""), {"HF_TOKEN": "hf_1"}) is None
    with pytest.raises(ff.UsageError, match="log in again") as caught:
        find_token(HubOptions(), {"HF_TOKEN": "hf_SeCrEt\nX: y"})
    assert "SeCrEt" not in str(caught.value)


def test_options_of_a_repository_hold_for_its_revisions(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.delenv("HF_ENDPOINT")
    options = {f"hf://{REPOSITORY}": {"token": TOKEN, "endpoint": hub.hub.url}}
    for root in (ROOTS["repository"], ROOTS["revision"]):
        catalog = ff.scan([f"{root}/other/v3.mp4"], storage_options=options)
        assert not len(catalog.errors)
        assert TOKEN not in repr(catalog[0])
    assert find_options({"hf://datasets/o/n": {"token": "x"}}, "hf://datasets/o/nn/a") == {}
    assert find_options({"https://host": {"headers": {}}}, "https://host@other/a") == {}
    for wrong in ({"token": 3}, {"token": "a\nb"}, {"endpoint": "hub"}, {"key": "x"}):
        with pytest.raises(ff.UsageError, match=r"storage_options\['hf://'\]"):
            ff.scan("hf://datasets/o/n/a.mp4", storage_options={"hf://": wrong})


@pytest.mark.parametrize(
    ("status", "code", "kind", "says"),
    [
        (403, "GatedRepo", ff.UnreadableMedia, "GatedRepo: the repository is gated: accept its conditions .*HF_TOKEN"),
        (401, "GatedRepo", ff.UnreadableMedia, "GatedRepo: the repository is gated"),
        (401, "RepoNotFound", ff.UnreadableMedia, "RepoNotFound: no such repository for this user: .*HF_TOKEN"),
        (401, None, ff.UnreadableMedia, "401 Unauthorized: no such repository for this user: .*HF_TOKEN"),
        (403, None, ff.UnreadableMedia, "403 Forbidden: check the rights of the token"),
        (404, "EntryNotFound", ff.MissingMedia, r"no such file \(EntryNotFound: check the path"),
        (404, "RevisionNotFound", ff.MissingMedia, r"no such file \(RevisionNotFound: .* the revision"),
        (404, "RepoNotFound", ff.MissingMedia, r"no such file \(RepoNotFound: no such repository"),
        (404, None, ff.MissingMedia, "no such file"),
        (500, None, ff.UnreadableMedia, "answered 500 .*try again later"),
    ],
)
def test_errors_of_the_hub_are_explained(
    status: int, code: str | None, kind: type[ff.MediaError], says: str, hub: Hub
) -> None:
    fault = Fault(status, headers={"X-Error-Code": code}, body=b"{}")
    for path in (f"/{REPOSITORY}/resolve/main/x.mp4", f"/api/{REPOSITORY}/tree/main/x"):
        hub.hub.always[path] = fault
    with pytest.raises(kind, match=says) as caught:
        ff.probe(f"hf://{REPOSITORY}/x.mp4")
    assert type(caught.value) is kind
    assert TOKEN not in str(caught.value)
    with pytest.raises(kind, match=says):
        ff.scan(f"hf://{REPOSITORY}/x/")


@pytest.mark.parametrize(
    "page", [b"", b"{}", b"[3]", b'[{"type": "file", "path": "a"}]', b'[{"path": "\\ud800"}]', b"[" * 10**5]
)
def test_a_damaged_list_is_an_error(page: bytes, hub: Hub) -> None:
    hub.list_files(f"{REPOSITORY}/tree/main", {})
    hub.hub.objects[f"/api/{REPOSITORY}/tree/main"].data = page
    with pytest.raises(ff.UnreadableMedia, match=f"hf://{REPOSITORY}/: the list of its files cannot be read"):
        list(list_hub(f"hf://{REPOSITORY}/", HubOptions()))


def test_a_list_that_does_not_end_is_an_error(hub: Hub) -> None:
    hub.list_files(f"{REPOSITORY}/tree/main", {})
    link = f'</api/{REPOSITORY}/tree/main?recursive=true>; rel="next"'
    hub.hub.always[f"/api/{REPOSITORY}/tree/main"] = Fault(headers={"Link": link})
    with pytest.raises(ff.UnreadableMedia, match="asked for before"):
        list(list_hub(f"hf://{REPOSITORY}/", HubOptions()))
