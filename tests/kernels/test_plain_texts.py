"""What a worker or a cloud says of itself comes in as harmless text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from jupyter_tpu.errors import AgentBroken, CloudRefused, error_from_json
from jupyter_tpu.kernels.agents.agent_calls import kernels_of
from jupyter_tpu.kernels.environments.environment import make_environment
from jupyter_tpu.kernels.environments.saved_environments import SavedEnvironment
from jupyter_tpu.kernels.messages.fanout import RecordFanout
from jupyter_tpu.kernels.registry.exit_status import stderr_of
from jupyter_tpu.kernels.remote_kernel import RemoteKernel
from jupyter_tpu.models import NodeName

# a terminal's escape, a bell, an 8-bit escape, and what turns text around
HOSTILE = "\x1b]0;mine\x07\x9b2J\u202egnp.exe\u2066"
CLEAN = "]0;mine2Jgnp.exe"
LONG = 1_000_000 * "x"
NODE = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")


def test_the_raw_words_of_an_error_are_plain_whenever_they_come() -> None:
    error = CloudRefused("The cloud said no.", raw=HOSTILE)
    assert error.raw == CLEAN
    error.raw = f"{HOSTILE}\n{HOSTILE}"
    assert error.raw == error.to_json()["raw"] == f"{CLEAN}\n{CLEAN}"
    error.raw = LONG
    told = error_from_json({"code": "kernel_failed", **dict.fromkeys(("message", "exists", "hint", "raw"), LONG)})
    for each in (error, told):
        assert len(each.raw) <= 20_000
        assert len(str(each)) <= 60_002


def test_the_reason_of_a_kernels_end_is_plain() -> None:
    told: list[Mapping[str, Any]] = []
    for reason in (HOSTILE, LONG, stderr_of({"stderr": [LONG, HOSTILE]})):
        kernel = RemoteKernel(None, RecordFanout(lambda *_: None), told.append)  # type: ignore[arg-type]  # it is not used
        kernel.lose(reason)
        assert not set(kernel.reason) & set(HOSTILE) - set(CLEAN)
        assert len(kernel.reason) <= 20_000
    assert kernel.reason.endswith(CLEAN), "what was said last says most"


@pytest.mark.parametrize("rows", [None, "kernels", {}, [7], [{"kernel_id": 7}], [{}]])
def test_an_invalid_list_of_kernels_is_an_error_of_its_worker_alone(rows: Any) -> None:
    with pytest.raises(AgentBroken, match="The list of kernels on my-node is invalid"):
        kernels_of({"kernels": rows}, NODE)


@pytest.mark.parametrize(("started", "shown"), [(1e9, 1e9), ("now", None), (1e300, None), (-1.0, None), (None, None)])
def test_a_kernels_start_that_is_no_time_is_left_out(started: Any, shown: float | None) -> None:
    (kernel,) = kernels_of({"kernels": [{"kernel_id": "a", "started_at": started}]}, NODE)
    assert kernel == {"kernel_id": "a", "started_at": shown}


async def test_what_an_agent_says_of_an_environment_is_plain() -> None:
    hostile = {"framework": "jax", "version": HOSTILE, "requirements": [HOSTILE], "pins": [LONG], "added": [HOSTILE]}

    async def call(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return {**hostile, "title": HOSTILE, "is_ready": True, "notes": [HOSTILE]}

    made = await make_environment(call, {"framework": "jax"}, lambda _: None)
    assert (made["title"], made["notes"], made["is_ready"]) == (CLEAN, [CLEAN], True)
    known = SavedEnvironment.from_json(hostile)
    assert (known.version, known.requirements, known.added) == (CLEAN, (CLEAN,), (CLEAN,))
    assert len(known.pins[0]) <= 2000
