"""S17: user, password, query and fragment of a URL stand in no text that framefeed gives."""

from __future__ import annotations

import io
import json
import logging
import re
import socket
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import framefeed as ff
from framefeed._shown import has_hidden_query, hide_secrets, show_name, show_text, strip_url
from framefeed.cli import main
from framefeed.media import MediaSource
from framefeed.report import write_report
from tests.corpus import corpus_file
from tests.packed import pack
from tests.remote import served

SECRET = "Zq7Secret"
QUERY = f"?sig=q{SECRET}&v=2.5"
OBJECTS = {
    f"/good.mp4{QUERY}": "base.mp4",
    f"/good.mp4{QUERY}&two=1": "open_gop.mkv",
    f"/stalled.mp4{QUERY}": "closed_gop.ts",
}


class Texts:
    """Texts that framefeed gave, each with the step that it came from."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.errors: list[BaseException] = []

    def add(self, step: str, *values: object) -> None:
        for value in values:
            self.seen += [(step, str(value)), (step, repr(value))]

    def call(self, step: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function, and keep what it prints, warns of, returns, or raises."""
        printed = io.StringIO()
        with warnings.catch_warnings(record=True) as warned, redirect_stdout(printed), redirect_stderr(printed):
            warnings.simplefilter("always")
            try:
                result = function(*arguments, **options)
            except Exception as error:
                self.add_error(step, error)
                result = None
        self.add(step, printed.getvalue(), *(each.message for each in warned))
        if not isinstance(result, (int, list, dict)):
            self.add(step, result)
        return result

    def add_error(self, step: str, error: BaseException) -> None:
        """Keep all that an error says, and its causes and contexts say, whether a traceback shows them or not."""
        self.errors.append(error)
        links: list[BaseException | None] = [error]
        while links:
            link = links.pop()
            if link is not None:
                self.add(step, link, *link.args, getattr(link, "source", ""), getattr(link, "remote_traceback", ""))
                self.add(step, "".join(traceback.format_exception(link)), getattr(link, "filename", ""))
                links += [link.__cause__, link.__context__]

    def add_files(self, folder: Path, without: Sequence[str]) -> None:
        """Keep the names and bytes of all files but some, which have to open the sources."""
        for path in folder.rglob("*"):
            if path.name not in without:
                self.add("name", path.relative_to(folder))
                self.add(path.name, path.read_bytes().decode("latin-1") if path.is_file() else "")

    def check(self) -> None:
        """Fail with the texts that have a secret."""
        leaks = {(step, text[:300]) for step, text in self.seen if SECRET.lower() in text.lower()}
        assert not leaks, "\n".join(f"{step}: {text}" for step, text in sorted(leaks))


