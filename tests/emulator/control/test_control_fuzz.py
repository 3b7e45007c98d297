"""Whatever is sent to the control API, the answer is JSON, and the emulator lives on."""

from __future__ import annotations

from typing import Any

import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FIELDS: dict[str, list[str]] = {
    "clock": ["scale", "advance_s", "paused"],
    "faults": [
        "method",
        "kind",
        "target",
        "times",
        "nth",
        "probability",
        "seed",
        "code",
        "seconds",
        "limit",
        "applied",
    ],
    "project": ["api_enabled", "denied_permissions", "denied_locations", "allowlist", "creates_per_minute"],
    "quotas": ["quota_id", "zone", "region", "limit"],
    "capacity": ["zone", "family", "chips", "script", "seed"],
    "stockout": ["zone", "family", "chips", "for_s"],
    "preempt": ["node", "notice_s"],
    "maintenance": ["node", "kind", "in_s"],
    "reservations": ["reservation_id", "zone", "family", "chips"],
    "workers": ["node", "worker_id", "action", "other_worker_id", "factor", "ahead_s"],
    "links": ["node", "worker_id", "verb", "ms", "for_s"],
}
WORDS = [
    "us-central1-a",
    "us-central1",
    "v5e",
    "GetNode",
    "*",
    "error",
    "latency",
    "SCHEDULED",
    "clock",
    "close_ssh",
    "cut",
    "freeze",
    "stall",
    "n1",
]

simple = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
values = (
    st.sampled_from(WORDS) | st.integers(-1, 10) | simple | st.lists(simple | st.lists(simple, max_size=3), max_size=3)
)


@st.composite
def asked(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    path = draw(st.sampled_from(sorted(FIELDS)))
    names = st.sampled_from(FIELDS[path]) | st.text(max_size=5)
    return path, draw(st.dictionaries(names, values, max_size=5))


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(request_=asked())
def test_any_request_gets_an_answer(emulator: Any, request_: tuple[str, dict[str, Any]]) -> None:
    path, body = request_

    answer = requests.post(f"{emulator.rest}/emulator/v1/{path}", json=body, timeout=120)

    assert answer.status_code in (200, 400, 404), answer.text
    assert isinstance(answer.json(), dict)
    assert requests.get(f"{emulator.rest}/emulator/v1/state", timeout=120).status_code == 200
    assert "Traceback" not in emulator.log()
