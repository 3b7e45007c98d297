"""What a metadata server's answers mean, and that none of its notices is missed."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from jupyter_tpu.agent.preemption.notice_watch import NoticeWatch, parse_response

QUESTION = re.compile(r"GET /computeMetadata/v1/instance/([a-z-]+)\?wait_for_change=true&last_etag=(\w+)")


class MetadataServer:
    """Answers as the documentation says, with the value itself as its mark; the first who asks is cut off."""

    def __init__(self) -> None:
        self.values = {"preempted": "FALSE", "maintenance-event": "NONE"}
        self.waiting: set[str] = set()
        self._served: list[asyncio.Task[Any]] = []
        self._news = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._served += [task for task in [asyncio.current_task()] if task]
        try:
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            if len(self._served) > 1:
                found = QUESTION.match(request)
                assert found
                assert "Metadata-Flavor: Google" in request
                writer.write(await self._answer(found[1], found[2]))
        finally:
            writer.close()
            await writer.wait_closed()

    async def close(self) -> None:
        for task in self._served:
            task.cancel()
        await asyncio.gather(*self._served, return_exceptions=True)

    async def _answer(self, name: str, known: str) -> bytes:
        async with self._news:
            if known == self.values[name]:
                self.waiting.add(name)
                self._news.notify_all()
            await self._news.wait_for(lambda: self.values[name] != known)
            self.waiting.discard(name)
            return f"HTTP/1.0 200 OK\r\nETag: {self.values[name]}\r\n\r\n{self.values[name]}".encode()

    async def change(self, name: str, value: str) -> None:
        """Once somebody waits for it."""
        async with self._news:
            await self._news.wait_for(lambda: name in self.waiting)
            self.values[name] = value
            self._news.notify_all()


async def test_each_notice_is_announced_once() -> None:
    told: asyncio.Queue[Any] = asyncio.Queue()
    metadata = MetadataServer()
    server = await asyncio.start_server(metadata.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    watch = NoticeWatch({"GCE_METADATA_HOST": f"{host}:{port}"}, lambda kind, reason: told.put_nowait((kind, reason)))
    watching = asyncio.create_task(watch.run())
    async with asyncio.timeout(60):
        await metadata.change("maintenance-event", "MIGRATE_ON_HOST_MAINTENANCE")
        await metadata.change("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE")
        assert await told.get() == ("maintenance", "Google Cloud ends this node for host maintenance")
        await metadata.change("maintenance-event", "NONE")
        await metadata.change("preempted", "TRUE")
        assert await told.get() == ("preempted", "Google Cloud is pre-empting this node")
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    server.close()
    await metadata.close()
    assert told.empty()


def test_an_answer_is_a_value_and_the_mark_it_is_known_by() -> None:
    answer = b"HTTP/1.0 200 OK\r\nETag: 1f\r\nContent-Type: application/text\r\n\r\nTRUE\n"
    assert parse_response(answer) == ("TRUE", "1f")


@pytest.mark.parametrize(
    "answer", [b"", b"\xff\x00", b"HTTP/1.0 404 Not Found\r\n\r\nTRUE", b"200\r\n\r\nTRUE"], ids=str
)
def test_any_other_answer_tells_nothing(answer: bytes) -> None:
    with pytest.raises(ValueError, match="its response is"):
        parse_response(answer)
