"""Programs on a node, used through a real Jupyter server: what reaches them, and what they can reach."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import pytest
from rest_api import assert_fits
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.web import Application
from tornado.websocket import WebSocketHandler, websocket_connect

if TYPE_CHECKING:
    from conftest import Cloud, Server, StartServer

ZONE = "us-central1-a"
NODE_ID = "ported"
NODE = {
    "node_id": NODE_ID,
    "zone": ZONE,
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
    "spot": False,
}
PORTS = f"nodes/{ZONE}/{NODE_ID}/ports"
HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"


class Program:
    """A web server on the node: it keeps each request byte by byte, and gives the answer that the test wants."""

    def __init__(self) -> None:
        self.answer: bytes | None = HELLO
        self.requests: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._held: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            request = b""
            while b"\r\n\r\n" not in request:
                if not (data := connection.recv(65536)):
                    break
                request += data
            if request == b"stop":
                connection.close()
                return
            self.requests.append(request)
            if self.answer is None:
                self._held.append(connection)
                continue
            connection.sendall(self.answer)
            connection.close()

    @property
    def last_head(self) -> dict[str, list[str]]:
        """The headers of the last request, with lower-case names."""
        head: dict[str, list[str]] = {}
        for line in self.requests[-1].decode().split("\r\n")[1:]:
            if line:
                name, _, value = line.partition(": ")
                head.setdefault(name.lower(), []).append(value)
        return head

    @property
    def last_line(self) -> str:
        return self.requests[-1].decode().partition("\r\n")[0]

    def close(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as last:
            last.sendall(b"stop")
        self._thread.join()
        self._socket.close()
        for connection in self._held:
            connection.close()


@pytest.fixture(scope="module")
def server(cloud: Cloud, start_lasting_server: StartServer) -> Server:
    """A server that waits less long for a program, with a READY node."""
    server = start_lasting_server(traits={"port_timeout": 10.0}, **cloud.variables)
    assert server.tpu("POST", "nodes", NODE).status == 202
    end = time.monotonic() + 120
    while not server.tpu("GET", f"nodes/{ZONE}/{NODE_ID}").json.get("kernelspec"):
        assert time.monotonic() < end
        time.sleep(0.1)
    return server


@pytest.fixture
def program(server: Server) -> Iterator[Program]:
    """A program whose port is open, and trusted."""
    program = Program()
    opened(server, program.port, trusted=True)
    yield program
    server.tpu("DELETE", f"{PORTS}/{program.port}")
    program.close()


def opened(server: Server, port: int, *, trusted: bool = False) -> Any:
    answer = server.tpu("POST", PORTS, {"port": port, "trusted": trusted})
    assert answer.status == 200, answer.text
    assert_fits(answer.json, "Ports")
    return next(row for row in answer.json["ports"] if row["port"] == port)


class Raw:
    """The answer to a request whose bytes the test wrote."""

    def __init__(self, server: Server, path: str, *, method: str = "GET", body: bytes | None = None, **headers: str):
        place = urlsplit(server.url)
        assert place.hostname
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
        path = path if path.startswith(("http", "/")) else f"{place.path}jupyter-tpu/v1/{path}"
        connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        try:
            connection.endheaders(body)
            with connection.getresponse() as answer:
                self.status, self.headers = answer.status, answer.headers
                self.text = answer.read().decode()
        finally:
            connection.close()


def test_ports_are_listed_with_their_process_opened_and_closed(server: Server) -> None:
    program = Program()
    row = opened(server, program.port)
    assert row["opened"]
    assert not row["trusted"]
    assert row["processes"]
    assert row["page"] == f"jupyter-tpu/v1/{PORTS}/{program.port}/"
    listed = server.tpu("GET", PORTS)
    assert_fits(listed.json, "Ports")
    assert row in listed.json["ports"]
    closed = server.tpu("DELETE", f"{PORTS}/{program.port}")
    assert [row["opened"] for row in closed.json["ports"] if row["port"] == program.port] == [False]
    program.close()


@pytest.mark.parametrize("port", [0, 70000, "80", None, True])
def test_what_is_no_port_is_refused(server: Server, port: Any) -> None:
    assert server.tpu("POST", PORTS, {"port": port}).status == 400


def test_a_request_and_its_answer_pass_as_they_are(server: Server, program: Program) -> None:
    program.answer = b"HTTP/1.1 418 Teapot\r\nX-Own: yes\r\nContent-Length: 3\r\n\r\nabc"
    answer = server.tpu("POST", f"{PORTS}/{program.port}/a%2Fb//c?x=1&y=%26", {"a": 1}, headers={"X-Mine": "m"})
    assert (answer.status, answer.text, answer.headers["X-Own"]) == (418, "abc", "yes")
    assert program.last_line == "POST /a%2Fb//c?x=1&y=%26 HTTP/1.1"
    assert program.requests[-1].endswith(b'{"a": 1}') or program.last_head["content-length"] == ["8"]
    assert program.last_head["x-mine"] == ["m"]
    assert program.last_head["host"] == [f"127.0.0.1:{program.port}"]


def test_nothing_that_gives_access_to_jupyter_reaches_the_program(server: Server, program: Program) -> None:
    Raw(
        server,
        f"{PORTS}/{program.port}/?token={server.token}&a=1",
        Authorization=f"token {server.token}",
        Cookie=f"_xsrf=2|s; username-127-0-0-1=secret; jupyter-tpu-app-mine=own; token={server.token}",
        X_XSRFToken="2|s",
        Referer=f"{server.url}lab?token={server.token}",
        X_Forwarded_For="10.0.0.9",
        X_Forwarded_Host="evil.example",
        Proxy_Authorization="Basic x",
    )
    assert program.last_line == "GET /?a=1 HTTP/1.1"
    text = program.requests[-1].decode()
    for secret in (server.token, "secret", "2|s", "_xsrf", "10.0.0.9", "evil.example", "Basic"):
        assert secret not in text
    assert program.last_head["cookie"] == ["mine=own"]


def test_a_cookie_of_the_program_is_confined_to_its_path(server: Server, program: Program) -> None:
    program.answer = (
        b"HTTP/1.1 200 OK\r\nSet-Cookie: _xsrf=stolen; Path=/; Domain=example.com\r\n"
        b"Set-Cookie: a=1\r\nContent-Length: 0\r\n\r\n"
    )
    answer = Raw(server, f"{PORTS}/{program.port}/", Authorization=f"token {server.token}")
    # Jupyter sets a cookie of its own after a login by token.
    cookies = [cookie for cookie in answer.headers.get_all("Set-Cookie") if not cookie.startswith("username-")]
    assert [cookie.split(";")[0] for cookie in cookies] == ["jupyter-tpu-app-_xsrf=stolen", "jupyter-tpu-app-a=1"]
    for cookie in cookies:
        assert f"Path=/jupyter-tpu/v1/{PORTS}/{program.port}/" in cookie
        assert "Domain" not in cookie


@pytest.mark.parametrize(
    "path",
    [
        "ports/{port}/",
        "ports/0{port}/../../../../../../api/contents",
        "ports/http://169.254.169.254/",
        "ports/169.254.169.254:80/",
        "ports/metadata.google.internal/",
        "ports/localhost/",
        "ports/[::1]:{port}/",
        "ports/2130706433/",
        "ports/unix:%2Fvar%2Frun%2Fdocker.sock/",
        "ports/-1/",
        "ports/0/",
        "ports/99999/",
        "ports/{port}%0d%0aHost:%20evil/",
        "ports/{port}@evil.example/",
    ],
)
def test_an_address_is_a_port_that_was_opened_and_nothing_else(server: Server, path: str) -> None:
    program = Program()  # its port is not open
    answer = Raw(
        server, f"nodes/{ZONE}/{NODE_ID}/{path.format(port=program.port)}", Authorization=f"token {server.token}"
    )
    if answer.status == 302:  # Jupyter's answer to any unknown path that ends in a slash
        answer = Raw(server, answer.headers["Location"], Authorization=f"token {server.token}")
    if answer.status == 307:  # to the sandboxed page, which refuses
        answer = Raw(server, answer.headers["Location"].removeprefix("/jupyter-tpu/v1/"))
    assert answer.status in (400, 403, 404), answer.text
    assert not program.requests
    program.close()


def test_a_request_for_another_host_stays_at_the_port(server: Server, program: Program) -> None:
    token = f"token {server.token}"
    absolute = Raw(server, f"http://169.254.169.254/computeMetadata/v1/{PORTS}/{program.port}/", Authorization=token)
    assert absolute.status in (403, 404)
    bad_host = Raw(server, f"{PORTS}/{program.port}/", Host="evil.example", Authorization=token)
    assert bad_host.status == 403
    assert not program.requests
    Raw(server, f"{PORTS}/{program.port}/http://169.254.169.254/", Authorization=token)
    assert program.last_line == "GET /http://169.254.169.254/ HTTP/1.1"
    assert program.last_head["host"] == [f"127.0.0.1:{program.port}"]


def test_headers_smuggle_no_second_request(server: Server, program: Program) -> None:
    Raw(
        server,
        f"{PORTS}/{program.port}/",
        method="POST",
        body=b"GET /second HTTP/1.1\r\n\r\n",
        Authorization=f"token {server.token}",
        Connection="close, X-Secret, Content-Length",
        X_Secret="hop",
        TE="trailers",
        Upgrade="h2c",
        Expect="",
    )
    assert len(program.requests) == 1
    head = program.last_head
    assert head["content-length"] == ["24"]
    assert head["connection"] == ["close"]
    assert not {"transfer-encoding", "te", "upgrade", "x-secret"} & set(head)


@pytest.mark.parametrize(
    ("location", "seen"),
    [
        ("/next?a=1", "{prefix}/next?a=1"),
        ("http://127.0.0.1:{port}/next", "{prefix}/next"),
        ("http://localhost:{port}/next", "{prefix}/next"),
        ("next", "next"),
        ("http://169.254.169.254/", "http://169.254.169.254/"),
        ("//evil.example/x", "//evil.example/x"),
    ],
)
def test_a_redirection_is_not_followed_here(server: Server, program: Program, location: str, seen: str) -> None:
    program.answer = (
        f"HTTP/1.1 302 Found\r\nLocation: {location.format(port=program.port)}\r\nContent-Length: 0\r\n\r\n".encode()
    )
    answer = Raw(server, f"{PORTS}/{program.port}/", Authorization=f"token {server.token}")
    prefix = f"/jupyter-tpu/v1/{PORTS}/{program.port}"
    assert (answer.status, answer.headers["Location"]) == (302, seen.format(prefix=prefix))
    assert len(program.requests) == 1


def test_a_page_that_is_not_trusted_is_sandboxed_and_has_a_secret_address(server: Server, program: Program) -> None:
    opened(server, program.port, trusted=False)
    token = f"token {server.token}"
    moved = Raw(server, f"{PORTS}/{program.port}/x?a=1&token={server.token}", Authorization=token)
    assert moved.status == 307
    address = moved.headers["Location"].removeprefix("/jupyter-tpu/v1/")
    assert server.token not in address
    program.answer = HELLO.replace(b"\r\n", b"\r\nSet-Cookie: a=1\r\nAccess-Control-Allow-Origin: *\r\n", 1)
    page = Raw(server, address, Origin="null")
    assert (page.status, page.text) == (200, "hello")
    assert program.last_line == "GET /x?a=1 HTTP/1.1"
    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox ")
    assert "allow-same-origin" not in policy
    assert page.headers.get_all("Access-Control-Allow-Origin") == ["null"]
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["Set-Cookie"] is None
    assert Raw(server, address.replace("/-/", "/-/x"), Origin="null").status == 404
    assert Raw(server, address, Origin="https://evil.example").status == 404
    assert address.partition("/-/")[2].partition("/")[0] not in server.log()
    server.tpu("DELETE", f"{PORTS}/{program.port}")
    assert Raw(server, address).status == 404


def test_a_trusted_page_has_no_sandbox(server: Server, program: Program) -> None:
    answer = Raw(server, f"{PORTS}/{program.port}/", Authorization=f"token {server.token}")
    assert (answer.status, answer.text, answer.headers["Content-Security-Policy"]) == (200, "hello", None)


def test_who_is_not_logged_in_gets_no_page(server: Server, program: Program) -> None:
    assert Raw(server, f"{PORTS}/{program.port}/").status in (302, 403)
    assert Raw(server, f"{PORTS}/{program.port}/", method="POST", body=b"").status == 403
    assert not program.requests


def test_a_program_that_never_answers_is_named(server: Server, program: Program) -> None:
    program.answer = None
    answer = Raw(server, f"{PORTS}/{program.port}/", Authorization=f"token {server.token}", Accept="text/html")
    assert answer.status == 502
    assert f"The program on port {program.port} of {NODE_ID} did not respond within 10 s." in answer.text
    assert answer.headers["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\nBad"])
def test_a_program_that_is_no_web_server_is_named(server: Server, program: Program, said: bytes) -> None:
    program.answer = said
    answer = Raw(server, f"{PORTS}/{program.port}/", Authorization=f"token {server.token}")
    assert answer.status >= 500
    assert "without a valid HTTP response" in answer.text


def test_an_answer_that_breaks_off_does_not_look_complete(server: Server, program: Program) -> None:
    program.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart"
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        Raw(server, f"{PORTS}/{program.port}/", Authorization=f"token {server.token}")


def test_megabytes_pass_in_pieces(server: Server, program: Program) -> None:
    body = bytes(range(256)) * 4096 * 8
    program.answer = b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * len(body)
    assert Raw(server, f"{PORTS}/{program.port}/", Authorization=f"token {server.token}").text == "x" * len(body)


class _Echo(WebSocketHandler):
    headers: ClassVar[list[Any]] = []

    def open(self) -> None:
        self.headers.append(self.request.headers)

    def on_message(self, message: str | bytes) -> None:
        self.write_message(message, binary=isinstance(message, bytes))


async def test_a_websocket_passes_and_each_one_is_authenticated(server: Server) -> None:
    web = Application([(r"/socket", _Echo)]).listen(0, "127.0.0.1")
    port = next(iter(web._sockets.values())).getsockname()[1]
    await asyncio.to_thread(opened, server, port)
    address = f"{server.url.replace('http', 'ws', 1)}jupyter-tpu/v1/{PORTS}/{port}/socket"
    origin = server.url.rstrip("/")
    token = {"Authorization": f"token {server.token}", "Cookie": "_xsrf=2|s"}
    opening = await websocket_connect(HTTPRequest(address, headers={**token, "Origin": origin}))
    for message in ("text", b"\x00\xff" * 100_000):
        await opening.write_message(message, binary=isinstance(message, bytes))
        assert await opening.read_message() == message
    opening.close()
    (headers,) = _Echo.headers
    assert headers["Origin"] == f"http://127.0.0.1:{port}"
    assert not {"Authorization", "Cookie"} & set(headers)
    for refused in ({}, {"Origin": "https://evil.example", "Cookie": "a=b"}, {"Authorization": "token wrong"}):
        with pytest.raises(HTTPClientError):
            await websocket_connect(HTTPRequest(address, headers=refused, follow_redirects=False))
    await asyncio.to_thread(server.tpu, "DELETE", f"{PORTS}/{port}")
    web.stop()
