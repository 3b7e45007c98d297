"""What no client should send is refused in words: never a traceback, never a fault or limit that breaks later calls."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import grpc.aio
import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2

NOT_JSON = [b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b'{"a":' + b"9" * 5_000 + b"}", b"{", b'"text"', b"[]"]
NODES = "/v2/projects/demo-project/locations/us-central1-a/nodes"
CONTROL = "/emulator/v1"
JSON = {"Content-Type": "application/json"}
FORM = "application/x-www-form-urlencoded"
CREATE = f"POST {NODES}?nodeId=n1 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n".encode()


@pytest.fixture
def silent(emulator: Any) -> Iterator[Any]:
    """An emulator that logs nothing of what it is sent."""
    before = emulator.log()
    yield emulator
    assert emulator.log() == before


def answer_to(
    emulator: Any, path: str, body: bytes | dict[str, Any] | None, kind: str = "application/json"
) -> tuple[int, dict[str, Any]]:
    """Status and JSON of the answer to a POST, or to a GET when there is no body."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    request = urllib.request.Request(emulator.rest + path, data=data, headers={"Content-Type": kind})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize("body", NOT_JSON, ids=lambda body: repr(body[:5]))
@pytest.mark.parametrize("path", [f"{NODES}?nodeId=n1", f"{CONTROL}/faults", f"{CONTROL}/clock", f"{CONTROL}/preempt"])
def test_a_body_that_is_no_object_is_refused(silent: Any, path: str, body: bytes) -> None:
    status, answer = answer_to(silent, path, body)

    assert status == 400
    assert answer["error"]["status"] == "INVALID_ARGUMENT"
    assert answer["error"]["message"].startswith("Invalid JSON payload received. ")


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("preempt", {}),
        ("preempt", {"node": []}),
        ("preempt", {"node": None}),
        ("preempt", {"node": "\ud800"}),
        ("clock", {"scale": 0}),
        ("clock", {"scale": float("inf")}),
        ("clock", {"advance_s": float("nan")}),
        ("clock", {"advance_s": "7"}),
        ("clock", {"advance_s": 10**400}),
        ("quotas", {"quota_id": [], "zone": "z", "limit": 1}),
        ("quotas", {"quota_id": "q", "zone": "z", "limit": float("inf")}),
        ("quotas", {"quota_id": "q", "zone": "z", "limit": -1}),
        ("workers", {"action": [], "node": "n"}),
        ("workers", {"action": "close_ssh", "node": {}}),
    ],
)
def test_the_control_api_refuses_what_it_cannot_do(silent: Any, path: str, asked: dict[str, Any]) -> None:
    status, answer = answer_to(silent, f"{CONTROL}/{path}", asked)

    assert (status, answer["error"]["code"]) == (400, 400)


@pytest.mark.parametrize(
    "fields",
    [
        {"code": [1]},
        {"code": 999},
        {"code": 0},
        {"code": "OK"},
        {"code": 1.5},
        {"code": True},
        {"seconds": "abc"},
        {"seconds": -1},
        {"times": "x"},
        {"times": 0},
        {"times": 1.5},
        {"method": []},
        {"kind": []},
        {"message": []},
        {"limit": "x"},
        {"quota_id": 5},
        {"unheard_of": 1},
    ],
    ids=repr,
)
def test_a_fault_that_cannot_happen_is_refused(silent: Any, fields: dict[str, Any]) -> None:
    status, _ = answer_to(silent, f"{CONTROL}/faults", {"method": "GetNode", "kind": "error", **fields})

    assert status == 400
    assert silent.control.faults() == []


@pytest.mark.parametrize("code", ["UNAVAILABLE", 14, "14"])
def test_the_code_of_a_fault_is_a_word_or_a_number(emulator: Any, code: object) -> None:
    emulator.control.add_fault("ListNodes", "error", code=code)

    with pytest.raises(urllib.error.HTTPError, match="503") as refused:
        urllib.request.urlopen(emulator.rest + NODES, timeout=120)
    refused.value.close()


# -- the words of Google's front end

NODE = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite"}
RECEIVED = "Invalid JSON payload received. "
V2 = "type.googleapis.com/google.cloud.tpu.v2."


