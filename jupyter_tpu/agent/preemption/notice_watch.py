"""Hears from the metadata server that this machine will be taken away: it answers when there is something to tell.

Nothing is asked where no such server is to be expected.
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
_ANSWER_WITHIN_S = 300
_SPARE_S = 30.0
_SHORTEST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0
_NOTHING_KNOWN = "0"

_ANNOUNCEMENTS = (
    ("instance/preempted", "TRUE", PREEMPTED, "the cloud takes this node away: pre-emption"),
    ("instance/maintenance-event", "TERMINATE", MAINTENANCE, "the cloud ends this node for maintenance of its host"),
)


class NoticeWatch:
    """Runs until cancelled; `announce(kind, reason)` is called for each notice, at once for one given before."""

    def __init__(self, environ: Mapping[str, str], announce: Callable[[str, str], object]) -> None:
        self._host = environ.get(_HOST_VARIABLE) or (_ADDRESS if _is_at_google() else "")
        self._announce = announce

    async def run(self) -> None:
        if self._host:
            await asyncio.gather(*(self._watch(*announcement) for announcement in _ANNOUNCEMENTS))

    async def _watch(self, path: str, word: str, kind: str, reason: str) -> None:
        known, pause_s = _NOTHING_KNOWN, _SHORTEST_PAUSE_S
        while True:
            try:
                value, etag = await asyncio.wait_for(self._told(path, known), _ANSWER_WITHIN_S + _SPARE_S)
            except (OSError, ValueError, asyncio.TimeoutError, TimeoutError) as error:
                log.info("the metadata server does not tell %s: %s", path, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            if etag != known and word in value:
                log.warning("notice of the metadata server: %s is %s", path, value)
                self._announce(kind, reason)
            if etag == known:  # also of a server that does not wait
                await asyncio.sleep(_SHORTEST_PAUSE_S)
            known, pause_s = etag, _SHORTEST_PAUSE_S

    async def _told(self, path: str, known: str) -> tuple[str, str]:
        """The value once it is another than the known one, or after a while; and the mark it is known by.

        Raises:
            OSError: nobody answers.
            ValueError: the answer tells nothing.
        """
        host, _, port = self._host.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port or 80))
        query = f"wait_for_change=true&last_etag={known}&timeout_sec={_ANSWER_WITHIN_S}"
        try:
            writer.write(
                f"GET /computeMetadata/v1/{path}?{query} HTTP/1.0\r\n"
                f"Host: {self._host}\r\nMetadata-Flavor: Google\r\n\r\n".encode()
            )
            return read_answer(await reader.read())
        finally:
            writer.close()


def read_answer(answer: bytes) -> tuple[str, str]:
    """Body and ETag of an HTTP answer; raises ValueError for any that is not 200."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode(errors="replace").split("\r\n")
    if first.split()[1:2] != ["200"]:
        raise ValueError(f"it answers {first[:100]!r}")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return body.decode(errors="replace").strip(), headers.get("etag", _NOTHING_KNOWN)


def _is_at_google() -> bool:
    try:
        return "Google" in _MACHINE.read_text(errors="replace")
    except OSError:
        return False