@pytest.fixture
def texts(caplog: pytest.LogCaptureFixture) -> Iterator[Texts]:
    """All texts of a test, which are checked at its end; so is the log."""
    for name in ("framefeed", "urllib3"):
        caplog.set_level(logging.DEBUG, logger=name)
    seen = Texts()
    yield seen
    # Of the test: `caplog.records` has those of its end, which are none.
    records = caplog.get_records("call")
    seen.add(
        "log",
        *(record.getMessage() for record in records if record.name.startswith(("framefeed", "libav", "urllib3"))),
    )
    seen.check()


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start of the URLs of a server, with user and password."""
    pytest.importorskip("urllib3", reason="objects are read by HTTP with it")
    from tests.media.remote.getting import give_up_soon

    give_up_soon(monkeypatch, "/stalled.mp4")
    objects = {path: corpus_file(name).read_bytes() for path, name in OBJECTS.items()}
    objects |= {f"/text.mp4{QUERY}": b"no media", f"/empty.mp4{QUERY}": b"", f"/cut.mp4{QUERY}": bytes(99)}
    with served(objects, stalled={f"/stalled.mp4{QUERY}"}) as server:
        yield server.replace("://", f"://u{SECRET}:p{SECRET}@")


def name_urls(base: str, *names: str) -> list[str]:
    return [f"{base}/{name}.mp4{QUERY}#f{SECRET}" for name in names]


def test_S17_names_have_scheme_host_and_path() -> None:
    shown = {
        "https://user:pw@h.org:80/a/v.mp4?sig=x#t": "https://h.org:80/a/v.mp4?...",
        "simplecache::https://user@h/x?sig=a::b": "simplecache::https://h/x?...",
        "zip://a.mp4::https://u:p@h/x.zip?s=1#f": "zip://a.mp4::https://h/x.zip?...",
        "s3://key:sec/r?e#t@bucket/a.mp4": "s3://bucket/a.mp4",
        "s3://bucket/a?b@c#d::e.mp4": "s3://bucket/a?b@c#d::e.mp4",
        "S3://k:s@bucket/a?b...": "S3://bucket/a?b...",
        "simplecache::gs://bucket/a?b::c": "simplecache::gs://bucket/a?b::c",
        "tar://m?.mp4::s3://bucket/x?y.tar": "tar://m?.mp4::s3://bucket/x?y.tar",
        "s3://bucket/a,https://u:p@h/b?sig=1": "s3://bucket/a,https://h/b?...",
        "https://h/s3://b/c?sig=1": "https://h/s3://b/c?...",
        "https://u:p@ss:1@h/v": "https://h/v",
        "https://u:123@h/v#f": "https://h/v#...",
        "http://u:p@[::1]:80/x?y=z": "http://[::1]:80/x?...",
        "https://h:80/x@y": "https://h:80/x@y",
        "memory://10:00.mp4": "memory://10:00.mp4",
        "/a/b?c=d@e.mp4": "/a/b?c=d@e.mp4",
        "a.mp4": "a.mp4",
    }
    assert {name: show_name(name) for name in shown} == shown
    assert {name: show_name(name) for name in shown.values()} == {name: name for name in shown.values()}


def test_S17_texts_with_urls() -> None:
    text = "('https://u:p@h/a?s=1', <s3://k:s@b/c>): see https://h/x?y=1: gone (https://h/d?e)."
    shown = "('https://h/a?...', <s3://b/c>): see https://h/x?...: gone (https://h/d?...)."
    assert (show_text(text), show_text(shown)) == (shown, shown)
    of_keys = "<s3://k:s@b/c?part=1.mp4>: gone, s3://b/d#2: not, s3://b/e?x,https://h/y?sig=1"
    assert show_text(of_keys) == "<s3://b/c?part=1.mp4>: gone, s3://b/d#2: not, s3://b/e?..."
    assert hide_secrets("part=1.mp4, secr/et", "s3://me:secr/et@b/c?part=1.mp4") == "part=1.mp4, ..."
    reason = hide_secrets(
        "no key passw/rd: url=https://h/x?sig=ab%2Fcd, ab/cd", "https://me:passw%2Frd@h/x?sig=ab%2Fcd"
    )
    assert reason == "no key ...: url=https://h/x?..., ..."
    assert [has_hidden_query(each) for each in ("https://h/x?...", "https://h/x", "a?...")] == [True, False, False]


@pytest.mark.parametrize("kind", [ff.UsageError, ff.MissingMedia, ff.MissingDependency, ff.DeadlineExceeded])
def test_S17_no_error_names_a_secret_whoever_makes_it(kind: type[ff.FramefeedError], texts: Texts) -> None:
    url = f"https://u:{SECRET}@h/v.mp4?sig={SECRET}"
    error = kind(f"{url}: no", source=url)
    texts.add_error("made", error)
    assert (str(error), error.source) == ("https://h/v.mp4?...: no", "https://h/v.mp4?...")


@pytest.mark.slow
def test_S17_single_sources(base: str, texts: Texts, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"http://u{SECRET}:p{SECRET}@127.0.0.1:{closed.getsockname()[1]}/a.mp4{QUERY}"
        urls = [*name_urls(base, "good", "none", "text", "empty", "cut"), nowhere, f"nosuch://p{SECRET}@h/x{QUERY}"]
        urls += [f"simplecache::{urls[1]}", f"zip://a.mp4::{urls[0]}", f"http://h/\0{QUERY}"]
        for number, url in enumerate(urls):
            for ask in (ff.probe, ff.build_index, ff.VideoDecoder, MediaSource.of):
                texts.call(f"{ask} {number}", ask, url)
            texts.call(f"map {number}", ff.map_video, url, lambda frame, **_: frame)
            texts.call(f"map out {number}", ff.map_video, url, lambda frame, **_: frame, tmp_path / f"{number}.mp4")
            texts.call(f"request {number}", ff.DecodeRequest, url, indices=[0, 999])
            texts.call(f"plan {number}", lambda url=url: ff.plan_requests([ff.DecodeRequest(url, indices=[0, 999])])[0])
    with ff.VideoDecoder(urls[0]) as decoder:
        texts.call("frame", decoder.__getitem__, 10**6)
        texts.call("time", decoder.get_frame_played_at, 1e6)
        texts.add("decoder", decoder, decoder.metadata)
    kinds = {type(error) for error in texts.errors}
    assert {ff.MissingMedia, ff.UnreadableMedia, ff.UsageError, ff.FrameNotFound} <= kinds
    assert any("is empty (0 bytes)" in str(error) for error in texts.errors)
    assert any(re.search(r"/none\.mp4\?\.\.\.: no such file", str(error)) for error in texts.errors)


@pytest.mark.slow
def test_S17_catalogs_loaders_and_reports(base: str, texts: Texts, tmp_path: Path) -> None:
    urls = [*name_urls(base, "good", "none", "stalled"), f"{base}/good.mp4{QUERY}&two=1", str(corpus_file("base.mp4"))]
    listed = tmp_path / "list.csv"
    listed.write_text("url,label\n" + "".join(f"{url},{number}\n" for number, url in enumerate(urls)) + f"{urls[0]}\n")
    catalog = texts.call("scan", ff.scan, listed, out=tmp_path / "cat.parquet", workers=1)
    assert catalog.table["source"].to_pylist()[:5] == [strip_url(url) for url in urls]
    assert [catalog.source(0), catalog[3].source] == [strip_url(urls[0]), strip_url(urls[3])]
    texts.add("failures", *catalog.failures, catalog.table["error"].to_pylist(), catalog.errors, *catalog, *catalog[3:])
    shown = base.partition("@")[2]
    assert [name for name, _, _ in catalog.failures[:2]] == [
        f"http://{shown}/none.mp4?... (row 1)",
        f"http://{shown}/stalled.mp4?... (row 2)",
    ]
    plan = texts.call("plan", ff.plan_clips, catalog, ff.Uniform(2), seed=1, shuffle=False)
    texts.add("excluded", plan, *plan.excluded, plan.describe(), plan[0], plan.catalog.take([1]))
    for wrong in ([urls[1] + "x"], [f"http://{shown}/none.mp4?... (row 1)"], [ff.MissingMedia("x", source=urls[1])]):
        texts.call("without", catalog.without, wrong)
    write_report(catalog, tmp_path / "report.html")
    texts.add("report", (tmp_path / "report.html").read_text())
    skipped = check_loaders(plan, texts, tmp_path)
    assert "of 3 files" in skipped
    assert skipped.count("/good.mp4?... (clip at position") == 2
    check_verification(catalog, texts)
    # Catalogs keep fragments, which are sent to no server.
    texts.add_files(tmp_path, without=("list.csv", "cat.parquet", "cat.frames.arrow"))


FUNCTIONS = """
def same(frame, **_):
    return frame

