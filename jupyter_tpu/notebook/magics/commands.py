"""The magics of jupyter_tpu."""

from __future__ import annotations

from typing import Any

from jupyter_tpu.notebook.magics.completion import register_completion


def register_magics(shell: Any) -> None:
    """Add our magics to an IPython shell."""
    magics = Magics(shell)
    shell.register_magic_function(magics.tpu_init, magic_kind="line", magic_name="tpu_init")
    shell.register_magic_function(magics.tpu, magic_kind="line", magic_name="tpu")
    shell.register_magic_function(magics.tpu_on_preempt, magic_kind="line_cell", magic_name="tpu_on_preempt")
    shell.register_magic_function(magics.tpu_time, magic_kind="line_cell", magic_name="tpu_time")
    register_completion(shell)


class Magics:
    """The magics of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._checkpoint_hook: Any = None

    def tpu_init(self, line: str) -> None:
        """Make the accelerator of this node usable, and prove it.

        ``%tpu_init``, ``%tpu_init auto``, or with ``jax``, ``torch_xla``, ``torch_tpu`` or ``tf`` instead: sets the
        variables that the framework needs, starts it on the chips of this worker, runs one operation over them, checks
        the versions and shows what it found. ``auto`` takes the framework that is imported, else the one that is
        installed; of several it asks for one. Afterwards ``tpu.devices``, ``tpu.device``, ``tpu.mesh`` (JAX,
        PyTorch/XLA) and ``tpu.strategy`` (TensorFlow) are there. Run it before anything else that uses the framework.
        When the accelerator cannot be used the cell fails with the reason; it never falls back to the CPU.
        """
        from jupyter_tpu.notebook.tpu_init.command import tpu_init

        tpu_init(line, self._shell)

    def tpu(self, line: str) -> None:
        """See this node on one screen, and what can be done with it.

        ``%tpu`` shows the node, the load of its chips, who holds them, when it ends by itself, what it costs and the
        grants, each with its age. A word more does one thing, see below; ``%tpu --help`` lists the words, and
        ``%tpu WORD --help`` says what each takes. Nothing is waited for longer than 2 s, but what was agreed to;
        the variable ``JUPYTER_TPU_PATIENCE_S`` of the kernel makes that longer where a node is slow.
        """
        from jupyter_tpu.notebook.magics.table import perform
        from jupyter_tpu.notebook.magics.words import MagicContext

        self._shell.display_pub.publish(data=perform(line, MagicContext()).to_mimebundle())

    def tpu_time(self, line: str, cell: str | None = None) -> Any:
        """Time a cell, and say what it cost.

        ``%%tpu_time`` above a cell, or ``%tpu_time`` and a call: shows the wall clock, for how much of that the chips
        computed by their duty cycle, and the cost by the price that was told. What is not known says why.
        """
        __tracebackhide__ = True
        from jupyter_tpu.notebook.magics.timing import time_cell

        return time_cell(self._shell, line, cell)

    def tpu_on_preempt(self, line: str, cell: str | None = None) -> None:
        """Save your work when the node is about to be taken away.

        ``%%tpu_on_preempt`` remembers the rest of its cell, and runs it once when the cloud gives notice of pre-emption
        or maintenance, and before a brake or a budget ends the node; it has up to 25 s, less where the end is nearer.
        It runs in the midst of a cell that trains, and sees its variables; code that must not be interrupted half-way
        belongs into a step that the hook can ask for. ``%tpu_on_preempt --show`` shows what is remembered, ``--test``
        runs it now, ``--clear`` forgets it.
        """
        from jupyter_tpu.notebook.preemption.magic import CheckpointHook

        if self._checkpoint_hook is None:
            self._checkpoint_hook = CheckpointHook(self._shell)
        told = self._checkpoint_hook.act(line, cell)
        self._shell.display_pub.publish(data={"text/plain": told})
