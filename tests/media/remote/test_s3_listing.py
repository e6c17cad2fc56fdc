"""Lists and errors as S3 writes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.errors import UnreadableMedia
from framefeed.media.remote._s3_listing import (
    MOST_ERROR_BYTES,
    MOST_PAGE_BYTES,
    S3Entry,
    S3Page,
    S3Problem,
    describe_error,
    list_pages,
    make_list_query,
    parse_page,
)
from framefeed.media.remote._s3_urls import decode_key

SECRET = "Zq7Secret8901234567"


def page_of(keys: Sequence[bytes], token: str = "", is_truncated: bool = False, sizes: str = "<Size>7</Size>") -> bytes:
    contents = "".join(
        f"<Contents><Key>{quote_plus(key, safe='/')}</Key><LastModified>2026-11-23T10:00:00.000Z</LastModified>"
        f"<ETag>&quot;0f-2&quot;</ETag>{sizes}<StorageClass>STANDARD</StorageClass></Contents>"
        for key in keys
    )
    following = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<EncodingType>url</EncodingType><IsTruncated>{str(is_truncated).lower()}</IsTruncated>{following}{contents}"
        "</ListBucketResult>"
    ).encode()


@given(st.lists(st.binary(min_size=1, max_size=12), max_size=5))
def test_keys_of_any_bytes(keys: list[bytes]) -> None:
    page = parse_page(page_of(keys), "list")
    expected = [S3Entry(decode_key(key), 7, '"0f-2"', "2026-11-23T10:00:00.000Z") for key in keys]
    assert page == S3Page(expected, None)


def test_servers_that_encode_nothing_or_less() -> None:
    plain = (
        b"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a+b%20&lt;c</Key><Size>0</Size></Contents>"
        b"<Contents><Size>3</Size><Key><![CDATA[ d ]]></Key><ETag>x</ETag></Contents></ListBucketResult>"
    )
    assert parse_page(plain, "list").entries == [S3Entry("a+b%20<c", 0, "", ""), S3Entry(" d ", 3, "x", "")]
    encoded = plain.replace(b"<IsTruncated>", b"<EncodingType>url</EncodingType><IsTruncated>")
    assert parse_page(encoded, "list").entries[0].key == "a b <c"
    assert parse_page(b"<ListBucketResult/>", "list") == S3Page([], None)


def test_pages_are_asked_for_by_the_token_of_the_one_before() -> None:
    pages = {None: (b"a", "t/+1="), "t/+1=": (b"b", "t2"), "t2": (b"c", "")}
    asked = []

    def fetch(query: list[tuple[str, str]]) -> bytes:
        fields = dict(query)
        asked.append(fields)
        key, token = pages[fields.get("continuation-token")]
        return page_of([key], token, bool(token))

    assert [page.entries[0].key for page in list_pages(fetch, "x/", "list", 1)] == ["a", "b", "c"]
    common = {"list-type": "2", "encoding-type": "url", "max-keys": "1", "prefix": "x/"}
    assert asked == [common, {**common, "continuation-token": "t/+1="}, {**common, "continuation-token": "t2"}]
    assert dict(make_list_query(""))["max-keys"] == "1000"


def test_a_server_that_gives_one_page_for_ever_is_refused() -> None:
    pages = list_pages(lambda query: page_of([b"a"], "same", True), "", "s3://b/x")
    assert len([next(pages), next(pages)]) == 2
    with pytest.raises(UnreadableMedia, match="s3://b/x: the list of objects cannot be read: its pages do not end"):
        next(pages)


BILLION = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;">]><ListBucketResult>&b;</ListBucketResult>'


@pytest.mark.parametrize(
    ("xml", "reason"),
    [
        (b"", "no list"),
        (b"<html><body>login</body></html>", "no list"),
        (page_of([b"a"])[:-1], "no list"),
        (BILLION, "no list"),
        (BILLION.decode().encode("utf-16"), "no list"),
        (b"<ListBucketResult>\xff</ListBucketResult>", "no list"),
        (b"<ListBucketResult>" + b"<x/>" * 200_001 + b"</ListBucketResult>", "no list"),
        (b"<ListBucketResult>" + b"<x>" * 200_001, "no list"),
        (b"<ListBucketResult " + b" ".join(b"a%d=''" % number for number in range(200_001)) + b"/>", "no list"),
        (b" " * (MOST_PAGE_BYTES + 1), "larger than 8 MiB"),
        (page_of([b"a"], "", True), "that more follow"),
        (page_of([b""]), "no key or no size"),
        (page_of([b"a"], sizes=""), "no key or no size"),
        (page_of([b"a"], sizes="<Size>-1</Size>"), "no key or no size"),
        (page_of([b"a"], sizes="<Size>1e3</Size>"), "no key or no size"),
        (page_of([b"a"], sizes="<Size>\u0663</Size>"), "no key or no size"),
        (page_of([b"a"], sizes=f"<Size>{'9' * 5000}</Size>"), "no key or no size"),
        (b"<Error><Code>AccessDenied</Code></Error>", "AccessDenied: these credentials may not read it"),
    ],
)
def test_damaged_lists_are_refused(xml: bytes, reason: str) -> None:
    with pytest.raises(UnreadableMedia, match=reason) as caught:
        parse_page(xml, "s3://b/x")
    assert caught.value.source == "s3://b/x"


ADVISED = {
    "AccessDenied": "anon=True",
    "ExpiredToken": "get new ones",
    "InvalidAccessKeyId": "AWS_ACCESS_KEY_ID",
    "NoSuchBucket": "endpoint_url",
    "NoSuchKey": "check the key",
    "PermanentRedirect": "AWS_REGION",
    "RequestTimeTooSkewed": "clock",
    "SignatureDoesNotMatch": "secret",
    "SlowDown": "fewer",
}


@pytest.mark.parametrize("code", ADVISED)
def test_known_errors_say_what_to_do_in_our_words(code: str) -> None:
    xml = (
        f"<Error><Code>{code}</Code><Message>{SECRET}</Message><AWSAccessKeyId>{SECRET}</AWSAccessKeyId>"
        f"<StringToSign>{SECRET}</StringToSign><Token-0>{SECRET}</Token-0><Resource>/b/k</Resource></Error>"
    )
    problem = describe_error(xml.encode())
    assert problem.code == code
    assert problem.message.startswith(f"{code}: ")
    assert ADVISED[code] in problem.message
    assert SECRET not in problem.message


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("The  bucket\n is full.", "Odd: The bucket is full."),
        (f"key {SECRET} of https://u:p@h/x?sig=1", "Odd: key ... of https://h/x?..."),
        ("minioadmin may not", "Odd: ... may not"),
        ("sign AWS4-HMAC-SHA256 Signature=0123456789abcdef0123", "Odd: sign ... ..."),
        ("x" * 1000, f"Odd: {'x' * 200}"),
        ("", "Odd"),
        ("\x9b31mred", "Odd: 31mred"),
    ],
)
def test_other_errors_are_shown_without_what_may_be_secret(message: str, shown: str) -> None:
    xml = f"<Error><Code>Odd</Code><Message>{message}</Message></Error>".encode()
    assert describe_error(xml, ["minioadmin", "", "of"]) == S3Problem("Odd", shown)


@pytest.mark.parametrize("secrets", list(permutations(["minio", "minioadmin", "minioadmin-token"])))
def test_no_part_of_a_secret_is_shown_that_holds_another_one(secrets: tuple[str, ...]) -> None:
    xml = b"<Error><Code>Odd</Code><Message>minioadmin-token of minioadmin, not minio</Message></Error>"
    assert describe_error(xml, secrets) == S3Problem("Odd", "Odd: ... of ..., not ...")


@pytest.mark.parametrize(
    "xml",
    [
        b"",
        b"<html/>",
        b"<Error/>",
        b"<Error><Code>No code, but words</Code></Error>",
        b"<!DOCTYPE x><Error><Code>Odd</Code></Error>",
        b"<Error><Code>Odd</Code></Error>" + b" " * MOST_ERROR_BYTES,
    ],
)
def test_answers_that_are_no_errors_of_s3(xml: bytes) -> None:
    assert describe_error(xml) == S3Problem("", "")