def bad(frame, index, **_):
    return frame if index < 60 else 1 / 0
"""


@pytest.fixture
def no_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have doctor import no frameworks, which takes it 6 s and shows no URL."""
    monkeypatch.setattr("framefeed.cli.doctor.find_faults", lambda _: {})


@pytest.mark.slow
@pytest.mark.usefixtures("no_imports")
def test_S17_commands(base: str, texts: Texts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    good, none, text = name_urls(base, "good", "none", "text")
    other = f"{base}/good.mp4{QUERY}&two=1"
    one = ["--rates", "5:2", "--workers", "1"]
    commands = [
        ["scan", good, none, text, other, "-o", "cat.parquet"],
        ["scan", none],
        ["report", "cat.parquet", "-o", "report.html"],
        ["doctor", "cat.parquet"],
        ["feed", "cat.parquet", *one],
        ["cache", "build", "cat.parquet", "frames", *one],
        ["cache", "info", "frames"],
        ["cache", "build", none, "frames", *one],
        ["clip", good, "--at", "0", "-o", "stills", "--sheet", "sheet.png"],
        ["clip", none, "--at", "0", "-o", "stills"],
        ["clip", good, "--at", "1e6", "-o", "stills"],
        ["map", good, "one.mp4", "--function", "mine:same"],
        ["map", none, "one.mp4", "--function", "mine:same"],
        ["map", good, none, text, "many", "--function", "mine:same", "--workers", "1"],
        ["map", good, none, text, "many", "--function", "mine:same", "--workers", "1"],
        ["map", good, "bad.mp4", "--function", "mine:bad", "--workers", "1"],
        ["map", good, other, "twice", "--function", "mine:same"],
        ["map", good],
        ["bench", "decode", good],
    ]
    for words in commands:
        for form in ([], ["--json"]):
            texts.call(" ".join([*words[:2], *words[3:], *form]), main, [*words, *form])
    assert sorted(path.name for path in (tmp_path / "many").iterdir()) == ["framefeed-map.jsonl", "good.mp4"]
    lines = [json.loads(line) for line in (tmp_path / "many" / "framefeed-map.jsonl").read_text().splitlines()]
    assert {line["action"] for line in lines if line["file"].endswith("good.mp4?... (to good.mp4)")} == {"written"}
    printed = "".join(text for step, text in texts.seen if step.startswith("map") and "many" in step)
    assert "1 video finished by an earlier run" in printed
    assert list(tmp_path.glob(".bad.mp4-*.map/identity.json"))
    texts.add_files(tmp_path, without=("cat.parquet", "cat.frames.arrow"))


def check_loaders(plan: ff.EpochPlan, texts: Texts, tmp_path: Path) -> str:
    """Load a plan with a transform whose errors name the source, as a user's may; return what its ledger shows."""
    pytest.importorskip("torch")

    def fail(clip: Any, _: Any) -> Any:
        raise ValueError(f"transform got {plan.catalog.source(0)}")

    dataset = ff.torch.ClipDataset(plan, transform=lambda clip: fail(clip, None), on_error="skip")
    with pytest.raises(ff.LoadError) as failed:  # its cause is the user's own
        list(dataset)
    texts.add("dataset", failed.value, failed.value.source, failed.value.remote_traceback)
    texts.add("ledger of a dataset", dataset, dataset.ledger, *dataset.ledger)
    skipped = ""
    for on_error in ("raise", "skip", "substitute"):
        with ff.ClipLoader(plan, batch_size=1, workers=1, transform=fail, on_error=on_error) as loader:  # type: ignore[arg-type]
            try:
                list(loader)
            except ff.LoadError as error:
                texts.add("loader", error, error.source, error.remote_traceback)
            texts.add(f"ledger {on_error}", loader, loader.ledger, *loader.ledger)
            loader.ledger.to_jsonl(tmp_path / "ledger.jsonl")
            texts.add("jsonl", (tmp_path / "ledger.jsonl").read_text())
            if on_error == "skip":
                assert len(plan.catalog.without(loader.ledger)) == len(plan.catalog.errors)
                skipped = str(loader.ledger)
    return skipped


def check_verification(catalog: ff.Catalog, texts: Texts) -> None:
    """Verify a catalog whose objects have all gone."""
    count, gone = len(catalog.usable_rows), Path(str(catalog.source(4))).name
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("framefeed.media.remote._client.RangeGet.__call__", _find_nothing)
        verified = catalog.verify(workers=0)
    texts.add("verify", verified, *verified.errors, *verified.differences)
    assert len(catalog.without(verified)) == len(catalog) - count + 1, gone


def _find_nothing(get: Any, _: object) -> NoReturn:
    raise ff.MissingMedia(f"{get.target.url}: no such file", source=get.target.url)


def pack_all() -> dict[str, bytes]:
    """Archives and a Parquet file with a good video and one that is none."""
    media = [("a/good.mp4", corpus_file("base.mp4").read_bytes()), ("a/text.mp4", b"no media")]
    zipped, table = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        for name, data in media:
            archive.writestr(name, data)
        archive.writestr("packed.mp4", media[0][1], zipfile.ZIP_DEFLATED)
    packed = pa.table({"video": pa.array([data for _, data in media] + [None], pa.binary())})
    pq.write_table(packed, table, compression="none", use_dictionary=False)
    cut = pack(media)[:-3000]
    names = ("m.tar", "m.zip", "m.parquet", "cut.tar", "none.tar")
    objects = dict(zip(names, (pack(media), zipped.getvalue(), table.getvalue(), cut), strict=False))
    return {**objects, "stalled.tar": pack(media)}


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start of the URLs of a server of archives."""
    pytest.importorskip("urllib3", reason="objects are read by HTTP with it")
    from tests.media.remote.getting import give_up_soon

    give_up_soon(monkeypatch, "/stalled.tar")
    objects = {f"/{name}{QUERY}": data for name, data in pack_all().items()}
    with served(objects, status=403, stalled={f"/stalled.tar{QUERY}"}) as server:
        base = server.replace("://", f"://u{SECRET}:p{SECRET}@")
        objects[f"/m.list{QUERY}"] = "".join(f"{base}/m.{kind}{QUERY}\n" for kind in ("tar", "zip")).encode()
        yield base


@pytest.mark.slow
def test_S17_parts_of_containers_by_signed_urls(packed: str, texts: Texts, tmp_path: Path) -> None:
    names = ("m.tar", "m.zip", "m.parquet", "cut.tar", "none.tar", "stalled.tar")
    urls = [f"{packed}/{name}{QUERY}" for name in names]
    options = {packed: {"headers": {"X-Key": f"h{SECRET}"}}}
    catalog = texts.call("scan", ff.scan, urls, out=tmp_path / "cat.parquet", storage_options=options)
    assert {kind for _, kind, _ in catalog.failures} >= {"UnreadableMedia", "DeadlineExceeded"}
    assert len(catalog.usable_rows) == 4  # that of the archive that was cut too
    assert len(texts.call("list", ff.scan, f"{packed}/m.list{QUERY}", storage_options=options).usable_rows) == 2
    texts.add("rows", catalog, *catalog, *catalog.failures, catalog.table["error"].to_pylist())
    texts.add("sources", *(catalog.media_source(row) for row in catalog.usable_rows.tolist()))
    plan = texts.call("plan", ff.plan_clips, catalog, ff.Uniform(2), seed=1, shuffle=False)
    texts.add("plan", plan, plan.describe(), *plan.excluded)
    write_report(catalog, tmp_path / "report.html")
    assert check_loaders(plan, texts, tmp_path).count("?... (clip at position") == len(plan)
    again = ff.Catalog.open(tmp_path / "cat.parquet")
    for row in again.usable_rows.tolist():
        for ask in (ff.VideoDecoder, ff.probe, ff.build_index):
            texts.call(f"{ask} without rights", ask, again[row])
        texts.call("map without rights", ff.map_video, again[row], same, tmp_path / f"no-{row}.mp4")
        texts.call("map", ff.map_video, catalog[row], same, tmp_path / f"{row}.mp4")
        texts.call("map broken", ff.map_video, catalog[row], bad, tmp_path / f"bad-{row}.mp4")
    for member in ("tar://a/none.mp4", "tar://a/good.mp4", "zip://packed.mp4", "parquet://video/2"):
        for url in urls:
            texts.call(f"{member} {url[-30:]}", ff.VideoDecoder, f"{member}::{url}", storage_options=options)
    assert list(tmp_path.glob(".bad-*.map/identity.json"))
    assert any("scan the signed URLs in the process that trains" in str(error) for error in texts.errors)
    # Catalogs keep fragments, and queries that are no signatures, which are sent to no server here.
    texts.add_files(tmp_path, without=())


def same(frame: Any, **_: Any) -> Any:
    return frame


def bad(frame: Any, index: int, **_: Any) -> Any:
    return frame if index < 60 else 1 / 0


@pytest.mark.slow
@pytest.mark.usefixtures("no_imports")
def test_S17_commands_over_containers(
    packed: str, texts: Texts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    url, cut = f"{packed}/m.tar{QUERY}", f"{packed}/cut.tar{QUERY}"
    part, none = f"tar://a/good.mp4::{url}", f"tar://a/none.mp4::{url}"
    commands = [
        ["scan", url, cut, f"{packed}/m.zip{QUERY}", "-o", "cat.parquet"],
        ["scan", f"{packed}/none.tar{QUERY}"],
        ["scan", part, none],
        ["report", "cat.parquet", "-o", "report.html"],
        ["doctor", "cat.parquet"],
        ["feed", "cat.parquet", "--rates", "5:2", "--workers", "1"],
        ["clip", part, "--at", "0", "-o", "stills"],
        ["clip", none, "--at", "0", "-o", "stills"],
        ["map", part, "one.mp4", "--function", "mine:same"],
        ["map", part, "bad.mp4", "--function", "mine:bad", "--workers", "1"],
        ["map", part, none, "many", "--function", "mine:same", "--workers", "1"],
        ["bench", "decode", part],
    ]
    for words in commands:
        for form in ([], ["--json"]):
            texts.call(" ".join([*words[:2], *words[3:], *form]).replace(SECRET, ""), main, [*words, *form])
    texts.add_files(tmp_path, without=())
