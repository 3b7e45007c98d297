"""Watch the metadata server for a pre-emption or host maintenance by long polling.

Outside Google Cloud, there is no such server and no polling.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from jupyter_tpu.agent.preemption.notices import MAINTENANCE, PREEMPTED

log = logging.getLogger(__name__)

_HOST_VARIABLE = "GCE_METADATA_HOST"
_ADDRESS = "169.254.169.254"
_MACHINE = Path("/sys/class/dmi/id/product_name")
# The server responds when the value changes or after this time (`timeout_sec`). It is short enough to notice a server
# that has crashed.
_ANSWER_WITHIN_S = 300
# Extra time for the response before the connection counts as dead.
_SPARE_S = 30.0
# Delay before a retry, doubled each time, so that a missing server costs little.
_SHORTEST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0
# No ETag is known yet, so the server responds at once.
_NOTHING_KNOWN = "0"

_ANNOUNCEMENTS = (
    ("instance/preempted", "TRUE", PREEMPTED, "Google Cloud is pre-empting this node"),
    ("instance/maintenance-event", "TERMINATE", MAINTENANCE, "Google Cloud ends this node for host maintenance"),
)


class NoticeWatch:
    """Watches the metadata server for notices of a pre-emption or host maintenance.

    Args:
        environ: can specify another metadata server.
        announce: called with the kind and reason of each notice, including a notice issued before the agent started.
    """

    def __init__(self, environ: Mapping[str, str], announce: Callable[[str, str], object]) -> None:
        self._host = environ.get(_HOST_VARIABLE) or (_ADDRESS if _is_at_google() else "")
        self._announce = announce

    async def run(self) -> None:
        """Watch the metadata server until cancelled."""
        if self._host:
            await asyncio.gather(*(self._watch(*announcement) for announcement in _ANNOUNCEMENTS))

    async def _watch(self, path: str, expected: str, kind: str, reason: str) -> None:
        known, pause_s = _NOTHING_KNOWN, _SHORTEST_PAUSE_S
        while True:
            try:
                value, etag = await asyncio.wait_for(self._wait_for_change(path, known), _ANSWER_WITHIN_S + _SPARE_S)
            except (OSError, ValueError, asyncio.TimeoutError, TimeoutError) as error:
                log.info("the metadata server did not respond for %s: %s", path, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            if etag != known and expected in value:
                log.warning("notice of the metadata server: %s is %s", path, value)
                self._announce(kind, reason)
            if etag == known:  # unchanged after a timeout, or because the server ignores wait_for_change
                await asyncio.sleep(_SHORTEST_PAUSE_S)
            known, pause_s = etag, _SHORTEST_PAUSE_S

    async def _wait_for_change(self, path: str, known: str) -> tuple[str, str]:
        """Wait some minutes for the value's ETag to differ from `known`; return the value and its ETag.

        Raises:
            OSError: the server doesn't respond.
            ValueError: the response is invalid.
        """
        host, _, port = self._host.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port or 80))
        query = f"wait_for_change=true&last_etag={known}&timeout_sec={_ANSWER_WITHIN_S}"
        try:
            writer.write(
                f"GET /computeMetadata/v1/{path}?{query} HTTP/1.0\r\n"
                f"Host: {self._host}\r\nMetadata-Flavor: Google\r\n\r\n".encode()
            )
            return parse_response(await reader.read())
        finally:
            writer.close()


def parse_response(answer: bytes) -> tuple[str, str]:
    """Return the body and the ETag of an HTTP response; raise ValueError for any status other than 200."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode(errors="replace").split("\r\n")
    if first.split()[1:2] != ["200"]:
        raise ValueError(f"its response is {first[:100]!r}")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return body.decode(errors="replace").strip(), headers.get("etag", _NOTHING_KNOWN)


def _is_at_google() -> bool:
    try:
        return "Google" in _MACHINE.read_text(errors="replace")
    except OSError:
        return False
