"""What no client should send is refused in words: never a traceback, never a fault or limit that breaks later calls."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

NOT_JSON = [b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b'{"a":' + b"9" * 5_000 + b"}", b"{", b'"text"', b"[]"]
NODES = "/v2/projects/demo-project/locations/us-central1-a/nodes"
CONTROL = "/emulator/v1"


@pytest.fixture
def silent(emulator: Any) -> Iterator[Any]:
    """An emulator that logs nothing of what it is sent."""
    before = emulator.log()
    yield emulator
    assert emulator.log() == before


def answer_to(emulator: Any, path: str, body: bytes | dict[str, Any]) -> tuple[int, dict[str, Any]]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(emulator.rest + path, data=data, headers={"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as answer:
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
        urllib.request.urlopen(emulator.rest + NODES, timeout=30)
    refused.value.close()
