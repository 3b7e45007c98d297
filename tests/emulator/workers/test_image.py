"""What a login finds on its PATH, by kind of image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asyncssh
import pytest


@pytest.fixture
async def connection(
    request: Any, make_emulator: Callable[..., Any], connect_cloud: Callable[[Any], Any], user_key: Any, login: Any
) -> asyncssh.SSHClientConnection:
    cloud = connect_cloud(make_emulator("--worker-image", request.param))
    await cloud.create(metadata=user_key.metadata)
    (items,) = await cloud.guest_items()
    return await login(items)


async def output_of(connection: Any, command: str) -> str:
    return str((await connection.run(command, check=True)).stdout).strip()


@pytest.mark.parametrize("connection", ["full"], indirect=True)
async def test_the_full_image_has_the_packages_of_the_emulators_python_and_uv(connection: Any) -> None:
    assert await output_of(connection, "python3 -c 'import ipykernel, zmq, psutil; print(1)'") == "1"
    assert (await output_of(connection, "uv --version")).startswith("uv ")


@pytest.mark.parametrize("connection", ["bare"], indirect=True)
async def test_the_bare_image_has_a_python_with_pip_only(connection: Any) -> None:
    for package in ("ipykernel", "zmq", "psutil"):
        done = await connection.run(f"python3 -c 'import {package}'")
        assert "ModuleNotFoundError" in done.stderr, package
    assert (await connection.run("command -v uv")).exit_status != 0
    assert (await output_of(connection, "python3 -m pip --version")).startswith("pip ")


@pytest.mark.parametrize("connection", ["bare"], indirect=True)
async def test_on_the_bare_image_users_install_into_their_home(connection: Any) -> None:
    where = "import site, sys; print(site.getusersitepackages().startswith(sys.argv[1]), site.ENABLE_USER_SITE)"
    assert await output_of(connection, f'python3 -c "{where}" "$HOME"') == "True True"
    await connection.run("python3 -m venv --without-pip mine && mine/bin/python -c 'import sys'", check=True)
