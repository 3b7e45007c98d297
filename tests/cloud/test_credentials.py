"""Where the user's credentials go, and whom a worker's guest attributes convince."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.cloud import tpu_v2

from jupyter_tpu.cloud import CloudSettings, connect_cloud, protos
from jupyter_tpu.errors import BadInput

TRUST = "JUPYTER_TPU_TRUST_ENDPOINT"


@asynccontextmanager
async def way_out() -> AsyncIterator[tuple[str, asyncio.Queue[str]]]:
    """A proxy's address, and the hosts that it is asked for a connection to; it makes none."""
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.put_nowait((await reader.readline()).decode().split()[1])
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


@pytest.fixture
def signed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Application Default Credentials of a service account, whose tokens are signed without asking anybody."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "project_id": "my-project",
        "private_key": key.decode(),
        "client_email": "me@my-project.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.googleapis.com/token",
        "universe_domain": "cloud.example",
    }
    (tmp_path / "account.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))


async def listing(settings: CloudSettings) -> None:
    cloud = await connect_cloud(settings)
    try:
        await cloud.list_nodes()
    finally:
        await cloud.aclose()


@pytest.mark.usefixtures("signed_in")
@pytest.mark.parametrize(
    "host",
    ["tpu.evil.example", "googleapis.com.evil.example", "evilgoogleapis.com", "10.0.0.1", "unix:a.googleapis.com"],
)
async def test_credentials_are_not_sent_to_a_host_that_is_not_googles(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with way_out() as (proxy, asked):
        monkeypatch.setenv("https_proxy", proxy)
        monkeypatch.setenv(TRUST, "another.example")
        with pytest.raises(BadInput, match="credentials would be sent to") as refused:
            await asyncio.wait_for(listing(CloudSettings(endpoint=f"{host}:8443")), 120)
        assert f"{TRUST}={host}" in refused.value.hint
        assert asked.empty()


@pytest.mark.usefixtures("signed_in")
@pytest.mark.parametrize(
    ("host", "trusted"),
    [
        ("us-central1-tpu.googleapis.com", ""),
        ("tpu-mine.p.googleapis.com", ""),
        ("tpu.cloud.example", ""),
        ("proxy.example", "Proxy.Example."),
    ],
)
async def test_credentials_go_to_google_to_their_universe_and_to_the_host_that_is_named(
    host: str, trusted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with way_out() as (proxy, asked):
        monkeypatch.setenv("https_proxy", proxy)
        monkeypatch.setenv(TRUST, trusted)
        cloud = await connect_cloud(CloudSettings(endpoint=f"{host}:8443"))
        call = asyncio.ensure_future(cloud.list_nodes())
        try:
            assert await asyncio.wait_for(asked.get(), 120) == f"{host}:8443"
        finally:
            call.cancel()
            await asyncio.wait([call])
            await cloud.aclose()


@pytest.mark.parametrize(("is_emulated", "port"), [(True, 2222), (False, 22)])
def test_only_an_emulated_worker_names_its_ssh_port(is_emulated: bool, port: int) -> None:
    answer = tpu_v2.GetGuestAttributesResponse.pb(tpu_v2.GetGuestAttributesResponse())
    items = answer.guest_attributes.add().query_value.items
    items.add(namespace="emulator", key="ssh-port", value="2222")
    (worker,) = protos.identities_of(answer.guest_attributes, is_emulated=is_emulated)
    assert worker.ssh_port == port
