"""Record a cell's output in this process, while the output is also sent to the front end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jupyter_tpu.notebook.slices.collected import Collector, encodable


class Recorder:
    """A recorder of the output of an IPython shell in a kernel.

    Args:
        shell: the shell.
        is_shown_here: whether displays are also sent to a front end; otherwise they are only recorded.
        may_pass: a function that returns whether text may also be sent to the front end.
    """

    def __init__(self, shell: Any, *, is_shown_here: bool, may_pass: Callable[[str], bool] = lambda _: True) -> None:
        self.collector: Collector | None = None
        self._shell = shell
        self._is_shown_here = is_shown_here
        self._may_pass = may_pass
        self._wrapped: list[Any] = []

    def begin(self, collector: Collector) -> None:
        """Record into `collector` from now on."""
        # Wrap only now, because an engine replaces its streams after loading its extensions.
        if not self._wrapped:
            self._wrap_displays()
        for name in ("stdout", "stderr"):
            self._wrap_stream(name)
        self.collector = collector

    def end(self) -> None:
        """Stop recording."""
        self.collector = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing within this context."""
        collector, self.collector = self.collector, None
        try:
            yield
        finally:
            self.collector = collector

    def _wrap_stream(self, name: str) -> None:
        stream = getattr(sys, name, None)
        # Record no object that a cell has put there: it may pass its text on to the kernel's own stream.
        is_own = type(stream).__module__.startswith("ipykernel.")
        if stream is None or not is_own or any(stream is each for each in self._wrapped):
            return
        self._wrapped.append(stream)
        write = stream.write

        def recorded(text: str) -> Any:
            collector = self.collector
            if collector is not None and isinstance(text, str):
                text = encodable(text)  # otherwise the stream's thread would fail, and delay the messages after it
                collector.write(name, text)
                if not self._may_pass(text):
                    return len(text)
            return write(text)

        stream.write = recorded

    def _wrap_displays(self) -> None:
        publisher, hook = self._shell.display_pub, self._shell.displayhook
        self._wrapped += [publisher, hook]
        publish, write_format_data, clear_output = publisher.publish, hook.write_format_data, publisher.clear_output

        def published(data: Any, *args: Any, **options: Any) -> None:
            collector = self.collector
            if collector is not None:
                display_id = (options.get("transient") or {}).get("display_id")
                collector.show(data, display_id, is_update=bool(options.get("update")))
            if collector is None or self._is_shown_here:
                publish(data, *args, **options)

        def formatted(data: Any, metadata: Any = None) -> None:
            collector = self.collector
            if collector is not None:
                collector.show(data)
            if collector is None or self._is_shown_here:
                write_format_data(data, metadata)

        def cleared(wait: bool = False) -> None:
            if self.collector is not None:
                self.collector.clear(wait=wait)
            clear_output(wait)

        publisher.publish, hook.write_format_data, publisher.clear_output = published, formatted, cleared
