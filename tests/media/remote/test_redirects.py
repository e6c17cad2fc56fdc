"""Redirects, proxies and TLS: only hosts that may be asked are, and each gets only what is meant for it."""

from __future__ import annotations

import itertools
import shutil
import socket
import ssl
import subprocess
from collections import Counter
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from framefeed.errors import MediaError, MissingMedia, StaleSource, UnreadableMedia
from framefeed.media.remote import _addresses, _client, _connections
from framefeed.media.remote._addresses import Reach, is_link_local_address, is_public_address, is_public_name, may_ask
from framefeed.media.remote._answers import ObjectVersion
from framefeed.media.remote._connections import find_proxy, is_public
from framefeed.media.remote._targets import HttpTarget
from tests.media.remote.faults import Asked, Fault, FaultServer, Stored, faulty, redirect
from tests.media.remote.getting import DATA, begin, get, wait

PART = DATA[1000:3000]

# --- where redirects lead ----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", ["/b.mp4", "b.mp4", "//{host}/b.mp4", "http://{host}/b.mp4#x", "/b.mp4?sig=1%2F2"])
def test_redirects_are_followed(server: FaultServer, status: int, location: str) -> None:
    server.objects["/b.mp4"] = Stored(DATA)
    target = location.format(host=f"127.0.0.1:{server.port}")
    answer = get(server.plan("/a.mp4", redirect(target, status, body=b"moved")))
    assert (bytes(answer.data), server.count(), server.connections) == (PART, 2, 1)
    assert [each.target for each in server.asked] == ["/a.mp4", "/b.mp4?sig=1%2F2" if "?" in location else "/b.mp4"]


@pytest.mark.parametrize(
    ("location", "sent"),
    [
        ("/\u00e4.mp4".encode().decode("latin-1"), "/%C3%A4.mp4"),
        ("/a b.mp4", "/a%20b.mp4"),
        ("//{host}//b.mp4", "//b.mp4"),
        ("http://{host}/x/../b.mp4", "/x/../b.mp4"),
        ("http://me:secret@{host}/b.mp4", "/b.mp4"),
    ],
)
def test_targets_are_asked_for_as_they_are_named(server: FaultServer, location: str, sent: str) -> None:
    with pytest.raises(MissingMedia):
        get(server.plan("/a.mp4", redirect(location.format(host=f"127.0.0.1:{server.port}"))))
    assert server.asked[1].target == sent
    assert "Authorization" not in server.asked[1].headers


def test_ten_redirects_are_followed_and_no_more(server: FaultServer) -> None:
    for number in range(11):
        server.always[f"/{number}.mp4"] = redirect(f"/{number + 1}.mp4")
    server.objects["/11.mp4"] = Stored(DATA)
    assert get(server.url + "/1.mp4").data == PART
    assert server.count() == 11
    with pytest.raises(UnreadableMedia, match=r"/0\.mp4: is behind more than 10 redirects: check the URL"):
        get(server.url + "/0.mp4")
    assert server.count() == 22


@pytest.mark.parametrize("loop", ["/a.mp4", "/b.mp4"])
def test_loops_end(server: FaultServer, loop: str) -> None:
    server.always["/a.mp4"], server.always["/b.mp4"] = redirect(loop), redirect("/a.mp4")
    with pytest.raises(UnreadableMedia, match="more than 10 redirects"):
        get(server.url + "/a.mp4")
    assert server.count() == 11


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://h/a", "data:,x", "javascript:1", "gopher://h", "s3:a"]
)
def test_S01_S03_other_protocols_are_not_followed(server: FaultServer, location: str) -> None:
    scheme = location.partition(":")[0]
    with pytest.raises(UnreadableMedia, match=rf"a\.mp4: the server redirects from http: to '{scheme}':, which is not"):
        get(server.plan("/a.mp4", redirect(location)))
    assert server.count() == 1


