"""What programs on a worker are told by its metadata server, as Google's own libraries ask for it."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.protobuf.field_mask_pb2 import FieldMask
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.agent.autostop.node_api import API_VARIABLE, CannotEnd, OwnNode
from jupyter_tpu.emulator.access.access_tokens import CLOUD_PLATFORM, LIFETIME_S, AccessTokens
from jupyter_tpu.emulator.metadata.facts import WorkerFacts
from jupyter_tpu.emulator.metadata.query import reply_to
from jupyter_tpu.emulator.metadata.tree import metadata_tree
from jupyter_tpu.emulator.resources.errors import Refusal

STORAGE = "https://www.googleapis.com/auth/devstorage.read_only"
FLAVOR = {"Metadata-Flavor": "Google"}
METHOD = "google.cloud.tpu.v2.Tpu.GetNode"

# google-auth as a program on the worker uses it
WHO_AM_I = """\
import google.auth, json
from google.auth.transport.requests import Request
credentials, project = google.auth.default()
credentials.refresh(Request())
print(json.dumps([project, credentials.service_account_email, credentials.scopes, credentials.token[:5]]))
"""
# a guard that ends its own node; the API's address is the only thing that it must be told
DELETE_MYSELF = """\
import sys
from google.auth.compute_engine import Credentials, _metadata
from google.auth.transport.requests import AuthorizedSession, Request
ask = lambda path: _metadata.get(Request(), path)
zone = ask("instance/zone").rpartition("/")[2]
node = f"projects/{ask('project/project-id')}/locations/{zone}/nodes/{ask('instance/attributes/instance-id')}"
answer = AuthorizedSession(Credentials()).delete(f"{sys.argv[1]}/v2/{node}")
print(answer.text)
"""


@dataclass
class Worker:
    """The first worker of a node, from inside and from beside."""

    connection: Any
    address: str
    session: aiohttp.ClientSession

    async def run(self, program: str, *arguments: str) -> str:
        done = await self.connection.run(f"python3 - {' '.join(arguments)}", input=program)
        assert done.exit_status == 0, done.stderr
        return str(done.stdout)

    async def ask(self, path: str, verb: str = "GET", **options: Any) -> tuple[int, str, Any]:
        """Status, body and headers."""
        headers = options.pop("headers", FLAVOR)
        url = f"http://{self.address}/computeMetadata/v1/{path}"
        async with self.session.request(verb, url, headers=headers, **options) as answer:
            return answer.status, await answer.text(), answer.headers

    async def text(self, path: str) -> str:
        status, body, _ = await self.ask(path)
        assert status == 200, body
        return body


@pytest.fixture
async def make_worker(cloud: Any, user_key: Any, login: Any) -> AsyncIterator[Callable[..., Awaitable[Worker]]]:
    async with aiohttp.ClientSession() as session:

        async def make(metadata: dict[str, str] | None = None, **fields: Any) -> Worker:
            await cloud.create(metadata={**user_key.metadata, **(metadata or {})}, **fields)
            connection = await login((await cloud.guest_items())[0])
            address = await connection.run("printf %s $GCE_METADATA_HOST", check=True)
            return Worker(connection, address.stdout, session)

        yield make


async def test_googles_libraries_find_project_account_and_token_on_a_worker(make_worker: Any) -> None:
    worker = await make_worker()

    project, email, scopes, token = json.loads(await worker.run(WHO_AM_I))

    assert (project, scopes, token) == ("demo-project", [CLOUD_PLATFORM], "ya29.")
    assert email.endswith("-compute@developer.gserviceaccount.com")


async def test_a_node_deletes_itself_with_its_own_token(make_worker: Any, cloud: Any) -> None:
    worker = await make_worker()
    cloud.control.pause()  # else it would not live to read the answer

    operation = json.loads(await worker.run(DELETE_MYSELF, cloud.emulator.rest))

    assert operation["metadata"]["verb"] == "delete"
    cloud.control.resume()
    await asyncio.wait_for(worker.connection.wait_closed(), 120)


async def test_the_agents_guard_finds_its_node_and_the_api_by_what_a_login_is_told(
    make_worker: Any, cloud: Any
) -> None:
    worker = await make_worker()
    told = await worker.connection.run(f"printf %s ${API_VARIABLE}", check=True)
    environ = {"GCE_METADATA_HOST": worker.address, API_VARIABLE: str(told.stdout)}

    assert await asyncio.to_thread(OwnNode(environ).check) == cloud.emulator.node_name("n1")
    await asyncio.to_thread(OwnNode(environ).end, "delete")
    await asyncio.wait_for(worker.connection.wait_closed(), 120)


@pytest.mark.parametrize(
    ("fields", "is_asked_before", "is_refused"),
    [({}, True, False), ({"accelerator_type": "v2-32"}, False, True)],
    ids=["already stopping", "a pod cannot be stopped"],
)
async def test_a_stop_that_is_refused_in_a_passing_state_is_no_refusal_for_good(
    make_worker: Any, cloud: Any, fields: dict[str, str], is_asked_before: bool, is_refused: bool
) -> None:
    """The guard deletes a node that refuses to be stopped, with its disk."""
    worker = await make_worker(**fields)
    node = OwnNode({"GCE_METADATA_HOST": worker.address, API_VARIABLE: cloud.emulator.rest})
    cloud.control.pause()
    if is_asked_before:
        await asyncio.to_thread(node.end, "stop")
    with pytest.raises(CannotEnd, match="HTTP 400") as refused:
        await asyncio.to_thread(node.end, "stop")
    assert refused.value.is_refused == is_refused
    cloud.control.resume()


async def test_the_agents_guard_says_that_the_nodes_account_lacks_the_scope(make_worker: Any, cloud: Any) -> None:
    worker = await make_worker(service_account=tpu_v2.ServiceAccount(scope=[STORAGE]))
    environ = {"GCE_METADATA_HOST": worker.address, API_VARIABLE: cloud.emulator.rest}
    with pytest.raises(CannotEnd, match="lacks the scope cloud-platform"):
        await asyncio.to_thread(OwnNode(environ).check)
    with pytest.raises(CannotEnd, match="HTTP 403"):
        await asyncio.to_thread(OwnNode(environ).end, "stop")


async def test_a_token_without_the_scope_may_not_call_the_api(make_worker: Any, cloud: Any) -> None:
    worker = await make_worker(service_account=tpu_v2.ServiceAccount(scope=[STORAGE]))

    error = json.loads(await worker.run(DELETE_MYSELF, cloud.emulator.rest))["error"]

    assert (error["code"], error["status"]) == (403, "PERMISSION_DENIED")
    assert error["message"] == "Request had insufficient authentication scopes."
    assert error["details"][0]["reason"] == "ACCESS_TOKEN_SCOPE_INSUFFICIENT"
    assert error["details"][0]["metadata"]["method"] == "google.cloud.tpu.v2.Tpu.DeleteNode"
    token = json.loads(await worker.text("instance/service-accounts/default/token"))["access_token"]
    bearer = [("authorization", f"Bearer {token}")]
    with pytest.raises(exceptions.PermissionDenied, match="insufficient authentication scopes"):
        await cloud.client.get_node(name=cloud.emulator.node_name("n1"), metadata=bearer)
    forged = [("authorization", f"Bearer {token[:-1]}{'0' if token[-1] != '0' else '1'}")]
    with pytest.raises(exceptions.Unauthenticated):
        await cloud.client.get_node(name=cloud.emulator.node_name("n1"), metadata=forged)


def refused_reason(tokens: AccessTokens, header: str) -> str:
    with pytest.raises(Refusal) as raised:
        tokens.check(header, METHOD)
    return str(raised.value.status.details[0].value)


def test_a_token_is_good_for_an_hour_and_only_where_it_was_given_out() -> None:
    moment = [1000.0]
    tokens = AccessTokens(b"key", lambda: moment[0])
    header = f"Bearer {tokens.issue('me', [CLOUD_PLATFORM])['access_token']}"

    tokens.check(header, METHOD)
    assert "ACCESS_TOKEN_TYPE_UNSUPPORTED" in refused_reason(AccessTokens(b"other", lambda: moment[0]), header)
    moment[0] += LIFETIME_S
    assert "ACCESS_TOKEN_EXPIRED" in refused_reason(tokens, header)


@given(st.text())
def test_whatever_follows_the_beginning_of_our_tokens_is_refused(text: str) -> None:
    assert "UNSUPPORTED" in refused_reason(AccessTokens(b"key"), f"Bearer ya29.emulated.{text}")


@given(st.text())
def test_tokens_of_others_are_nobodys_business(text: str) -> None:
    AccessTokens(b"key").check(f"Bearer {text}", METHOD)


async def test_a_worker_learns_who_and_where_it_is(make_worker: Any, cloud: Any) -> None:
    worker = await make_worker({"mine": "value"}, tags=["blue"])
    number = await worker.text("project/numeric-project-id")

    told = {path: await worker.text(f"instance/{path}") for path in ("name", "hostname", "zone", "preempted", "tags")}
    attributes = {
        name: await worker.text(f"instance/attributes/{name}")
        for name in ("accelerator-type", "agent-worker-number", "instance-id", "worker-network-endpoints", "mine")
    }

    assert told == {
        "name": told["name"],
        "hostname": f"{told['name']}.us-central1-a.c.demo-project.internal",
        "zone": f"projects/{number}/zones/us-central1-a",
        "preempted": "FALSE",
        "tags": "blue\n",
    }
    assert attributes == {
        "accelerator-type": "v5litepod-8",
        "agent-worker-number": "0",
        "instance-id": "n1",
        "worker-network-endpoints": f"unknown:unknown:{await own_address(cloud)}",
        "mine": "value",
    }
    lines = (await worker.text("instance/attributes/tpu-env")).splitlines()
    assert {"ACCELERATOR_TYPE: 'v5litepod-8'", "CHIPS_PER_HOST_BOUNDS: '2,4,1'", "TYPE: 'V5LITE_POD'"} <= set(lines)


async def own_address(cloud: Any) -> str:
    return str((await cloud.get()).network_endpoints[0].ip_address)


async def test_jax_finds_all_workers_of_a_slice(cloud: Any, make_worker: Any) -> None:
    worker = await make_worker(accelerator_type="v5litepod-16")
    program = (
        "from jax._src.clusters.cloud_tpu_cluster import GceTpuCluster as cluster\n"
        "print(cluster.get_process_count(), cluster.get_process_id())"
    )

    assert await worker.run(program) == "4 0\n"


async def test_metadata_is_listed_read_as_text_and_read_as_json(make_worker: Any, cloud: Any) -> None:
    worker = await make_worker()

    assert (await worker.text("")).split() == ["instance/", "oslogin/", "project/", "universe/"]
    assert "service-accounts/" in (await worker.text("instance/")).split()
    status, _, headers = await worker.ask("instance", allow_redirects=False)
    assert (status, headers["Location"]) == (301, "/computeMetadata/v1/instance/")
    _, body, headers = await worker.ask("instance/service-accounts/default/?recursive=true")
    assert headers["Content-Type"].startswith("application/json")
    assert sorted(json.loads(body)) == ["aliases", "email", "scopes"]
    everything = json.loads(await worker.text("?recursive=true"))
    address = await own_address(cloud)
    assert everything["instance"]["networkInterfaces"][0]["ip"] == address
    assert everything["instance"]["attributes"]["agent-worker-number"] == "0"
    lines = await worker.text("instance/network-interfaces/?recursive=true&alt=text")
    assert f"0/ip {address}" in lines.splitlines()
    assert await worker.text("instance/preempted?alt=json") == '"FALSE"'


async def test_an_identity_token_names_audience_and_instance(make_worker: Any) -> None:
    from google.auth import jwt

    worker = await make_worker()
    path = "instance/service-accounts/default/identity"

    token = await worker.text(f"{path}?audience=https://example.com&format=full")

    claims = jwt.decode(token, verify=False)
    assert claims["aud"] == "https://example.com"
    assert claims["google"]["compute_engine"]["project_id"] == "demo-project"
    assert (await worker.ask(path))[:2] == (400, "non-empty audience parameter required\n")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {**FLAVOR, "X-Forwarded-For": "10.0.0.1"},
        {**FLAVOR, "Origin": "http://x"},
        {**FLAVOR, "Host": "evil.example"},
    ],
)
async def test_who_does_not_ask_as_a_worker_does_is_refused(make_worker: Any, headers: dict[str, str]) -> None:
    worker = await make_worker()

    status, body, answered = await worker.ask("instance/name", headers=headers)

    assert (status, answered["Metadata-Flavor"]) == (403, "Google")
    assert ("Missing Metadata-Flavor:Google header." in body) == (headers == {})


async def test_bad_requests_are_answered_and_break_nothing(make_worker: Any) -> None:
    worker = await make_worker()
    guest = "instance/guest-attributes/a/b"

    statuses = {
        name: (await worker.ask(path, verb, **options))[0]
        for name, path, verb, options in (
            ("missing", "instance/nothing", "GET", {}),
            ("strange path", "instance/%00%ff//x", "GET", {}),
            ("another account", "instance/service-accounts/other/token", "GET", {}),
            ("time-out in words", "instance/name?wait_for_change=true&timeout_sec=soon", "GET", {}),
            ("wrong verb", "instance/name", "POST", {"data": b"x"}),
            ("too large", guest, "PUT", {"data": io.BytesIO(b"x" * 3_000_000)}),
            ("no room", guest, "PUT", {"data": b"x" * 300_000}),
            ("no key", "instance/guest-attributes/a", "PUT", {"data": b"x"}),
        )
    }

    assert statuses == {
        "missing": 404,
        "strange path": 404,
        "another account": 404,
        "time-out in words": 400,
        "wrong verb": 405,
        "too large": 413,
        "no room": 400,
        "no key": 404,
    }
    assert await worker.text("instance/attributes/instance-id") == "n1"


async def test_who_waits_for_a_change_is_told_of_it_at_once(make_worker: Any, cloud: Any, user_key: Any) -> None:
    worker = await make_worker({"stage": "one"})
    _, _, headers = await worker.ask("instance/attributes/stage")
    path = f"instance/attributes/stage?wait_for_change=true&last_etag={headers['ETag']}"

    waiting = asyncio.ensure_future(worker.text(path))
    still = await worker.text(f"{path}&timeout_sec=0.05")
    node = tpu_v2.Node(name=cloud.emulator.node_name("n1"), metadata={**user_key.metadata, "stage": "two"})
    await cloud.client.update_node(node=node, update_mask=FieldMask(paths=["metadata"]))

    assert (still, await asyncio.wait_for(waiting, 120)) == ("one", "two")
    assert await worker.text(path) == "two"


async def test_a_worker_is_warned_before_its_node_is_preempted(make_worker: Any, cloud: Any) -> None:
    worker = await make_worker(scheduling_config=tpu_v2.SchedulingConfig(spot=True))
    cloud.control.pause()
    waiting = asyncio.ensure_future(worker.text("instance/preempted?wait_for_change=true&last_etag=0"))
    assert await waiting == "FALSE"

    cloud.control.preempt(cloud.emulator.node_name("n1"), notice_s=30)
    assert await worker.text("instance/preempted") == "TRUE"
    assert (await cloud.get()).state.name == "READY"
    cloud.control.advance(29)
    assert (await cloud.get()).state.name == "READY"
    cloud.control.advance(2)

    assert (await cloud.get()).state.name == "PREEMPTED"
    with pytest.raises(aiohttp.ClientConnectionError):
        await worker.text("instance/preempted")


async def test_a_notice_concerns_no_later_node_of_the_same_name(make_worker: Any, cloud: Any) -> None:
    await make_worker()
    cloud.control.preempt(cloud.emulator.node_name("n1"), notice_s=100_000)
    await cloud.delete()
    worker = await make_worker()
    cloud.control.pause()

    cloud.control.advance(200_000)

    assert await worker.text("instance/preempted") == "FALSE"
    assert (await cloud.get()).state.name == "READY"


async def test_a_notice_outlives_a_killed_emulator(make_worker: Any, cloud: Any) -> None:
    worker = await make_worker()
    cloud.control.pause()
    cloud.control.preempt(cloud.emulator.node_name("n1"), notice_s=30)
    cloud.emulator.kill()
    cloud.emulator.start()
    await cloud.reconnect()

    assert await worker.text("instance/preempted") == "TRUE"
    cloud.control.advance(31)
    assert (await cloud.get()).state.name == "PREEMPTED"


async def test_maintenance_is_announced_on_the_worker(make_worker: Any, cloud: Any) -> None:
    worker = await make_worker()
    cloud.control.pause()
    path = "instance/upcoming-maintenance"
    _, before, headers = await worker.ask(path)
    waiting = asyncio.ensure_future(worker.text(f"{path}?wait_for_change=true&last_etag={headers['ETag']}"))

    cloud.control.announce_maintenance(cloud.emulator.node_name("n1"))

    assert json.loads(before) == {"error": "no notifications have been received yet, try again later"}
    announced = json.loads(await asyncio.wait_for(waiting, 120))
    assert (announced["type"], announced["maintenance_status"]) == ("SCHEDULED", "PENDING")
    assert await worker.text("instance/maintenance-event") == "NONE"


async def test_guest_attributes_that_a_worker_puts_are_shown_by_the_api(make_worker: Any, cloud: Any) -> None:
    worker = await make_worker()

    await worker.ask("instance/guest-attributes/mine/progress", "PUT", data=b"half")
    await worker.ask("instance/guest-attributes/mine/gone", "PUT", data=b"x")
    await worker.ask("instance/guest-attributes/mine/gone", "DELETE")

    (items,) = await cloud.guest_items()
    assert {key: value for key, value in items.items() if key.startswith("mine/")} == {"mine/progress": "half"}
    assert await worker.text("instance/guest-attributes/mine/progress") == "half"


async def test_a_startup_script_runs_once_each_time_a_worker_boots(make_worker: Any, cloud: Any, login: Any) -> None:
    script = "#!/bin/bash\necho $TPU_WORKER_ID >> ~/boots; echo said; touch ~/ended\n"
    worker = await make_worker({"startup-script": script})
    wait = "while [ ! -e ended ]; do sleep 0.05; done; rm ended; cat boots .startup-script.log"
    first = await worker.connection.run(wait, check=True)

    cloud.emulator.kill()  # its workers run on, so the next start is no boot
    cloud.emulator.start()
    await cloud.reconnect()
    await cloud.stop()
    await cloud.start()

    connection = await login((await cloud.guest_items())[0])
    second = await connection.run(wait, check=True)
    assert (first.stdout, second.stdout) == ("0\nsaid\n", "0\n0\nsaid\nsaid\n")


NODE = tpu_v2.Node(
    name="projects/p/locations/us-central1-a/nodes/n", accelerator_type="v5litepod-8", metadata={"error": "mine"}
)
TREE = metadata_tree(WorkerFacts(node=tpu_v2.Node.pb(NODE), worker_id=0, hostname="h", project="p", project_number="1"))
WORDS = st.sampled_from(["instance", "attributes", "error", "service-accounts", "default", "token", "", "0", "x"])
QUERY = st.dictionaries(st.sampled_from(["recursive", "alt"]), st.sampled_from(["true", "json", "text", "", "?"]))


@given(st.lists(WORDS, max_size=5), QUERY)
def test_every_path_and_query_has_an_answer(path: list[str], query: dict[str, str]) -> None:
    reply = reply_to(TREE, "/".join(path), query)

    assert reply.status in (200, 301, 404)
    assert reply.status != 200 or reply.etag
    if reply.content_type == "application/json":
        json.loads(reply.body)
