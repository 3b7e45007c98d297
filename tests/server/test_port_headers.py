"""What passes between a browser and a program on a node, without either."""

from __future__ import annotations

import pytest

from jupyter_tpu.server.ports.headers import cleaned_query, request_headers, response_headers, split_path


@pytest.mark.parametrize(
    ("query", "cleaned"),
    [
        ("", ""),
        ("a=1&b=%26", "a=1&b=%26"),
        ("token=x", ""),
        ("a=1&to%6ben=x&b", "a=1&b"),
        ("a=1&token", "a=1"),
        ("tokens=1", "tokens=1"),
    ],
)
def test_a_token_is_removed_from_a_query_however_it_is_written(query: str, cleaned: str) -> None:
    assert cleaned_query(query) == cleaned


def test_the_path_of_a_port_ends_where_the_program_begins() -> None:
    port = "/base/jupyter-tpu/v1/nodes/us-central1-a/my-node/ports/6006"
    assert split_path(f"{port}/a/nodes/b/c/ports/1/d") == (port, "/a/nodes/b/c/ports/1/d")
    assert split_path(f"{port}/-/s3cret/") == (f"{port}/-/s3cret", "/")
    with pytest.raises(ValueError, match="lab"):
        split_path("/lab")


def test_what_connection_names_stays_on_its_hop() -> None:
    sent = [("Connection", "keep-alive, X-Hop"), ("X-Hop", "1"), ("Transfer-Encoding", "chunked"), ("Accept", "*/*")]
    assert request_headers(sent, 80, "/p") == [
        ("Host", "127.0.0.1:80"),
        ("Accept", "*/*"),
        ("X-Forwarded-Prefix", "/p"),
        ("Connection", "close"),
    ]
    assert response_headers(sent, 80, "/p", is_trusted=True) == [
        ("Accept", "*/*"),
        ("X-Content-Type-Options", "nosniff"),
    ]


def test_a_program_can_send_no_cookie_that_this_server_would_read() -> None:
    sent = [("Set-Cookie", "a=b; Domain=.example.com; Path=/; HttpOnly"), ("Set-Cookie", "bad cookie\x00=")]
    headers = dict(response_headers(sent, 80, "/p", is_trusted=True))
    assert headers["Set-Cookie"] == "jupyter-tpu-app-a=b; HttpOnly; Path=/p/; SameSite=Strict"
    assert "Set-Cookie" not in dict(response_headers(sent, 80, "/p", is_trusted=False))