@pytest.mark.parametrize("location", ["http://[::1/b", "http://h:port/b", "http://a..b/c", "http://%zz/"])
def test_targets_that_are_no_urls_are_errors(server: FaultServer, location: str) -> None:
    with pytest.raises(UnreadableMedia, match=r"a\.mp4: .*check the URL"):
        get(server.plan("/a.mp4", redirect(location)))


def test_an_empty_target_is_the_same_object(server: FaultServer) -> None:
    server.always["/a.mp4"] = redirect("")
    with pytest.raises(UnreadableMedia, match="more than 10 redirects"):
        get(server.url + "/a.mp4")


LAST = {"Location": "/b.mp4", "Content-Length": None, "Connection": "close"}


@pytest.mark.parametrize(
    "fault",
    [{"body": bytes(30_000_000)}, {"body": b"x" * 99, "chunks": 10}, {"headers": LAST}],
    ids=["long", "chunked", "without length"],
)
def test_bodies_of_redirects_are_not_downloaded(server: FaultServer, fault: dict[str, Any]) -> None:
    server.objects["/b.mp4"] = Stored(DATA)
    first = Fault(302, **{"headers": {"Location": "/b.mp4"}, **fault})
    assert get(server.plan("/a.mp4", first)).data == PART
    server.wait_for_connections(1)
    assert server.connections == 2


def test_https_is_not_left_for_http() -> None:
    one = _client.RangeGet(HttpTarget("https://h/a.mp4"), 0, 1)
    with pytest.raises(UnreadableMedia, match=r"redirects from https: to 'http':, which is not followed"):
        one._find_next("https://h/a.mp4", "http://h/b.mp4")
    assert one._find_next("http://h/a.mp4", "https://i/b.mp4?c=d#e") == "https://i/b.mp4?c=d"


# --- rights ------------------------------------------------------------------------------------------


def test_S17_rights_are_for_the_host_that_they_were_given_for(server: FaultServer) -> None:
    server.objects["/b.mp4"] = Stored(DATA)
    headers = {"X-Token": "mine"}
    with faulty({"/c.mp4": DATA}) as other:
        server.plan("/a.mp4", redirect("/b.mp4"), redirect(other.url + "/c.mp4"))
        url = server.url.replace("://", "://me:mine@") + "/a.mp4"
        for _ in range(2):
            get(url, headers=headers)
            _client._CLIENT.value.set_moved(server.url + "/a.mp4", None)
        for each in server.asked:
            assert (each.headers["X-Token"], "Authorization" in each.headers) == ("mine", True)
        get(url, headers=headers)
        other.always["/c.mp4"] = redirect(server.url + "/b.mp4")
        server.plan("/a.mp4", redirect(other.url + "/c.mp4"))
        get(url, headers=headers)  # and not again behind a host that was not given them
    for each in (*other.asked, server.asked[-1]):
        assert "mine" not in str(dict(each.headers))
        assert "Authorization" not in each.headers
        assert each.headers["Range"] == "bytes=1000-2999"


def test_S17_rights_are_not_sent_to_where_an_object_was_found_before(server: FaultServer) -> None:
    with faulty({"/c.mp4": DATA}) as other:
        server.always["/a.mp4"] = redirect(other.url + "/c.mp4")
        url = server.url.replace("://", "://me:mine@") + "/a.mp4"
        for _ in range(3):
            get(url, headers={"X-Token": "mine"})
    assert (server.count(), other.count()) == (1, 3)
    for each in other.asked:
        assert "mine" not in str(dict(each.headers))
        assert "Authorization" not in each.headers


# --- where objects were found before -----------------------------------------------------------------


def test_a_target_that_was_found_is_asked_again_without_the_redirect(server: FaultServer) -> None:
    server.objects["/b.mp4"] = Stored(DATA)
    server.always["/a.mp4"] = redirect("/b.mp4")
    for _ in range(3):
        assert get(server.url + "/a.mp4").data == PART
    assert (server.count("/a.mp4"), server.count("/b.mp4")) == (1, 3)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 412, 500, 503])
