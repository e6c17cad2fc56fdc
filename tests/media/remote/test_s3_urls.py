"""From s3:// URLs to hosts and targets."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.errors import UsageError
from framefeed.media.remote._s3_urls import (
    Endpoint,
    S3Name,
    decode_key,
    encode_key,
    find_other_region,
    locate,
    parse_endpoint,
    split_s3_url,
)

SECRET = "Zq7Secret"
NAMES = {
    "s3://b": S3Name("b", ""),
    "s3://b/": S3Name("b", ""),
    "s3://my.bucket-1/a/b.mp4": S3Name("my.bucket-1", "a/b.mp4"),
    "s3://b/a%20b+c d": S3Name("b", "a%20b+c d"),
    "s3://b//a//../b": S3Name("b", "/a//../b"),
    "s3://b/a?x=1#y": S3Name("b", "a?x=1#y"),
    "s3://b/a:b@c": S3Name("b", "a:b@c"),
    "s3://b/a?versionId=x.Y_1": S3Name("b", "a", "x.Y_1"),
    "s3://b/a?versionId=null": S3Name("b", "a", "null"),
    "s3://b/a?versionId=": S3Name("b", "a?versionId="),
    "s3://b/a?versionId=1/b": S3Name("b", "a?versionId=1/b"),
    "s3://b/a?b?versionId=2": S3Name("b", "a?b", "2"),
}


@pytest.mark.parametrize("url", NAMES)
def test_a_url_is_a_bucket_and_a_key_byte_for_byte(url: str) -> None:
    assert split_s3_url(url) == NAMES[url]
    assert split_s3_url(NAMES[url].url) == NAMES[url]


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("s3://", "expected s3://bucket/key"),
        ("s3:///key", "expected s3://bucket/key"),
        ("s3://bucket name/key", "expected s3://bucket/key"),
        ("s3://-x/key", "expected s3://bucket/key"),
        ("s3://bücket/key", "expected s3://bucket/key"),
        (f"s3://key:{SECRET}@bucket/a", "storage_options"),
        (f"s3://key:{SECRET}/x@bucket/a", "storage_options"),
        (f"s3://{SECRET}@bucket/a", "storage_options"),
        ("s3://arn:aws:s3:eu-west-1:1:accesspoint/x", "alias"),
        ("s3://b--usw2-az1--x-s3/a", "directory buckets"),
        ("s3://b/\ud800", "cannot be the key"),
    ],
)
def test_what_is_no_bucket_is_refused_without_its_secrets(url: str, advice: str) -> None:
    with pytest.raises(UsageError, match=advice) as caught:
        split_s3_url(url)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("bucket", "region", "address"),
    [
        ("bucket", "us-east-1", "https://bucket.s3.us-east-1.amazonaws.com:443/k"),
        ("bucket", "cn-north-1", "https://bucket.s3.cn-north-1.amazonaws.com.cn:443/k"),
        ("bucket", "eusc-de-east-1", "https://bucket.s3.eusc-de-east-1.amazonaws.eu:443/k"),
        ("my.bucket", "eu-west-1", "https://s3.eu-west-1.amazonaws.com:443/my.bucket/k"),
        ("My_Bucket", "us-east-1", "https://s3.us-east-1.amazonaws.com:443/My_Bucket/k"),
        ("b", "us-east-1", "https://s3.us-east-1.amazonaws.com:443/b/k"),
        ("bucket-", "us-east-1", "https://s3.us-east-1.amazonaws.com:443/bucket-/k"),
    ],
)
def test_aws_has_a_host_for_each_bucket_whose_name_can_be_one(bucket: str, region: str, address: str) -> None:
    found = locate(S3Name(bucket, "k"), region)
    assert f"{found.scheme}://{found.host}:{found.port}{found.target}" == address
    assert found.host_header == found.host


def test_hosts_are_those_of_botocore() -> None:
    session = pytest.importorskip("botocore.session", reason="hosts are compared with botocore's").get_session()
    for partition in session.get_data("partitions")["partitions"]:
        if "iso" not in partition["id"]:  # networks without a way in or out
            for region in partition["regions"]:
                host = f"bucket.s3.{region}.{partition['outputs']['dnsSuffix']}"
                assert locate(S3Name("bucket", "k"), region).host == host or region.endswith("-global")


@pytest.mark.parametrize(
    ("endpoint", "host_header", "target"),
    [
        ("http://127.0.0.1:9000", "127.0.0.1:9000", "/bucket/a%20b"),
        ("https://Storage.example.org/", "storage.example.org", "/bucket/a%20b"),
        ("https://storage.example.org:443", "storage.example.org", "/bucket/a%20b"),
        ("http://storage.example.org:443", "storage.example.org:443", "/bucket/a%20b"),
        ("http://[::1]:9000/s3/v1/", "[::1]:9000", "/s3/v1/bucket/a%20b"),
    ],
)
def test_other_servers_have_buckets_as_folders(endpoint: str, host_header: str, target: str) -> None:
    found = locate(S3Name("bucket", "a b"), "us-east-1", parse_endpoint(endpoint))
    assert (found.host_header, found.target) == (host_header, target)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:9000",
        "ftp://h",
        "",
        "https://",
        f"https://u:{SECRET}@h",
        f"https://h?token={SECRET}",
        "https://h:x",
        "https://h:0",
        "https://h\r\nX: 1",
        "https://a b",
        "https://[::1",
        "https://h#x",
        "https://é.org",
    ],
)
def test_endpoints_that_are_no_servers_are_refused_without_their_secrets(url: str) -> None:
    with pytest.raises(UsageError, match="endpoint_url: expected a URL such as") as caught:
        parse_endpoint(url)
    assert SECRET not in str(caught.value)


@given(st.binary(max_size=40) | st.text("a/.%+ ?#", max_size=20).map(str.encode))
def test_keys_are_encoded_once(key: bytes) -> None:
    for endpoint, start in ((None, "/"), (Endpoint("http", "h", 80), "/bucket/")):
        target = locate(S3Name("bucket", decode_key(key)), "us-east-1", endpoint).target
        assert target.isascii()
        assert not set(target) & set("?# +&=")
        assert target.startswith(start)
        assert unquote_to_bytes(target.removeprefix(start)) == key
        assert target.count("/") == start.count("/") + key.count(b"/")
    assert encode_key(decode_key(key)) == key


def test_what_looks_encoded_is_encoded_too() -> None:
    assert locate(split_s3_url("s3://bucket/a%20b%2F+c"), "us-east-1").target == "/a%2520b%252F%2Bc"


def test_queries_are_encoded_and_sorted() -> None:
    query = [("prefix", "a b/+%é\udcff"), ("list-type", "2")]
    found = locate(S3Name("bucket", "k", "v1"), "us-east-1", None, query)
    assert found.target == "/k?list-type=2&prefix=a%20b%2F%2B%25%C3%A9%FF&versionId=v1"


MALFORMED = b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>"


@pytest.mark.parametrize(
    ("status", "headers", "body", "region"),
    [
        (301, {"x-amz-bucket-region": "eu-west-1"}, b"", "eu-west-1"),
        (400, {"X-Amz-Bucket-Region": "eu-west-1"}, b"", "eu-west-1"),
        (307, {"x-amz-bucket-region": "ap-south-1"}, b"<Error><Region>eu-west-1</Region></Error>", "ap-south-1"),
        (400, {}, MALFORMED, "eu-west-1"),
        (400, {"x-amz-bucket-region": "us-east-1"}, b"", None),  # the request is wrong in another way
        (403, {"x-amz-bucket-region": "eu-west-1"}, b"", None),
        (200, {"x-amz-bucket-region": "eu-west-1"}, MALFORMED, None),
        (301, {}, b"<Error><Code>PermanentRedirect</Code></Error>", None),
        (301, {"x-amz-bucket-region": "evil.org/"}, b"", None),
        (301, {"x-amz-bucket-region": "evil.org#"}, MALFORMED, None),
        (400, {}, b"<Region>evil.org/</Region>", None),
    ],
)
def test_the_region_of_a_bucket_is_in_the_answer(
    status: int, headers: dict[str, str], body: bytes, region: str | None
) -> None:
    assert find_other_region(status, headers, body, "us-east-1") == region
