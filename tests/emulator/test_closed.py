"""Who may not use the emulator: web pages, and other users of this machine."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from jupyter_tpu.emulator.peers import is_allowed

OURS, THEIRS = 1000, 1001
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 1 1
   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  {uid}        0 2 1
"""


@pytest.mark.parametrize(("uid", "is_let_in"), [(OURS, True), (0, True), (THEIRS, False)])
def test_only_connections_of_this_user_and_root_reach_a_worker(uid: int, is_let_in: bool) -> None:
    lines = TABLE.format(uid=uid).splitlines()

    assert is_allowed(lines, peer_port=0xC350, our_port=0x1F90, users={OURS, 0}) == is_let_in


def test_a_connection_whose_other_end_is_not_on_this_machine_is_refused() -> None:
    lines = TABLE.splitlines()[:2]

    assert not is_allowed(lines, peer_port=0xC350, our_port=0x1F90, users={OURS, 0})


def test_where_the_system_shows_no_connections_nobody_is_refused() -> None:
    assert is_allowed([], peer_port=1, our_port=2, users={OURS})


@pytest.mark.parametrize("headers", [{"Origin": "https://example.com"}, {"Host": "evil.example.com:80"}])
@pytest.mark.parametrize("path", ["/emulator/v1/info", "/v2/projects/demo-project/locations"])
async def test_web_pages_are_refused(emulator: Any, path: str, headers: dict[str, str]) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{emulator.rest}{path}", headers=headers) as answer:
        assert answer.status == 403