def test_a_signature_that_has_expired_is_renewed(server: FaultServer, status: int) -> None:
    server.objects["/b.mp4"] = server.objects["/c.mp4"] = Stored(DATA)
    url = server.plan("/a.mp4", redirect("/b.mp4?sig=1"), redirect("/c.mp4?sig=2"))
    server.plan("/b.mp4", Fault(), Fault(), Fault(status))
    for requests in (2, 1, 3, 1):
        before = server.count()
        assert (get(url).data, server.count() - before) == (PART, requests)
    assert server.count("/a.mp4") == 2


def test_readers_beside_each_other_renew_signatures_that_expire(server: FaultServer) -> None:
    numbers, uses = itertools.count(), Counter[str]()

    def sign(server: FaultServer) -> None:
        server.always["/a.mp4"] = redirect(f"/b.mp4?sig={next(numbers)}", then=sign)

    def is_over(asked: Asked) -> bool:
        uses[asked.target] += asked.target.startswith("/b.mp4")
        return uses[asked.target] > 5

    server.objects["/b.mp4"] = Stored(DATA)
    server.is_refused = is_over
    sign(server)
    url = server.url + "/a.mp4"
    for _ in range(10):
        for call in [begin(url) for _ in range(8)]:
            assert wait(call, url).data == PART
    assert server.count("/a.mp4") >= 80 / 5
    assert server.count("/b.mp4") <= 80 + server.count("/a.mp4")


def test_a_refusal_that_stays_is_raised(server: FaultServer) -> None:
    server.objects["/b.mp4"] = Stored(DATA)
    server.always["/a.mp4"] = redirect("/b.mp4")
    get(server.url + "/a.mp4")
    server.always["/b.mp4"] = Fault(403)
    with pytest.raises(UnreadableMedia, match=r"a\.mp4: the server answered 403"):
        get(server.url + "/a.mp4")
    assert server.count() == 5


def test_a_host_that_is_gone_is_not_asked_for_ever(server: FaultServer) -> None:
    server.objects["/c.mp4"] = Stored(DATA)
    with faulty({"/b.mp4": DATA}) as other:
        url = server.plan("/a.mp4", redirect(other.url + "/b.mp4"), redirect("/c.mp4"))
        get(url)
    assert get(url).data == PART
    assert [each.target for each in server.asked] == ["/a.mp4", "/a.mp4", "/c.mp4"]


def test_D09_a_target_of_another_version_is_stale(server: FaultServer) -> None:
    server.objects["/b.mp4"] = Stored(DATA, '"two"')
    with pytest.raises(StaleSource):
        get(server.plan("/a.mp4", redirect("/b.mp4")), version=ObjectVersion(len(DATA), '"one"'))


# --- private addresses -------------------------------------------------------------------------------

