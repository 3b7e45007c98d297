"""Nobody without the server's token gets anywhere, by any verb."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import pytest

from jupyter_tpu.server.routes.table import ROUTES

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cloud, Server, StartServer

VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
VALUES = {
    "action": "enable_api",
    "part": "state",
    "zone": "us-central1-a",
    "node_id": "my-node",
    "intent_id": "some-intent",
    "kernel_id": "k",
    "msg_id": "m",
    "name": "weekly",
    "queued_id": "q",
    "search_id": "s",
    "terminal_id": "t",
    "port": "6006",
}

XSRF = {"Cookie": "_xsrf=abc", "X-XSRFToken": "abc"}
"""What proves that a request comes from a page of the server; whoever reaches the server can send it."""


def example_of(pattern: str) -> str:
    return re.sub(r"\(\?P<(\w+)>[^)]*\)", lambda match: VALUES[match[1]], pattern).removeprefix("/jupyter-tpu/v1/")


@pytest.mark.parametrize("route", [example_of(pattern) for pattern, _ in ROUTES])
def test_every_route_is_closed(server: Server, route: str) -> None:
    for verb, token in itertools.product(VERBS, ["", "wrong"]):
        answer = server.tpu(verb, route, token=token, headers=XSRF)

        # 405 for a verb that no handler has; OPTIONS is Jupyter's own CORS answer without a body
        assert answer.status in (401, 403, 405) or (verb == "OPTIONS" and not answer.text), (verb, token)
        assert "node" not in answer.text.lower(), (verb, token)


def test_a_page_of_another_site_is_refused(server: Server, cloud: Cloud) -> None:
    answer = server.tpu("POST", "nodes", {}, token="", headers={"Origin": "https://evil.example"})

    assert answer.status in (403, 404)  # Jupyter hides API routes from other origins
    assert cloud.control.billing() == []


def test_a_page_of_another_site_changes_nothing_with_the_users_cookie(server: Server) -> None:
    cookie = server.tpu("GET", "nodes").headers["Set-Cookie"].partition(";")[0]
    ours = {**XSRF, "Cookie": f"{cookie}; {XSRF['Cookie']}"}

    assert server.tpu("POST", "nodes", {}, token="", headers={"Cookie": cookie}).status == 403
    assert server.tpu("POST", "nodes", {}, token="", headers=ours).status == 400


def test_who_may_see_nodes_alone_reads_no_code_or_output(
    start_server: StartServer, cloud: Cloud, tmp_path: Path
) -> None:
    (tmp_path / "guest.py").write_text(
        "from jupyter_server.auth import Authorizer\n"
        "class Guest(Authorizer):\n"
        "    def is_authorized(self, handler, user, action, resource):\n"
        "        return resource == 'tpu' and action == 'read'\n"
    )
    server = start_server("--ServerApp.authorizer_class=guest.Guest", **cloud.variables, PYTHONPATH=str(tmp_path))

    assert server.tpu("GET", "nodes").status == 200
    assert server.tpu("GET", "kernels/k/link").status == 404
    for route in ("kernels/k/outputs", "kernels/k/requests/m/text", "kernels/k/replay"):
        assert server.tpu("GET", route).status == 403
    assert server.tpu("DELETE", "kernels/k/replay").status == 403


def test_a_websocket_upgrade_opens_nothing(server: Server) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "eA==",
    }

    assert server.tpu("GET", "nodes", token="", headers=upgrade).status == 403
