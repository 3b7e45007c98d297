"""The folder of wheels as an index on this machine's network, which can be out of reach, or make somebody wait."""

from __future__ import annotations

import asyncio
import html
import threading
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote


class TinyIndex:
    """Serves a folder that `write_index` has written, until it is closed.

    Attributes:
        variables: with which uv knows this index alone, and keeps nothing of it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held = ""
        self._somebody_waits = threading.Event()
        self._go_on = threading.Event()
        self._port = 0
        self.come_back()
        (folder / "none").mkdir()
        self.variables = {
            "UV_FIND_LINKS": f"http://127.0.0.1:{self._port}/",
            "UV_DEFAULT_INDEX": (folder / "none").as_uri(),
            "UV_NO_CACHE": "1",
            "UV_HTTP_RETRIES": "0",
            "UV_HTTP_TIMEOUT": "300",
            "NO_PROXY": "127.0.0.1",
        }

    def go_away(self) -> None:
        """Nobody answers on its port any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def come_back(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), partial(_Handler, self))
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def hold_up(self, name: str) -> None:
        """Make requests for files whose names start like this wait until `let_go`."""
        self._somebody_waits.clear()
        self._go_on.clear()
        self.held = name

    async def until_somebody_waits(self) -> None:
        assert await asyncio.to_thread(self._somebody_waits.wait, 120)

    def let_go(self) -> None:
        self.held = ""
        self._go_on.set()

    def is_asked_for(self, name: str) -> None:
        """Called by each request, in a thread of its own."""
        if self.held and name.startswith(self.held):
            self._somebody_waits.set()
            self._go_on.wait()

    def close(self) -> None:
        self.let_go()
        self.go_away()


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, index: TinyIndex, *arguments: Any) -> None:
        self._index = index
        with suppress(ConnectionError):  # the client may have been killed
            super().__init__(*arguments, directory=str(index.folder))

    def do_GET(self) -> None:
        self._index.is_asked_for(unquote(self.path.lstrip("/")))
        super().do_GET()

    def list_directory(self, path: Any) -> None:
        names = (html.escape(each.name, quote=True) for each in sorted(Path(path).glob("*.whl")))
        page = "".join(f'<a href="{name}">{name}</a>\n' for name in names).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass
