"""What Google's front end does for every REST API: partial responses, GETs that were sent as POST, batches."""

from __future__ import annotations

import re
from typing import Any

import aiohttp
import pytest

from jupyter_tpu.emulator.resources.errors import Refusal
from jupyter_tpu.emulator.transport.field_masks import masked, parse_mask

SKUS = "/v1/services/E000-3F24-B8AA/skus"
NODE = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite", "labels": {"a": "b"}}


@pytest.fixture
async def nodes(emulator: Any) -> str:
    """The path of a list with one node."""
    path = f"/v2/{emulator.parent}/nodes"
    status, _ = await asked(emulator, "POST", f"{path}?nodeId=n1", json=NODE)
    assert status == 200
    return path


async def asked(emulator: Any, verb: str, path: str, **more: Any) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.request(verb, emulator.rest + path, **more) as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize(
    ("mask", "left"),
    [
        ("a", {"a": 1}),
        ("b/c", {"b": [{"c": 2}, {"c": 4}]}),
        ("b(d),a", {"a": 1, "b": [{"d": 3}, {}]}),
        ("*/d", {"a": 1, "b": [{"d": 3}, {}]}),
        ("*", {"a": 1, "b": [{"c": 2, "d": 3}, {"c": 4}]}),
        ("none", {}),
    ],
)
def test_a_mask_leaves_what_it_names(mask: str, left: dict[str, Any]) -> None:
    assert masked({"a": 1, "b": [{"c": 2, "d": 3}, {"c": 4}]}, parse_mask(mask)) == left


@pytest.mark.parametrize("mask", ["a(", "a)", ",", "a,,b", "a//b", "a(b", "a b c(", "é", "/a", "a(" * 5000])
def test_what_is_no_mask_is_refused(mask: str) -> None:
    with pytest.raises(Refusal):
        parse_mask(mask)


@pytest.mark.shows("fields")
async def test_only_the_fields_that_were_asked_for_come(emulator: Any, nodes: str) -> None:
    assert await asked(emulator, "GET", f"{nodes}?fields=nodes(labels,acceleratorType)") == (
        200,
        {"nodes": [{"labels": {"a": "b"}, "acceleratorType": "v5litepod-8"}]},
    )
    status, skus = await asked(emulator, "GET", f"{SKUS}?fields=skus/skuId")
    assert status == 200
    assert {name for sku in skus["skus"] for name in sku} == {"skuId"}


async def test_a_mask_with_an_unknown_field_is_refused_before_anything_is_made(emulator: Any, nodes: str) -> None:
    for path in (f"{nodes}?fields=nodes/colour", f"{nodes}?fields=nodes(name"):
        status, answer = await asked(emulator, "GET", path)
        assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")
    status, _ = await asked(emulator, "POST", f"{nodes}?nodeId=n2&fields=colour", json=NODE)

    assert status == 400
    assert len((await asked(emulator, "GET", nodes))[1]["nodes"]) == 1


@pytest.mark.shows("method-override")
async def test_a_get_that_is_too_long_for_an_address_comes_as_a_post(emulator: Any, nodes: str) -> None:
    headers = {"X-HTTP-Method-Override": "GET", "Content-Type": "application/x-www-form-urlencoded"}
    body = f"pageSize=1&fields=nodes%2FacceleratorType&quotaUser={'u' * 3000}"

    assert await asked(emulator, "POST", nodes, headers=headers, data=body) == (
        200,
        {"nodes": [{"acceleratorType": "v5litepod-8"}]},
    )
    status, _ = await asked(emulator, "POST", SKUS, headers=headers, data="pageSize=1")
    assert status == 200
    headers["X-HTTP-Method-Override"] = "DELETE"
    status, operation = await asked(emulator, "POST", f"{nodes}/n1", headers=headers)
    assert (status, operation["metadata"]["verb"]) == (200, "delete")
    headers["X-HTTP-Method-Override"] = "BREW"
    assert (await asked(emulator, "POST", nodes, headers=headers))[0] == 400


@pytest.mark.shows("batch")
@pytest.mark.parametrize("path", ["/batch", "/batch/tpu/v2"])
async def test_a_batch_is_answered_call_by_call(emulator: Any, nodes: str, path: str) -> None:
    call = "Content-Type: application/http\nContent-Transfer-Encoding: binary\nContent-ID: <u-1 + {}>\n\n{}"
    body = '{"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite"}'
    headers = f"Content-Type: application/json\nMIME-Version: 1.0\ncontent-length: {len(body)}\nHost: tpu"
    calls = [
        call.format("1", f"GET {nodes}?fields=nodes/acceleratorType HTTP/1.1\n{headers}\n\n"),
        call.format("2", f"POST {nodes}?nodeId=n2 HTTP/1.1\n{headers}\n\n{body}"),
        call.format("3", f"GET {nodes}/none HTTP/1.1\n{headers}\n\n"),
    ]
    text = "".join(f"--limit\n{each}\n" for each in calls) + "--limit--"
    sent = {"Content-Type": 'multipart/mixed; boundary="limit"'}
    async with (
        aiohttp.ClientSession() as session,
        session.post(emulator.rest + path, data=text, headers=sent) as answer,
    ):
        said = await answer.text()
        kind = answer.headers["Content-Type"]

    assert kind.startswith("multipart/mixed; boundary=")
    assert re.findall(r"Content-ID: (.*)\r\n", said) == [f"<response-u-1 + {number}>" for number in (1, 2, 3)]
    assert re.findall(r"HTTP/1.1 (\d+)", said) == ["200", "200", "404"]
    assert len((await asked(emulator, "GET", nodes))[1]["nodes"]) == 2


async def test_what_is_no_batch_is_refused(emulator: Any) -> None:
    sent = {"Content-Type": "multipart/mixed; boundary=limit"}
    for body in ("", "--limit\nContent-Type: application/http\n\nnothing\n--limit--"):
        status, _ = await asked(emulator, "POST", "/batch", data=body, headers=sent)
        assert status == 400
