"""What a catalog may keep of a URL."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._shown import is_signed, strip_url

KEPT = {
    "https://u:p@h.org:80/v.mp4#t=3": "https://h.org:80/v.mp4#t=3",
    "https://u:p/w@h/v.mp4": "https://h/v.mp4",
    "https://h/v.mp4?X-Amz-Algorithm=A&X-Amz-Credential=k%2F2&X-Amz-Security-Token=t&X-Amz-Signature=0": "https://h/v.mp4",
    "https://h/v.mp4?x%2Damz-signature=0&a": "https://h/v.mp4?a",
    "https://h/v?x-id=GetObject&X-Amz-Date=1&versionId=a%20b": "https://h/v?x-id=GetObject&versionId=a%20b",
    "https://h/v?X-Goog-Signature=0&X-Goog-Expires=1&generation=5": "https://h/v?generation=5",
    "https://h/v?Expires=1&Signature=a~b&Key-Pair-Id=K&Policy=e30_": "https://h/v",
    "https://h/v?AWSAccessKeyId=K&Expires=1&Signature=a%3D": "https://h/v",
    "https://h/v?GoogleAccessId=K&Expires=1&Signature=a%3D": "https://h/v",
    "https://a.blob.core.windows.net/c/v?sv=2026&se=1&sr=b&sp=r&skoid=x&snapshot=7&sig=a%2Bb": (
        "https://a.blob.core.windows.net/c/v?snapshot=7"
    ),
    "https://h/v?b=2&token=x&a=1&b=%7E~+#token": "https://h/v?b=2&a=1&b=%7E~+#token",
    "simplecache::https://u@h/v?sig=1::2": "simplecache::https://h/v",
    "tar://a::https://u:p@h/x.tar?token=1&v=2": "tar://a::https://h/x.tar?v=2",
    "s3://key:secret@bucket/a?token=1": "s3://bucket/a?token=1",
    "sftp://u:p@h/v.mp4": "sftp://h/v.mp4",
}
WHOLE = [
    "https://h/v.mp4",
    "https://h/v.mp4?",
    "https://h/v.mp4?&a=&&b",
    "https://h:80/x@y?se=1&sp=2&v=%41",  # without "sig", these say something else
    "https://h/v?signatures=1&my-token=2&x-amz=3",
    "https://h/a?u=https://u:p@i/b",
    "https://h/a#?sig=1",
    "s3://bucket/a?token=1&sig=2",
    "s3://bucket/a:b@c//%2F?.mp4",
    "tar://a:b@c?token=1::/data/x.tar",
    "zip://x?sig=1::/data/x.zip",
    "github://org:repo@main/v.mp4",
    "memory://10:00@b.mp4",
    "/data/u:p@h?token=1",
    "a?sig=1",
]


@pytest.mark.parametrize("url", KEPT)
def test_rights_are_left_out(url: str) -> None:
    assert strip_url(url) == KEPT[url]
    assert is_signed(url)
    assert not is_signed(KEPT[url])


@pytest.mark.parametrize("url", WHOLE)
def test_other_urls_stay_as_they_are(url: str) -> None:
    assert strip_url(url) == url
    assert not is_signed(url)


FIELD = st.text("ab=%~+/?:", min_size=1, max_size=6)
SECRET = st.sampled_from(["X-Amz-Signature=s", "Signature=s", "sig=s", "token=s", "x-goog-credential=s", "EXPIRES=s"])


@given(
    fields=st.lists(FIELD.map(lambda text: (True, text)) | SECRET.map(lambda text: (False, text)), max_size=8),
    path=st.text(max_size=8).map(lambda text: quote(text, safe="/@:")),
)
def test_other_parameters_and_their_order_stay_byte_for_byte(fields: list[tuple[bool, str]], path: str) -> None:
    signed = f"https://h/{path}?" + "&".join(text for _, text in fields)
    others = [text for is_kept, text in fields if is_kept]
    expected = f"https://h/{path}" + "?" * bool(others) + "&".join(others) if len(others) < len(fields) else signed
    assert strip_url(signed) == expected
