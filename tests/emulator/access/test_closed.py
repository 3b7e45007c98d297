"""Who may not use the emulator: web pages, and other users of this machine."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from jupyter_tpu.cloud import connect_cloud
from jupyter_tpu.emulator.access.peers import owner_in
from jupyter_tpu.emulator.control.client import ControlRefused, EmulatorControl
from jupyter_tpu.errors import CredentialsMissing

OURS, THEIRS, NOBODY = 1000, 1001, 65534
PEER, HERE = ("127.0.0.1", 0xC350), ("127.0.0.1", 0x1F90)
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 1 1
   1: {peer}:C350 {here}:1F90 {state} 00000000:00000000 00:00000000 00000000  {uid}        0 {inode} 1
"""
LIVE = {"peer": "0100007F", "here": "0100007F", "state": "01", "uid": THEIRS, "inode": 2}
MAPPED = "0000000000000000FFFF00000100007F"


@pytest.mark.parametrize(
    ("shown", "owner"),
    [
        ({}, THEIRS),
        ({"uid": OURS}, OURS),
        ({"peer": MAPPED, "here": MAPPED}, THEIRS),
        # its process has closed it: the kernel then says that it is root's
        ({"state": "04", "uid": 0, "inode": 0}, None),
        # the same two ports, but a connection of another address of this machine
        ({"peer": "0200007F", "uid": OURS}, None),
    ],
)
def test_the_kernels_tables_tell_whose_a_connection_is(shown: dict[str, Any], owner: int | None) -> None:
    lines = TABLE.format(**{**LIVE, **shown}).splitlines()

    assert owner_in(lines, PEER, HERE) == owner


def test_a_connection_that_the_tables_do_not_show_has_no_owner() -> None:
    assert owner_in([], PEER, HERE) is None


# Calls everything once as root, which also imports all that it takes, and once more as another user.
AS_ANOTHER_USER = """
import json, os, sys, urllib.error, urllib.request
import grpc
rest, target, user = sys.argv[1], sys.argv[2], int(sys.argv[3])
node = b'{"acceleratorType":"v5litepod-8","runtimeVersion":"v2-alpha-tpuv5-lite","metadata":{"startup-script":"id"}}'
zone = "projects/demo-project/locations/us-central1-a"
reads = "/emulator/v1/info", f"/v2/{zone}/nodes", "/compute/v1/projects/demo-project", "/nowhere"
changes = (f"/v2/{zone}/nodes?nodeId=evil", node), ("/emulator/v1/clock", b'{"advance_s":600}')
methods = "google.cloud.tpu.v2.Tpu/ListNodes", "google.cloud.location.Locations/GetLocation"

def ask(path, body=None):
    request = urllib.request.Request(rest + path, data=body, headers={"Content-Type": "application/json"})
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120).close()
        return "served"
    except urllib.error.HTTPError as error:
        return json.load(error)["error"]["status"]

def call(method):
    with grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        try:
            channel.unary_unary(f"/{method}")(b"\\n" + bytes([len(zone)]) + zone.encode(), timeout=120)
            return "served"
        except grpc.RpcError as error:
            return error.code().name

ours = [ask(path) for path in reads] + [call(method) for method in methods]
os.setgroups([]); os.setgid(user); os.setuid(user)
theirs = [ask(path) for path in reads] + [call(method) for method in methods] + [ask(*change) for change in changes]
print(json.dumps([ours, theirs]))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user of this machine")
@pytest.mark.shows("who-may-call")
def test_another_user_of_this_machine_is_refused_everything(emulator: Any) -> None:
    command = [sys.executable, "-c", AS_ANOTHER_USER, emulator.rest, emulator.grpc, str(NOBODY)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ours, theirs = json.loads(done.stdout)

    assert "PERMISSION_DENIED" not in ours
    assert set(theirs) == {"PERMISSION_DENIED"}, theirs
    assert emulator.control.state()["nodes"] == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://example.com"},
        {"Host": "evil.example.com:80"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/emulator/v1/info", "/v2/projects/demo-project/locations"])
async def test_web_pages_are_refused(emulator: Any, path: str, headers: dict[str, str]) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{emulator.rest}{path}", headers=headers) as answer:
        assert answer.status == 403


async def test_an_address_typed_into_a_browser_is_served(emulator: Any) -> None:
    headers = {"Sec-Fetch-Site": "none"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{emulator.rest}/emulator/v1/ledger", headers=headers) as answer,
    ):
        assert answer.status == 200


@pytest.fixture
def asking(make_emulator: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """An emulator that asks for its token, and an environment that names the token's file."""
    emulator = make_emulator("--access", "token")
    monkeypatch.setenv("JUPYTER_TPU_EMULATOR_TOKEN_FILE", emulator.token_file)
    return emulator


def test_only_its_user_can_read_the_token(asking: Any) -> None:
    assert stat.S_IMODE(Path(asking.token_file).stat().st_mode) == 0o600


async def test_where_users_are_not_told_apart_only_who_knows_the_token_is_served(
    asking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert EmulatorControl(asking.rest).info()["project"] == asking.project
    cloud = await connect_cloud(asking.settings)
    try:
        assert (await cloud.list_nodes()).nodes == ()
    finally:
        await cloud.aclose()

    monkeypatch.delenv("JUPYTER_TPU_EMULATOR_TOKEN_FILE")
    with pytest.raises(ControlRefused, match="requires the token"):
        EmulatorControl(asking.rest).info()
    stranger = await connect_cloud(asking.settings)
    try:
        with pytest.raises(CredentialsMissing):
            await stranger.list_nodes()
    finally:
        await stranger.aclose()


def test_a_workers_own_token_ends_nodes_and_runs_nothing(asking: Any) -> None:
    control: EmulatorControl = asking.control
    node = post(asking, f"{asking.parent}/nodes?nodeId=n1", node_body(asking), Path(asking.token_file).read_text())
    control.advance(3600)
    (worker,) = control.workers("n1")
    token = metadata_token(Path(worker["home"]).parent / "metadata_port")

    assert node == 200
    assert post(asking, f"{asking.parent}/nodes?nodeId=n2", node_body(asking), token) == 401
    assert post(asking, f"{asking.parent}/nodes/n1:stop", {}, token) == 200


def node_body(emulator: Any) -> dict[str, str]:
    return {"acceleratorType": emulator.accelerator_type, "runtimeVersion": emulator.runtime_version}


def metadata_token(port_file: Path) -> str:
    address = f"http://127.0.0.1:{port_file.read_text()}/computeMetadata/v1/instance/service-accounts/default/token"
    request = urllib.request.Request(address, headers={"Metadata-Flavor": "Google"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as answer:
        return str(json.load(answer)["access_token"])


def post(emulator: Any, path: str, body: dict[str, str], token: str) -> int:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{emulator.rest}/v2/{path}", data=json.dumps(body).encode(), headers=headers)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
