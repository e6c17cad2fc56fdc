"""Options by URL prefix."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from framefeed.errors import UsageError
from framefeed.media.remote import check_storage_options, find_options
from framefeed.media.remote._storage_options import (
    _OTHER_NAMES,
    S3Options,
    parse_headers,
    parse_s3_options,
)

SECRET = "Zq7Secret"
OPTIONS: dict[str, dict[str, Any]] = {
    "s3://": {"region": "any"},
    "s3://bucket": {"region": "bucket"},
    "s3://bucket/train": {"region": "train"},
    "s3://bucket/train/x/": {"region": "x"},
    "https://Host.org": {"headers": {"A": "1"}},
    "https://host.org:8443/Private": {"headers": {"A": "2"}},
    "simplecache::s3://bucket": {"s3": {"key": "k"}},
    "gs://bucket": {"token": "cloud"},
}


@pytest.mark.parametrize(
    ("url", "prefix"),
    [
        ("s3://other/a", "s3://"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("S3://bucket/a", "s3://bucket"),
        ("s3://bucket/train", "s3://bucket/train"),
        ("s3://bucket/train/a", "s3://bucket/train"),
        ("s3://bucket/train?versionId=1", "s3://bucket/train"),
        ("s3://bucket/train/x/a", "s3://bucket/train/x/"),
        ("s3://bucket/train/xy", "s3://bucket/train"),
        ("s3://bucket/train2/a", "s3://bucket"),
        ("s3://bucket2/a", "s3://"),
        ("s3://Bucket/a", "s3://"),
        ("s3://bucket@evil/a", "s3://"),
        ("https://HOST.org/a", "https://Host.org"),
        ("https://host.org?a", "https://Host.org"),
        ("https://host.org:8443/Private/a", "https://host.org:8443/Private"),
        ("https://host.org:8443/private/a", None),
        ("https://host.org:444/a", None),
        ("https://host.org.evil.com/a", None),
        ("https://host.org@evil.com/a", None),
        ("http://host.org/a", None),
        ("simplecache::s3://bucket/a", "simplecache::s3://bucket"),
        ("gs://bucket/a", "gs://bucket"),
        ("/data/a", None),
    ],
)
def test_the_longest_prefix_that_ends_at_a_border_holds(url: str, prefix: str | None) -> None:
    found = find_options(OPTIONS, url)
    assert found is OPTIONS[prefix] if prefix else found == {}
    check_storage_options(OPTIONS)


def test_no_options() -> None:
    check_storage_options(None)
    check_storage_options({})
    assert find_options(None, "s3://b/a") == find_options({}, "s3://b/a") == {}
    assert parse_headers({}) == parse_headers({"headers": None}) == {}
    assert parse_s3_options({}) == parse_s3_options({"key": None, "anon": False}) == S3Options()


def test_options_do_not_show_keys() -> None:
    options = parse_s3_options({"key": f"k{SECRET}", "secret": f"s{SECRET}", "token": f"t{SECRET}", "region": "auto"})
    assert (options.secret, options.token) == (f"s{SECRET}", f"t{SECRET}")
    assert repr(options) == "S3Options(endpoint_url=None, region='auto', anon=False)"


S3 = "s3://bucket/"
OURS = ("key", "secret", "token", "region")
WEB = f"https://u:{SECRET}@host/"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (SECRET, "storage_options: expected a dict such as .*, got str"),
        ([(S3, SECRET)], "storage_options: expected a dict such as .*, got list"),
        ({S3: SECRET}, "expected a dict"),
        ({"s3": {}}, "by URL prefix"),
        ({1: {}}, "by URL prefix"),
        ({S3: {"aws_secret_access_key": SECRET}}, "key, region, secret, token: use secret for aws_secret_acc"),
        ({S3: {"headers": {}}}, "expected some of anon, endpoint_url, key, region, secret, token"),
        ({S3: {"key": SECRET}}, "both key and secret"),
        ({S3: {"secret": SECRET}}, "both key and secret"),
        ({S3: {"token": SECRET}}, "token with temporary ones only"),
        ({S3: {"key": SECRET, "secret": SECRET, "anon": True}}, "either anon=True or keys"),
        ({S3: {"anon": "yes"}}, "expected True or False"),
        ({S3: {"key": SECRET, "secret": 5}}, "expected text, got int"),
        ({S3: {"key": SECRET, "secret": [SECRET]}}, "expected text, got list"),
        ({S3: {"key": SECRET, "secret": f"{SECRET}\n"}}, "'secret'.: is empty, or has spaces, line breaks"),
        ({S3: {"key": f"{SECRET}\r\nX: 1", "secret": SECRET}}, "'key'.: is empty, or has spaces, line breaks"),
        ({S3: {"key": SECRET, "secret": SECRET, "token": ""}}, "'token'.: is empty"),
        ({S3: {"region": f"{SECRET}.org/"}}, "expected a region such as"),
        ({S3: {"endpoint_url": f"https://u:{SECRET}@h"}}, "endpoint_url: expected a URL"),
        ({WEB: {"key": SECRET}}, "expected some of headers, got key"),
        ({WEB: {"headers": SECRET}}, "expected a dict"),
        ({WEB: {"headers": {"A": f"{SECRET}\r\nB: 1"}}}, "expected one line of text"),
        ({WEB: {"headers": {"A": f" {SECRET}"}}}, "without spaces around it"),
        ({WEB: {"headers": {"A": SECRET.encode()}}}, "expected one line of text"),
        ({WEB: {"headers": {"A": f"{SECRET}日"}}}, "expected one line of text"),
        ({WEB: {"headers": {f"A: {SECRET}\r\nB": "1"}}}, "no name of a header"),
        ({WEB: {"headers": {"": SECRET}}}, "no name of a header"),
        ({WEB: {"headers": {"Range": SECRET}}}, "Range cannot be set"),
        ({WEB: {"headers": {"HOST": SECRET}}}, "HOST cannot be set"),
    ],
)
def test_wrong_options_are_refused_and_not_repeated(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        check_storage_options(given)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize(
    ("others", "ours"),
    [
        # boto3, s3fs, and obstore, whose names may also be written as those of the environment.
        (("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "region_name"), OURS),
        (
            ("username", "password", "endpoint", "client_kwargs"),
            ("key", "secret", "endpoint_url", "endpoint_url and region"),
        ),
        (("AWS_ACCESS_KEY_ID", "secret_access_key", "aws_token", "AWS_REGION"), OURS),
        (("profile", "skip_signature"), ("the environment variable AWS_PROFILE", "anon")),
    ],
)
def test_names_of_other_libraries_are_told_ours(others: tuple[str, ...], ours: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        check_storage_options({S3: {"anon": False, **dict.fromkeys(others, SECRET)}})
    expected = ", ".join(f"{name} for {other}" for other, name in zip(others, ours, strict=True))
    assert str(caught.value) == (
        f"storage_options['{S3}']: expected some of anon, endpoint_url, key, region, secret, token: use {expected}"
    )


def test_each_option_that_others_are_told_exists() -> None:
    told = {name for text in _OTHER_NAMES.values() if "AWS" not in text for name in text.split(" and ")}
    assert told <= {each.name for each in fields(S3Options)}
    assert not set(_OTHER_NAMES) & {each.name for each in fields(S3Options)}