PRIVATE = [
    "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "100.127.255.255", "0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1", "198.18.0.1",
    "192.0.2.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "fec0::1", "ff02::1",
    "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::10.0.0.1", "2002:a00:1::", "2002:7f00:1::", "64:ff9b::a00:1",
    "64:ff9b::7f00:1", "64:ff9b:1::a00:1", "2001:db8::1", "100::1", "2001:0:a00:1::", "192.0.0.192", "192.88.99.1",
    "3fff::1", "::ffff:192.0.0.192", "2002:c000:c0::",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


class Connected:
    """A socket with an address."""

    def __init__(self, address: str) -> None:
        self.address = address

    def getpeername(self) -> tuple[str, int]:
        return (self.address, 80)


def test_S03_addresses_are_public_or_not() -> None:
    assert [each for each in PRIVATE if is_public(Connected(each)) or is_public_address(each)] == []
    assert [each for each in PUBLIC if not is_public(Connected(each))] == []
    assert not is_public(None)
    assert not is_public(Connected("no address"))


def test_S03_names_that_a_proxy_would_ask_are_public_or_not() -> None:
    names = ["localhost", "a.localhost", "printer.local", "metadata.google.internal", "nas.home.arpa", "intranet", ""]
    names += ["127.1", "2130706433", "0x7f.1", "0x7F000001", "017700000001", "127.0.0.01", "1.2.3.4.5", "a.0x7f"]
    names += ["%31%32%37.0.0.1", "%6cocalhost", "\uff11\uff12\uff17.0.0.1", "a..org"]
    private = [*names, *(name.upper() for name in names), *(f"{name}." for name in names), *PRIVATE]
    assert [each for each in private if is_public_name(each)] == []
    public = ["example.org", "localhost.org", "10.0.0.1.org", "Example.ORG.", "a_b-c.s3.amazonaws.com", "134744072"]
    assert [each for each in [*public, *PUBLIC] if not is_public_name(each)] == []


LINK_LOCAL = [
    "169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254", "::169.254.169.254",
    "2002:a9fe:a9fe::", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "192.0.0.192", "100.100.100.200",
    "fd00:ec2::254", "::ffff:192.0.0.192", "2002:c000:c0::",
]  # fmt: skip


def test_S03_link_local_addresses_are_no_targets() -> None:
    assert [each for each in LINK_LOCAL if not is_link_local_address(each) or may_ask(each, Reach.REDIRECTED)] == []
    others = [each for each in [*PRIVATE, *PUBLIC] if each not in LINK_LOCAL]
    assert [each for each in others if is_link_local_address(each) or not may_ask(each, Reach.REDIRECTED)] == []
    names = ["2852039166", "0xa9.0xfe.0xa9.0xfe", "169.254.43518", "metadata.google.internal.", "METADATA"]
    assert [each for each in names if may_ask(each, Reach.REDIRECTED) or not may_ask(each, Reach.ANY)] == []
    assert may_ask("intranet", Reach.REDIRECTED)


@pytest.mark.parametrize("proxy", [False, True])
def test_S03_a_private_server_does_not_redirect_to_a_link_local_address(
    server: FaultServer, proxy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_addresses, "_LINK_LOCAL", (ip_network("127.0.0.2/32"),))
    with faulty({"/a.mp4": DATA}, host="127.0.0.2") as keys:
        if proxy:
            monkeypatch.setenv("http_proxy", server.url)
        for path in ("/a.mp4", "/b.mp4"):
            url = server.plan(path, redirect(keys.url + "/a.mp4"))
            with pytest.raises(UnreadableMedia, match=f"{path}: the server redirects to a link-local address, which"):
                get(url)
        assert keys.asked == []
        monkeypatch.delenv("http_proxy", raising=False)
        assert get(keys.url + "/a.mp4").data == PART  # if it is the URL that the user gave


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.2 is a public address."""
    monkeypatch.setattr(_connections, "is_public", lambda sock: sock.getpeername()[0] == "127.0.0.2")


@pytest.mark.parametrize("headers", [{}, {"Connection": "close"}], ids=["", "connection closed"])
@pytest.mark.usefixtures("public")
def test_S03_a_public_server_does_not_redirect_to_a_private_one(server: FaultServer, headers: dict[str, str]) -> None:
    with faulty({}, host="127.0.0.2") as far:
        fault = Fault(302, headers={"Location": server.url + "/a.mp4", **headers})
        url = far.plan("/far.mp4", fault, redirect("/near.mp4"))
        far.always["/near.mp4"] = fault  # by two steps
        for _ in range(2):
            with pytest.raises(
                UnreadableMedia, match=r"far\.mp4: the server redirects from a public to a private addr"
            ):
                get(url)
    assert server.asked == []
    server.wait_for_connections(0)


@pytest.mark.usefixtures("public")
def test_S03_private_and_public_servers_redirect_to_public_ones(server: FaultServer) -> None:
    with faulty({"/a.mp4": DATA}, host="127.0.0.2") as far, faulty({"/b.mp4": DATA}, host="127.0.0.2") as further:
        assert get(server.plan("/a.mp4", redirect(far.url + "/a.mp4"))).data == PART
        far.plan("/c.mp4", redirect(further.url + "/b.mp4"), redirect(server.url + "/a.mp4"))
        for _ in range(2):
            assert get(far.url + "/c.mp4").data == PART
        assert (far.count("/c.mp4"), further.count()) == (1, 2)
        # What was found behind a public server stays so: its name may lead elsewhere by now.
        further.always["/b.mp4"] = Fault(403)
        with pytest.raises(UnreadableMedia, match="from a public to a private address"):
            get(far.url + "/c.mp4")


def test_S03_a_target_is_checked_by_the_address_that_it_is_connected_to(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that leads to another address each time is no way around."""
    answers = iter([True, False])
    monkeypatch.setattr(_connections, "is_public", lambda _: next(answers))
    with faulty({"/b.mp4": DATA}) as other, pytest.raises(UnreadableMedia, match="from a public to a private address"):
        get(server.plan("/a.mp4", redirect(other.url.replace("127.0.0.1", "localhost") + "/b.mp4")))
    assert other.asked == []


def test_S03_where_an_object_was_found_before_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name may lead elsewhere by now."""
    public = {"127.0.0.2", "127.0.0.3"}
    monkeypatch.setattr(_connections, "is_public", lambda sock: sock.getpeername()[0] in public)
    with faulty({}, host="127.0.0.2") as far, faulty({"/b.mp4": DATA}, host="127.0.0.3") as further:
        far.always["/a.mp4"] = redirect(further.url + "/b.mp4")
        further.always["/b.mp4"] = Fault(headers={"Connection": "close"})
        assert get(far.url + "/a.mp4").data == PART
        public.remove("127.0.0.3")
        with pytest.raises(UnreadableMedia, match="from a public to a private address"):
            get(far.url + "/a.mp4")
        assert (far.count(), further.count()) == (1, 1)


# --- proxies -----------------------------------------------------------------------------------------


def test_a_proxy_of_the_environment_is_asked(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url.replace("://", "://me%40:p%C3%A4%2F@"))
    for path, sent in {"/a.mp4?q=1": "/a.mp4?q=1", "//a.mp4": "//a.mp4", "/x/../a.mp4": "/x/%2E%2E/a.mp4"}.items():
        server.objects[sent.partition("?")[0].replace("%2E", ".")] = Stored(DATA)
        assert get(f"http://framefeed.invalid:81{path}").data == PART
        assert server.asked[-1].target == f"http://framefeed.invalid:81{sent}"
    assert {each.headers["Proxy-Authorization"] for each in server.asked} == {"Basic bWVAOnDDpC8="}
    assert server.connections == 1


def test_a_user_in_a_target_is_not_sent_to_a_proxy(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    server.objects["/b.mp4"] = Stored(DATA)
    server.always["/a.mp4"] = redirect("http://me:secret@other.invalid/b.mp4")
    assert get("http://framefeed.invalid/a.mp4").data == PART
    assert server.asked[-1].target == "http://other.invalid/b.mp4"


def test_hosts_of_no_proxy_are_asked_themselves(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with faulty({}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        with pytest.raises(MissingMedia):
            get(server.url + "/a.mp4")
        monkeypatch.setenv("no_proxy", "x.invalid,127.0.0.1")
        assert get(server.url + "/a.mp4").data == PART
        assert (proxy.count(), server.count()) == (1, 1)


def test_a_proxy_that_refuses_https_is_named(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", server.url)
    with pytest.raises(UnreadableMedia, match=r"a\.mp4\?\.\.\.: the proxy cannot be reached \(Tunnel .* 403"):
        get("https://framefeed.invalid/a.mp4?sig=1")
    assert {(each.method, each.target) for each in server.asked} == {("CONNECT", "framefeed.invalid:443")}


def test_a_proxy_with_https_is_asked_for_http(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:  # bound, and without listen() it refuses
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("http_proxy", f"https://127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(UnreadableMedia, match=r"a\.mp4: the proxy cannot be reached"):
            get("http://8.8.8.8/a.mp4")


@pytest.mark.parametrize("proxy", ["socks5://h:1", "http://[::1", "http://h:port", "http://", "ftp://me:secret@h"])
def test_a_proxy_that_cannot_be_used_is_said_so(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", proxy)
    with pytest.raises(UnreadableMedia, match=r"a\.mp4: the environment names a proxy that cannot be used") as caught:
        get("http://framefeed.invalid/a.mp4")
    assert "secret" not in f"{caught.value} {caught.value.__cause__}"


def test_S03_through_a_proxy_names_are_checked(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    server.plan("/a.mp4", redirect("http://10.0.0.1/b.mp4"), redirect("http://other.invalid/b.mp4"))
    server.objects["/b.mp4"] = Stored(DATA)
    with pytest.raises(UnreadableMedia, match="from a public to a private address"):
        get("http://framefeed.invalid/a.mp4")
    assert get("http://framefeed.invalid/a.mp4").data == PART
    server.plan("/c.mp4", redirect("http://10.0.0.2/b.mp4"))
    assert get("http://10.0.0.1/c.mp4").data == PART  # private to private


def test_the_environment_is_read_again_where_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_proxy("http", "h") == ""
    monkeypatch.setenv("http_proxy", "p:1")
    assert (find_proxy("http", "h"), find_proxy("https", "h")) == ("http://p:1", "")
    monkeypatch.setenv("ALL_PROXY", "http://q:1")
    assert (find_proxy("http", "h"), find_proxy("https", "h")) == ("http://p:1", "http://q:1")
    monkeypatch.setenv("NO_PROXY", "h")
    assert (find_proxy("http", "h"), find_proxy("http", "i")) == ("", "http://p:1")
    monkeypatch.setenv("REQUEST_METHOD", "GET")  # of CGI, where a client sets HTTP_PROXY
    assert find_proxy("http", "i") in ("", "http://p:1", "http://q:1")


# --- TLS ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 with its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes a certificate, is not installed")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(path), "-out", f"{path}.crt"]
    subprocess.run([openssl, *words], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_https_is_read_and_not_left(
    certificate: Path, tls: ssl.SSLContext, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with faulty({"/b.mp4": DATA}, tls=tls) as safe:
        assert get(server.plan("/a.mp4", redirect(safe.url + "/b.mp4"))).data == PART
        assert get(safe.plan("/b.mp4", Fault(after=10, end="reset"))).data == PART
        with pytest.raises(UnreadableMedia, match="from https: to 'http':, which is not followed"):
            get(safe.plan("/c.mp4", redirect(server.url + "/a.mp4")))


def test_a_certificate_that_is_not_trusted_is_refused_at_once(tls: ssl.SSLContext) -> None:
    with faulty({"/a.mp4": DATA}, tls=tls) as safe:
        with pytest.raises(MediaError, match=r"a\.mp4\?\.\.\.: cannot be read \(.*self.signed.*check the URL"):
            get(safe.url + "/a.mp4?sig=1")
        assert safe.asked == []


@pytest.mark.usefixtures("public")
def test_S03_a_private_address_sees_no_handshake(tls: ssl.SSLContext) -> None:
    with faulty({"/a.mp4": DATA}, tls=tls) as safe, faulty({}, host="127.0.0.2") as far:
        with pytest.raises(UnreadableMedia, match="from a public to a private address"):
            get(far.plan("/a.mp4", redirect(safe.url + "/a.mp4")))
        assert safe.connections == 0
