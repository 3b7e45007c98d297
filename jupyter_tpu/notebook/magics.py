"""The magics of jupyter_tpu."""

from __future__ import annotations

from typing import Any


def register_magics(shell: Any) -> None:
    """Add our magics to an IPython shell."""
    magics = Magics(shell)
    shell.register_magic_function(magics.tpu_init, magic_kind="line", magic_name="tpu_init")
    shell.register_magic_function(magics.tpu, magic_kind="line", magic_name="tpu")
    shell.register_magic_function(magics.tpu_on_preempt, magic_kind="line_cell", magic_name="tpu_on_preempt")


class Magics:
    """The magics of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._checkpoint_hook: Any = None

    def tpu_init(self, line: str) -> None:
        """Make the accelerator of this node usable, and prove it.

        ``%tpu_init``, ``%tpu_init auto`` or ``%tpu_init jax``: starts JAX on all devices of this worker, runs one
        operation over them, checks the versions and shows what it found. Run it before anything else that uses JAX.
        When the accelerator cannot be used the cell fails with the reason; it never falls back to the CPU.
        """
        from jupyter_tpu.notebook.tpu_init import tpu_init

        tpu_init(line, self._shell)

    def tpu(self, line: str) -> None:
        """Keep this node, or see when it ends by itself.

        ``%tpu keep``, ``%tpu keep 3h``, ``%tpu keep until 18:00`` (the node's clock) or ``%tpu keep while-busy`` hold
        the idle rule off and the end of the session out; ``%tpu keep off`` takes that back. ``%tpu idle`` shows what
        is active here, and when the node ends.
        """
        from jupyter_tpu.notebook.agent_call import ask_agent
        from jupyter_tpu.notebook.keep import text_now

        self._shell.display_pub.publish(data={"text/plain": text_now(line, ask_agent)})

    def tpu_on_preempt(self, line: str, cell: str | None = None) -> None:
        """Save your work when the node is about to be taken away.

        ``%%tpu_on_preempt`` remembers the rest of its cell, and runs it once when the cloud gives notice of pre-emption
        or maintenance, and before a brake or a budget ends the node; it has up to 25 s, less where the end is nearer.
        It runs in the midst of a cell that trains, and sees its variables; code that must not be interrupted half-way
        belongs into a step that the hook can ask for. ``%tpu_on_preempt --show`` shows what is remembered, ``--test``
        runs it now, ``--clear`` forgets it.
        """
        from jupyter_tpu.notebook.preempt import CheckpointHook

        if self._checkpoint_hook is None:
            self._checkpoint_hook = CheckpointHook(self._shell)
        told = self._checkpoint_hook.act(line, cell)
        self._shell.display_pub.publish(data={"text/plain": told})
