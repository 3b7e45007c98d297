"""VS Code gets the front ends of widgets from the Jupyter server, and nobody gets anything else from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Server


@pytest.mark.parametrize("token", [None, ""])
@pytest.mark.parametrize("name", ["anywidget/extension.js", "anywidget/index.js"])
def test_a_front_end_is_given_with_and_without_a_token(server: Server, name: str, token: str | None) -> None:
    answer = server.request("GET", f"nbextensions/{name}", token=token)
    assert answer.status == 200
    assert "anywidget" in answer.text


def test_a_package_of_the_kernel_that_the_server_lacks_has_no_front_end(server: Server) -> None:
    answer = server.request("GET", "nbextensions/some-widget/extension.js", token="")
    assert answer.status == 200
    assert "no front end" in answer.text
    assert server.request("GET", "nbextensions/some-widget/index.js", token="").status == 404


@pytest.mark.parametrize(
    "path",
    [
        "",
        "anywidget/",
        "anywidget/index.js.map",
        "../kernels/python3/kernel.json",
        "%2e%2e/a.js",
        "anywidget/../../a.js",
    ],
)
def test_nothing_but_scripts_is_given(server: Server, path: str) -> None:
    assert server.request("GET", f"nbextensions/{path}", token="").status in (403, 404)