def violations(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """Field and description of each violation in the details."""
    [detail] = answer["error"]["details"]
    assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    return [(each.get("field", ""), each["description"]) for each in detail["fieldViolations"]]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"not json", "Unexpected token.\nnot json\n^"),
        (b'{"a":', "Unexpected end of string. Expected a value.\n\n^"),
        (b'{"a": 1', "Unexpected end of string. Expected , or } after key:value pair.\n\n^"),
        (b'{"a" 1}', 'Expected : between key:value pair.\n{"a" 1}\n     ^'),
        (b'["text"]', 'Unknown name "": Root element must be a message.'),
        (b"{} {}", "Parsing terminated before end of input.\n{} {}\n   ^"),
        (b'{"description": NaN}', "Unexpected token.\nNaN\n^"),
    ],
    ids=repr,
)
def test_what_is_not_json_is_named_as_google_names_it(silent: Any, body: bytes, words: str) -> None:
    status, answer = answer_to(silent, f"{NODES}?nodeId=n1", body)

    assert (status, answer["error"]["message"]) == (400, RECEIVED + words)


@pytest.mark.parametrize(
    ("fields", "at", "words"),
    [
        ({"acceleratorTyp": "x"}, "node", f"{RECEIVED}Unknown name \"acceleratorTyp\" at 'node': Cannot find field."),
        (
            {"networkConfig": {"nets": 1}},
            "node.network_config",
            f"{RECEIVED}Unknown name \"nets\" at 'node.network_config': Cannot find field.",
        ),
        (
            {"provisioningModel": "SPOT"},  # of queued resources, and of v2alpha1
            "node",
            f"{RECEIVED}Unknown name \"provisioningModel\" at 'node': Cannot find field.",
        ),
        (
            {"state": "GLOWING"},
            "node.state",
            f"Invalid value at 'node.state' ({V2}Node.State), \"GLOWING\"",
        ),
        ({"description": 7}, "node.description", "Invalid value at 'node.description' (TYPE_STRING), 7"),
        ({"id": "many"}, "node.id", "Invalid value at 'node.id' (TYPE_INT64), \"many\""),
        (
            {"networkConfig": "default"},
            "node.network_config",
            f"Invalid value at 'node.network_config' ({V2}NetworkConfig), \"default\"",
        ),
        (
            {"cidrBlock": ["10.0.0.0/29"]},
            "node",
            f"{RECEIVED}Unknown name \"cidrBlock\" at 'node': Proto field is not repeating, cannot start list.",
        ),
        (
            {"createTime": "yesterday"},
            "node.create_time",
            "Invalid value at 'node.create_time' (type.googleapis.com/google.protobuf.Timestamp), Field 'createTime', "
            "Illegal timestamp format; timestamps must end with 'Z' or have a valid timezone offset.",
        ),
        (
            {"dataDisks": [{}, {"mode": "SHUT"}]},
            "node.data_disks[1].mode",
            f"Invalid value at 'node.data_disks[1].mode' ({V2}AttachedDisk.DiskMode), \"SHUT\"",
        ),
        ({"labels": {"a": 1}}, "node.labels[0].value", "Invalid value at 'node.labels[0].value' (TYPE_STRING), 1"),
    ],
    ids=repr,
)
def test_a_wrong_field_is_named_as_google_names_it(silent: Any, fields: dict[str, Any], at: str, words: str) -> None:
    status, answer = answer_to(silent, f"{NODES}?nodeId=n1", {**NODE, **fields})

    assert (status, answer["error"]["message"]) == (400, words)
    assert violations(answer) == [(at, words)]


def test_all_that_is_wrong_with_a_body_is_said_at_once(silent: Any) -> None:
    _, answer = answer_to(silent, f"{NODES}?nodeId=n1&colour=red", {"color": "red", "description": 1})

    assert [at for at, _ in violations(answer)] == ["", "node", "node.description"]
    assert answer["error"]["message"].split("\n") == [words for _, words in violations(answer)]


def test_an_unknown_parameter_is_named_as_google_names_it(silent: Any) -> None:
    status, answer = answer_to(silent, f"{NODES}?nodeId=n1&node_size=8", NODE)

    words = "Cannot bind query parameter. Field 'node_size' could not be found in request message."
    assert (status, answer["error"]["message"]) == (400, f'{RECEIVED}Unknown name "node_size": {words}')


