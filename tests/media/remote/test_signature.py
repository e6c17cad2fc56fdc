"""AWS Signature Version 4, against the published example and botocore."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from framefeed.media.remote._signature import Credentials, S3Request, sign

# Of the page that describes the signature; the keys are those of an identity that does not exist.
EXAMPLE = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
EXAMPLE_HOST = "examplebucket.s3.amazonaws.com"
EXAMPLE_TIME = datetime(2013, 5, 24, tzinfo=UTC)
PUBLISHED = [
    (
        "/test.txt",
        {"Range": "bytes=0-9"},
        "host;range;x-amz-content-sha256;x-amz-date",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    (
        "/?lifecycle",
        {},
        "host;x-amz-content-sha256;x-amz-date",
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    ),
    (
        "/?max-keys=2&prefix=J",
        {},
        "host;x-amz-content-sha256;x-amz-date",
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    ),
]


@pytest.mark.parametrize(("target", "headers", "names", "signature"), PUBLISHED)
def test_published_examples(target: str, headers: dict[str, str], names: str, signature: str) -> None:
    signed = sign(S3Request("GET", EXAMPLE_HOST, target), headers, EXAMPLE, "us-east-1", EXAMPLE_TIME)
    assert signed["Authorization"] == (
        f"AWS4-HMAC-SHA256 Credential={EXAMPLE.key}/20130524/us-east-1/s3/aws4_request, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    assert signed["Host"] == EXAMPLE_HOST
    assert signed["x-amz-date"] == "20130524T000000Z"


KEYS = st.one_of(
    st.binary(min_size=1, max_size=30),
    st.text(min_size=1, max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text("ab/.%+ ?#&=~", min_size=1, max_size=20).map(str.encode),
)
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20)
FIELDS = st.lists(st.tuples(st.sampled_from(["prefix", "prefix-x", "list-type", "versionId"]), VALUES), max_size=4)
HEADERS = st.dictionaries(
    st.sampled_from(["Range", "If-Match", "if-unmodified-since", "X-Amz-Request-Payer", "User-Agent"]), VALUES
)


@pytest.fixture(scope="module")
def auth() -> Any:
    return pytest.importorskip("botocore.auth", reason="signatures are compared with botocore's")


@given(
    key=KEYS,
    fields=FIELDS,
    headers=HEADERS,
    token=st.none() | st.just("t/o+k=en"),
    method=st.sampled_from(["GET", "HEAD", "PUT"]),
    port=st.sampled_from(["", ":9000"]),
    moment=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)),
)
@example(
    key=b"a//../b%20+ \xff",
    fields=[("prefix-x", "1"), ("prefix", "2")],
    headers={"Range": "  bytes=0-9   ,20-29 "},
    token=None,
    method="GET",
    port="",
    moment=datetime(2026, 1, 1),
)
def test_signatures_are_those_of_botocore(
    auth: Any,
    key: bytes,
    fields: list[tuple[str, str]],
    headers: dict[str, str],
    token: str | None,
    method: str,
    port: str,
    moment: datetime,
) -> None:
    target = f"/bucket/{quote(key)}" + "?" * bool(fields)
    target += "&".join(f"{name}={quote(value, safe='')}" for name, value in fields)
    request = S3Request(method, f"host.org{port}", target)
    now = moment.replace(tzinfo=UTC)
    signed = sign(request, headers, Credentials("KEY", "sec/ret", token), "eu-west-1", now)
    expected = sign_by_botocore(request, headers, ("KEY", "sec/ret", token), now, auth)
    assert {name.lower(): value for name, value in signed.items() if name != "Host"} == expected


def sign_by_botocore(
    request: S3Request, headers: dict[str, str], keys: tuple[str, str, str | None], now: datetime, auth: Any
) -> dict[str, str]:
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials as Keys

    sent: Any = AWSRequest(request.method, f"http://{request.host}{request.target}", dict(headers))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auth, "get_current_datetime", lambda: now)
        auth.S3SigV4Auth(Keys(*keys), "s3", "eu-west-1").add_auth(sent)
    return {name.lower(): value for name, value in sent.headers.items()}


def test_headers_that_proxies_change_are_not_signed() -> None:
    request = S3Request("GET", EXAMPLE_HOST, "/test.txt")
    plain = sign(request, {}, EXAMPLE, "us-east-1", EXAMPLE_TIME)
    changing = {"Accept-Encoding": "identity", "User-Agent": "x", "Connection": "keep-alive"}
    assert sign(request, changing, EXAMPLE, "us-east-1", EXAMPLE_TIME) == {**plain, **changing}


def test_the_time_is_sent_as_utc() -> None:
    request = S3Request("GET", EXAMPLE_HOST, "/test.txt")
    elsewhere = EXAMPLE_TIME.astimezone(timezone(timedelta(hours=-5)))
    signed = sign(request, {}, EXAMPLE, "us-east-1", elsewhere)
    assert signed == sign(request, {}, EXAMPLE, "us-east-1", EXAMPLE_TIME)


def test_credentials_do_not_show_themselves() -> None:
    credentials = Credentials("KEYsecret", "SECRETsecret", "TOKENsecret")
    assert "secret" not in f"{credentials} {credentials!r} {[credentials]}"
    assert pickle.loads(pickle.dumps(credentials)) == credentials  # goes to workers
