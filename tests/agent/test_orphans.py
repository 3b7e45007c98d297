"""When a kernel is ended that lives for one launcher only."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from jupyter_tpu.agent.autostop.orphans import Orphans

LIMIT_S = 100.0


@dataclass
class OwnedKernel:
    kernel_id: str = "k"
    ends_alone_after_s: float | None = LIMIT_S
    is_alive: bool = True
    is_executing: bool = False
    ended: list[str] = field(default_factory=list)

    def end_because(self, reason: str) -> None:
        self.ended.append(reason)


def is_ended(kernel: OwnedKernel, *, has_client: bool = False, seconds: float = LIMIT_S) -> bool:
    orphans = Orphans(lambda: [kernel], lambda _: has_client)
    orphans.end_expired(1.0)
    orphans.end_expired(1.0 + seconds)
    return bool(kernel.ended)


def test_an_idle_kernel_is_ended_when_its_launcher_was_gone_for_long_enough() -> None:
    kernel = OwnedKernel()
    assert is_ended(kernel)
    assert "without its launcher for 100 s" in kernel.ended[0]


@pytest.mark.parametrize(
    "kernel", [OwnedKernel(ends_alone_after_s=None), OwnedKernel(is_executing=True), OwnedKernel(is_alive=False)]
)
def test_a_kernel_of_a_server_or_at_work_is_never_ended(kernel: OwnedKernel) -> None:
    assert not is_ended(kernel, seconds=10**9)


def test_a_kernel_whose_launcher_is_there_or_gone_for_a_moment_is_not_ended() -> None:
    assert not is_ended(OwnedKernel(), has_client=True)
    assert not is_ended(OwnedKernel(), seconds=LIMIT_S - 1)


def test_a_cell_that_ran_meanwhile_begins_the_time_anew() -> None:
    kernel = OwnedKernel()
    orphans = Orphans(lambda: [kernel], lambda _: False)
    for now, kernel.is_executing in ((0.0, False), (90.0, True), (110.0, False), (209.0, False)):
        orphans.end_expired(now)
    assert not kernel.ended
    orphans.end_expired(210.0)
    assert kernel.ended
