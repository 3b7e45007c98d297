"""A widget that a page is told of in the worst moment: between its last look for the widget and when it gives up."""

from __future__ import annotations

import re

from open_notebooks import KERNEL
from playwright.sync_api import Page, WebSocketRoute

# A page looks every 100 ms. It stops to look, and at the next look 3 s more have passed.
STOP_LOOKING = """() => {
  const { setTimeout: later, Date: { now } } = window;
  const held = [];
  window.setTimeout = (act, ms, ...rest) => (ms === 100 ? held.push(act) : later(act, ms, ...rest));
  window.lookOnceMore = () => {
    window.setTimeout = later;
    Date.now = () => now() + 3000;
    held.forEach(act => act());
  };
  return new Promise(resolve => later(resolve, 500));
}"""
KNOWS_WIDGETS = f"() => [...{KERNEL}._comms.values()].some(comm => comm.targetName === 'jupyter.widget')"
SETTLED = "() => new Promise(resolve => setTimeout(resolve, 1000))"


class LateWidgets:
    """What kernels say to a page, from the states of their widgets on, is held back; made before the page is opened."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._held: list[tuple[WebSocketRoute, str | bytes]] = []
        self._is_holding = True
        page.route_web_socket(re.compile("/api/kernels/.*/channels"), self._connect)

    def come_at_the_last_moment(self) -> None:
        """A page that was so slow that it no longer looks hears of the widget in a better moment."""
        while not self._held:
            self._page.wait_for_timeout(20)
        self._page.evaluate(STOP_LOOKING)
        self._release()
        self._page.wait_for_function(KNOWS_WIDGETS)
        self._page.evaluate(SETTLED)
        self._page.evaluate("() => window.lookOnceMore()")

    def _release(self) -> None:
        self._is_holding = False
        for socket, message in self._held:
            socket.send(message)

    def _connect(self, socket: WebSocketRoute) -> None:
        socket.connect_to_server().on_message(lambda message: self._hear(socket, message))

    def _hear(self, socket: WebSocketRoute, message: str | bytes) -> None:
        text = message if isinstance(message, bytes) else message.encode()
        if self._is_holding and (self._held or b"update_states" in text):
            self._held.append((socket, message))
        else:
            socket.send(message)
