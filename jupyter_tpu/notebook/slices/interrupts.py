"""Hold back SIGINT in a cell of a slice, except while the user's code is running.

A KeyboardInterrupt in the slice's or ipykernel's own code would stop the handling of the cell, which would then never
get a reply. While IPython prepares a cell, it ignores a KeyboardInterrupt, so this worker would continue after the
others were interrupted.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupts:
    """SIGINT in the main thread of a kernel, from the start of a cell to its reply.

    Args:
        shell: the kernel's IPython shell.

    Attributes:
        have_arrived: whether SIGINT was held back in the current cell.
    """

    def __init__(self, shell: Any) -> None:
        self.have_arrived = False
        self._users_handler: Any = signal.default_int_handler
        self._kernel = shell.kernel
        self._run_code = shell.run_code
        shell.run_code = self._run_with_interrupts
        self._kernel.pre_handler_hook = self._before_request

    def _before_request(self) -> None:
        """Set the SIGINT handler for a request; ipykernel's own method would let SIGINT interrupt any code."""
        self.have_arrived = False
        self._users_handler = signal.default_int_handler
        is_cell = self._kernel.get_parent("shell")["header"]["msg_type"] == "execute_request"
        handler: Any = self._note if is_cell else signal.default_int_handler
        self._kernel.saved_sigint_handler = signal.signal(signal.SIGINT, handler)

    async def _run_with_interrupts(self, *args: Any, **options: Any) -> Any:
        with self._passing():
            return await self._run_code(*args, **options)

    @contextmanager
    def _passing(self) -> Iterator[None]:
        """Let SIGINT interrupt the code in this context, even if it has already arrived."""
        if signal.getsignal(signal.SIGINT) != self._note:  # a subshell, or a cell with `await`, which is cancelled
            yield
            return
        signal.signal(signal.SIGINT, self._users_handler)
        try:
            if self.have_arrived:
                self.have_arrived = False
                signal.raise_signal(signal.SIGINT)
            yield
        finally:
            try:
                self._hold()
            finally:  # another interrupt may have arrived just before
                self._hold()

    def _hold(self) -> None:
        """Hold back SIGINT. A handler that the cell has set is used again for the cell's next statement."""
        before = signal.signal(signal.SIGINT, self._note)
        if before != self._note:
            self._users_handler = before

    def _note(self, *_: object) -> None:
        self.have_arrived = True