def test_parameters_in_snake_case_and_those_of_the_system_are_known(silent: Any) -> None:
    system = "alt=json&prettyPrint=false&key=k&quotaUser=u&$.xgafv=2&fields=*&access_token=t&uploadType=media"
    status, answer = answer_to(silent, f"{NODES}?node_id=n1&{system}", NODE)

    assert (status, answer["metadata"]["target"]) == (200, silent.node_name("n1"))


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "multipart/form-data; boundary=x"])
def test_a_body_of_another_type_is_refused(silent: Any, kind: str) -> None:
    status, answer = answer_to(silent, f"{NODES}?nodeId=n1", NODE, kind=kind)

    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")


def test_a_body_that_curl_sends_as_a_form_is_refused_as_google_does(silent: Any) -> None:
    status, answer = answer_to(silent, f"{NODES}?nodeId=n1", b"acceleratorType=v2-8", kind=FORM)

    assert status == 400
    assert answer["error"]["message"].startswith(
        f'{RECEIVED}Unknown name "acceleratorType": Cannot bind query parameter.'
    )


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_huge_body_is_refused_without_being_kept(silent: Any, is_chunked: bool) -> None:
    connection = http.client.HTTPConnection(silent.rest.removeprefix("http://"), timeout=120)
    with contextlib.closing(connection):
        sent = (b" " * 65_536 for _ in range(200)) if is_chunked else b" " * 200 * 65_536
        with contextlib.suppress(ConnectionError):  # the answer may come before all is sent
            connection.request("POST", f"{NODES}?nodeId=n1", sent, JSON, encode_chunked=is_chunked)
        answer = connection.getresponse()
        error = json.load(answer)["error"]

    assert (answer.status, error["status"]) == (400, "INVALID_ARGUMENT")
    assert error["message"] == "Request payload size exceeds the limit: 10485760 bytes."


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v2",
        "/v2/",
        "/v9/projects/demo-project/locations",
        "/v2//projects/demo-project/locations",
        "/v2/projects/demo-project/locations/us-central1-a/nodes/a/b",
        "/v2/projects/demo-project/locations/us-central1-a/nodes/%00",
        "/v2/projects/demo-project/locations/us-central1-a/nodes/%FF%FE",
        "/v2/projects/demo-project/locations/us-central1-a/nodes/%F0%9F%92%A5",
        "/v2/projects/demo-project/locations/us-central1-a/nodes/a%2F..%2Fb",
        "/v2/projects/demo-project/locations/us-central1-a/nodes/..",
        "/v2/projects/demo-project/locations/us-central1-a/nodes/n1:burn",
        "/v2/projects/%ED%A0%80/locations/us-central1-a/nodes",
        "/v2/projects/demo-project/locations/us-central1-a/nodes?pageToken=%00%FF",
        "/v2/projects/demo-project/locations/us-central1-a/nodes?pageSize=-1",
        "/v2/projects/demo-project/locations/us-central1-a/nodes?pageSize=99999999999999999999",
        "/v2/" + "x" * 7_000,
    ],
    ids=lambda path: path[:60],
)
def test_odd_paths_are_refused_in_googles_envelope(silent: Any, path: str) -> None:
    status, answer = answer_to(silent, path, None)

    assert status in (400, 403, 404)
    assert answer["error"]["code"] == status
    assert answer["error"]["message"]


