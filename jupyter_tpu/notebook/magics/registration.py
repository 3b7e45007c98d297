"""Registration of the magics of a kernel on a node: ``%tpu``, ``%tpu_init``, ``%%tpu_time``, ``%%tpu_on_preempt``.

The docstrings of the methods are the help that ``%tpu?`` shows. What a magic needs is imported when it first runs.
"""

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
        """Start a framework on the chips of this node, and prove that it computes there.

        ``%tpu_init`` or ``%tpu_init auto`` chooses the framework that is imported, else the one that is installed; with
        several, name it: ``jax``, ``torch_xla``, ``torch_tpu`` or ``tf``. It sets the variables that the framework
        needs, starts it on the chips of this worker, runs one operation over them, checks the versions and shows the
        result. Afterwards use ``tpu.devices``, ``tpu.device``, ``tpu.mesh`` (JAX, PyTorch/XLA) and ``tpu.strategy``
        (TensorFlow). Run it before anything else that uses the framework. If the chips cannot be used, the cell fails
        with the reason; it never falls back to the CPU.
        """
        from jupyter_tpu.notebook.tpu_init.command import tpu_init

        tpu_init(line, self._shell)

    def tpu(self, line: str) -> None:
        """Show this node on one screen, or run one of the commands below.

        ``%tpu`` shows the node, the load of its chips, the processes that use them, auto-stop, costs and grants, each
        with its age. ``%tpu --help`` lists the commands, ``%tpu COMMAND --help`` explains one. A command that only
        shows something waits 2 s for the agent at most; set the variable ``JUPYTER_TPU_PATIENCE_S`` of the kernel to
        more seconds if the node is slow.
        """
        from jupyter_tpu.notebook.magics.context import MagicContext
        from jupyter_tpu.notebook.magics.subcommands import run_line

        self._shell.display_pub.publish(data=run_line(line, MagicContext()).to_mimebundle())

    def tpu_time(self, line: str, cell: str | None = None) -> Any:
        """Time a cell, with the use of the chips and the cost.

        ``%%tpu_time`` above a cell, or ``%tpu_time`` and a call: shows the wall-clock time, the share of it in which
        the chips computed (by their duty cycle), and the cost by the last known price. Unknown values come with the
        reason.
        """
        __tracebackhide__ = True
        from jupyter_tpu.notebook.magics.timing import time_cell

        return time_cell(self._shell, line, cell)

    def tpu_on_preempt(self, line: str, cell: str | None = None) -> None:
        """Save your work when the node is about to end.

        ``%%tpu_on_preempt`` stores the rest of its cell as a hook. The hook runs once when the cloud announces
        pre-emption or maintenance, and before auto-stop or a budget ends the node; it has up to 25 s, less if the end
        is nearer. It runs in the middle of a training cell and sees its variables. If a save in the middle of a step
        would be inconsistent, let the hook set a flag and let the cell save between two steps. ``%tpu_on_preempt
        --show`` shows the hook, ``--test`` runs it now, ``--clear`` removes it.
        """
        from jupyter_tpu.notebook.preemption.magic import CheckpointHook

        if self._checkpoint_hook is None:
            self._checkpoint_hook = CheckpointHook(self._shell)
        text = self._checkpoint_hook.run_line(line, cell)
        self._shell.display_pub.publish(data={"text/plain": text})
