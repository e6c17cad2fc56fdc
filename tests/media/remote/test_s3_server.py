"""Requests, lists and signatures against an S3 server."""

from __future__ import annotations

import hashlib

import pytest

from framefeed.media.remote._s3_listing import S3Entry, describe_error, list_pages, make_list_query, parse_page
from framefeed.media.remote._s3_urls import S3Name, split_s3_url
from framefeed.media.remote._signature import Credentials
from tests.media.remote.stores import ANY, Store

pytestmark = pytest.mark.slow
ODD_KEYS = [
    "plain.mp4",
    "a//b.mp4",
    "/a.mp4",
    "a/../b.mp4",
    "./a.mp4",
    "a b.mp4",
    "a+b.mp4",
    "a%20b.mp4",
    "100%.mp4",
    "a?b=c&d#e.mp4",
    "a?versionId.mp4",
    "ä/日本/🎬.mp4",
    "a=b;c,d:e@f!$'()*~.mp4",
    'q"<&>\\^`{|}.mp4',
    "control\x01.mp4",  # moto takes no key with a line break
    "folder/",
]


def entries_of(s3: Store, bucket: str, prefix: str = "") -> list[list[S3Entry]]:
    pages = list_pages(lambda query: s3.ask(S3Name(bucket, ""), query=query).body, prefix, "list")
    return [page.entries for page in pages]


def test_odd_keys_are_listed_and_read(s3: Store) -> None:
    boto3 = s3.boto3()
    boto3.create_bucket(Bucket="odd")
    for key in ODD_KEYS:
        boto3.put_object(Bucket="odd", Key=key, Body=key.encode())
    (entries,) = entries_of(s3, "odd")
    assert sorted(entry.key for entry in entries) == sorted(ODD_KEYS)
    for entry in entries:
        name = split_s3_url(f"s3://odd/{entry.key}")
        assert name == S3Name("odd", entry.key)
        body = entry.key.encode()
        assert s3.ask(name)[::2] == (200, body)
        assert (entry.size, entry.etag) == (len(body), f'"{hashlib.md5(body).hexdigest()}"')
        assert entry.last_modified.startswith("20")
    for key in ("a b", "a+b", "a%", "ä/日"):
        (entries,) = entries_of(s3, "odd", key)
        assert sorted(entry.key for entry in entries) == sorted(each for each in ODD_KEYS if each.startswith(key))


def test_versions_ranges_and_conditions(s3: Store) -> None:
    boto3 = s3.boto3()
    boto3.create_bucket(Bucket="versions")
    boto3.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    first, second = (boto3.put_object(Bucket="versions", Key="a?b", Body=body) for body in (b"first", b"second"))
    older = split_s3_url(f"s3://versions/a?b?versionId={first['VersionId']}")
    latest = S3Name("versions", "a?b")
    assert (s3.ask(older).body, s3.ask(latest).body) == (b"first", b"second")
    ranged = {"Range": "bytes=1-2", "If-Match": second["ETag"]}
    answer = s3.ask(latest, ranged)
    assert (answer.status, answer.body, answer.headers["content-range"]) == (206, b"ec", "bytes 1-2/6")
    answer = s3.ask(latest, {**ranged, "If-Match": first["ETag"]})
    assert answer.status == 412
    assert describe_error(answer.body).code == "PreconditionFailed"
    (entries,) = entries_of(s3, "versions")
    assert [(entry.size, entry.etag) for entry in entries] == [(6, second["ETag"])]


def test_the_server_accepts_our_signatures(s3: Store) -> None:
    s3.boto3().create_bucket(Bucket="signed")
    for key in ODD_KEYS:
        s3.ask(S3Name("signed", key), method="PUT", body=b"123")
    name = S3Name("signed", "plain.mp4")
    with s3.checking_signatures() as known:
        for key in ODD_KEYS:
            answer = s3.ask(S3Name("signed", key), {"Range": "bytes=1-"}, credentials=known)
            assert (key, answer.status, answer.body) == (key, 206, b"23")
            query = make_list_query(key)
            page = parse_page(s3.ask(S3Name("signed", ""), query=query, credentials=known).body, "")
            assert [entry.key for entry in page.entries] == [key]
        wrong = s3.ask(name, credentials=Credentials(known.key, "wrong"))
        assert (wrong.status, describe_error(wrong.body).code) == (403, "SignatureDoesNotMatch")
        unknown = s3.ask(name, credentials=ANY)
        assert (unknown.status, describe_error(unknown.body).code) == (403, "InvalidAccessKeyId")