@pytest.mark.parametrize(
    "sent",
    [
        b"EHLO\r\n\r\n",
        b"GET /v2/\x00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /v2/\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /v2/" + b"x" * 9_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"BREW /v2 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET /v2 HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\n\r\n",
        CREATE + b"Content-Length: -5\r\n\r\n{}",
        CREATE + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        CREATE + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    ],
    ids=lambda sent: repr(sent[-40:]),
)
def test_what_is_no_http_is_refused_in_googles_envelope_without_a_word_in_the_log(silent: Any, sent: bytes) -> None:
    status, headers, error = raw_answer(silent, sent)

    assert (status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert "b'" not in error["message"]
    assert b"aiohttp" not in headers
    assert b"Content-Type: application/json" in headers


def test_tls_is_told_that_the_port_speaks_plain_http(silent: Any) -> None:
    _, _, error = raw_answer(silent, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 32)

    assert "use http:// instead of https://" in error["message"]


def raw_answer(emulator: Any, sent: bytes) -> tuple[int, bytes, dict[str, Any]]:
    """Status, headers and error of the answer to bytes."""
    host, _, port = emulator.rest.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(sent)
        with contextlib.closing(http.client.HTTPResponse(connection)) as answer:
            answer.begin()
            return answer.status, answer.headers.as_bytes(), json.load(answer)["error"]


def test_a_client_that_hangs_up_in_its_body_does_no_harm(silent: Any) -> None:
    host, _, port = silent.rest.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(CREATE + b"Content-Length: 1000\r\n\r\n{")

    assert answer_to(silent, NODES, None) == (200, {})


def test_of_a_parameter_given_twice_the_last_counts(silent: Any) -> None:
    status, answer = answer_to(silent, f"{NODES}?nodeId=n1&nodeId=n2", NODE)

    assert (status, answer["metadata"]["target"]) == (200, silent.node_name("n2"))


def test_halves_of_characters_are_replaced(silent: Any) -> None:
    body = b'{"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite", "description": "\\ud800\xff"}'
    answer_to(silent, f"{NODES}?nodeId=n1", body)

    assert answer_to(silent, f"{NODES}/n1", None)[1]["description"] == "\ufffd\ufffd"


# -- credentials


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "CREDENTIALS_MISSING"),
        ({"Authorization": "Basic dTpw"}, "ACCESS_TOKEN_TYPE_UNSUPPORTED"),
        ({"Authorization": "Bearer "}, "ACCESS_TOKEN_TYPE_UNSUPPORTED"),
    ],
)
def test_a_cloud_that_asks_for_a_token_refuses_calls_without(
    make_emulator: Any, headers: dict[str, str], reason: str
) -> None:
    emulator = make_emulator("--require-auth")
    request = urllib.request.Request(emulator.rest + NODES, headers=headers)

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=120)

    with refused.value as answer:
        error = json.load(answer)["error"]
    assert (answer.code, error["status"]) == (401, "UNAUTHENTICATED")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer realm=")
    assert error["details"] == [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "googleapis.com",
            "metadata": {"method": "google.cloud.tpu.v2.Tpu.ListNodes", "service": "tpu.googleapis.com"},
        }
    ]


def test_any_bearer_token_is_taken(make_emulator: Any) -> None:
    request = urllib.request.Request(
        make_emulator("--require-auth").rest + NODES, headers={"Authorization": "Bearer t"}
    )

    with urllib.request.urlopen(request, timeout=120) as answer:
        assert json.load(answer) == {}


def test_a_token_that_looks_like_a_workers_but_is_forged_is_refused(emulator: Any) -> None:
    request = urllib.request.Request(emulator.rest + NODES, headers={"Authorization": "Bearer ya29.emulated.x.y"})

    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urllib.request.urlopen(request, timeout=120)
    refused.value.close()


async def test_grpc_asks_for_the_token_too(make_emulator: Any, connect_cloud: Any) -> None:
    emulator = make_emulator("--require-auth")
    client = connect_cloud(emulator).client

    with pytest.raises(exceptions.Unauthenticated, match="missing required authentication credential"):
        await client.list_nodes(parent=emulator.parent)
    await client.list_nodes(parent=emulator.parent, metadata=[("authorization", "Bearer t")])


async def test_a_time_out_of_range_is_refused_over_grpc(emulator: Any, connect_cloud: Any) -> None:
    node = tpu_v2.Node(accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
    tpu_v2.Node.pb(node).create_time.seconds = 10**15

    with pytest.raises(exceptions.InvalidArgument):
        await connect_cloud(emulator).client.create_node(parent=emulator.parent, node_id="n1", node=node)


@pytest.mark.parametrize(
    "method",
    [
        "google.cloud.tpu.v2.Tpu/CreateNode",
        "google.cloud.tpu.v2alpha1.Tpu/ListQueuedResources",
        "google.longrunning.Operations/GetOperation",
        "google.cloud.location.Locations/ListLocations",
    ],
)
@pytest.mark.parametrize("sent", [b"\xff\xff\xff\xff", b"\x0a\x7f", b"\x0a\x01\xff"], ids=repr)
async def test_what_is_no_protobuf_is_refused_over_grpc(silent: Any, method: str, sent: bytes) -> None:
    async with grpc.aio.insecure_channel(silent.grpc) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(f"/{method}")(sent)

    assert refused.value.code() == grpc.StatusCode.INTERNAL
    assert refused.value.details() == "Exception deserializing request!"
