"""Registration of the magics of a kernel on a node: ``%tpu``, ``%tpu_init``, ``%%worker(s)`` and others.

The docstrings of the methods are the help that ``%tpu?`` shows. The code of a magic is imported when it first runs.
"""

from __future__ import annotations

from typing import Any

from jupyter_tpu.notebook import slices
from jupyter_tpu.notebook.magics.completion import register_completion


def register_magics(shell: Any) -> None:
    """Add jupyter_tpu's magics to an IPython shell."""
    magics = Magics(shell)
    shell.register_magic_function(magics.tpu_init, magic_kind="line", magic_name="tpu_init")
    shell.register_magic_function(magics.tpu, magic_kind="line", magic_name="tpu")
    shell.register_magic_function(magics.tpu_on_preempt, magic_kind="line_cell", magic_name="tpu_on_preempt")
    shell.register_magic_function(magics.tpu_time, magic_kind="line_cell", magic_name="tpu_time")
    shell.register_magic_function(magics.worker, magic_kind="cell", magic_name="worker")
    shell.register_magic_function(magics.workers, magic_kind="cell", magic_name="workers")
    shell.input_transformers_cleanup.append(_without_worker_0)
    register_completion(shell)


def _without_worker_0(lines: list[str]) -> list[str]:
    """Remove the line ``%%worker 0`` from a cell: on a node with one worker, all cells run on worker 0."""
    if not lines or not lines[0].startswith("%%worker") or slices.current() is not None:
        return lines
    from jupyter_tpu.errors import BadInput
    from jupyter_tpu.notebook.slices.targets import parse_cell

    try:
        return parse_cell("".join(lines), 1).code.splitlines(keepends=True)
    except BadInput:  # the magic reports the reason
        return lines


class Magics:
    """The magics of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._checkpoint_hook: Any = None

    def tpu_init(self, line: str) -> None:
        """Start a framework on the chips of this node and check that it computes there.

        ``%tpu_init`` or ``%tpu_init auto`` chooses the imported framework or, if none is imported, the installed one.
        If there are several, specify one: ``jax``, ``torch_xla``, ``torch_tpu`` or ``tf``. The magic sets the variables
        that the framework needs, starts it on the chips of this worker, runs one operation on all of them, checks the
        versions and shows the result. Afterwards, use ``tpu.devices``, ``tpu.device``, ``tpu.mesh`` (JAX, PyTorch/XLA)
        and ``tpu.strategy`` (TensorFlow). Run the magic before anything else that uses the framework. If the chips
        can't be used, the cell fails with the reason; it never falls back to the CPU.
        """
        from jupyter_tpu.notebook.tpu_init.command import tpu_init

        try:
            tpu_init(line, self._shell)
        except KeyboardInterrupt as error:
            # IPython shows this instead of the framework's frames, which would fill the screen.
            vars(error)["_render_traceback_"] = lambda: ["\x1b[31mKeyboardInterrupt\x1b[39m"]
            raise

    def tpu(self, line: str) -> None:
        """Show this node on one screen, or run one of the commands below.

        ``%tpu`` shows the node, the load of its chips, the processes that use them, auto-stop, costs and grants, each
        with its age. ``%tpu --help`` lists the commands, ``%tpu COMMAND --help`` explains one. A command that only
        shows something waits at most 2 s for the agent; if the node is slow, set the kernel's environment variable
        ``JUPYTER_TPU_PATIENCE_S`` to more seconds.
        """
        from jupyter_tpu.notebook.magics.context import MagicContext
        from jupyter_tpu.notebook.magics.subcommands import run_line
        from jupyter_tpu.notebook.slices import showing_for_all

        with showing_for_all():
            self._shell.display_pub.publish(data=run_line(line, MagicContext()).to_mimebundle())

    def tpu_time(self, line: str, cell: str | None = None) -> Any:
        """Time a cell, with chip use and cost.

        ``%%tpu_time`` above a cell, or ``%tpu_time`` before a call, shows the wall-clock time, the share of it in which
        the chips computed (their duty cycle), and the cost at the last known price. Unknown values are shown with the
        reason.
        """
        __tracebackhide__ = True
        from jupyter_tpu.notebook.magics.timing import time_cell

        return time_cell(self._shell, line, cell)

    def tpu_on_preempt(self, line: str, cell: str | None = None) -> None:
        """Save your work when the node is about to stop.

        ``%%tpu_on_preempt`` stores the rest of its cell as a hook. The hook runs once when the cloud announces
        pre-emption or maintenance, and before auto-stop or a budget stops the node. It has up to 25 s, or less if the
        node stops sooner. It can interrupt a running training cell and access the cell's variables. If a save in the
        middle of a step would be inconsistent, let the hook set a flag and save between two steps in the cell.
        ``%tpu_on_preempt --show`` shows the hook, ``--test`` runs it now, ``--clear`` removes it.
        """
        from jupyter_tpu.notebook.preemption.magic import CheckpointHook

        if self._checkpoint_hook is None:
            self._checkpoint_hook = CheckpointHook(self._shell)
        text = self._checkpoint_hook.run_line(line, cell)
        self._shell.display_pub.publish(data={"text/plain": text})

    def worker(self, line: str, cell: str) -> None:
        """Run a cell on one worker of a slice.

        ``%%worker 0`` runs the rest of its cell only on worker 0. A collective operation, such as a sum over an array
        of all workers, would wait there forever.
        """
        self._refuse_workers("worker", line, cell)

    def workers(self, line: str, cell: str) -> None:
        """Run a cell on some workers of a slice.

        ``%%workers 0,2-3`` runs the rest of its cell only on these workers. A collective operation, such as a sum over
        an array of all workers, would wait there forever. When a worker fails, the other workers are interrupted after
        2 s; the kernel's environment variable ``JUPYTER_TPU_GRACE_S`` sets another time. When a worker is lost while
        worker 0 hangs, the kernel exits after 10 s; ``JUPYTER_TPU_LOST_WORKER_S`` sets another time, and 0 means never.
        """
        self._refuse_workers("workers", line, cell)

    def _refuse_workers(self, magic: str, line: str, cell: str) -> None:
        """Raise an error; if a valid line is the first of its cell, it is removed before the cell runs."""
        from jupyter_tpu.errors import BadInput, Text
        from jupyter_tpu.notebook.slices.targets import target_of

        if slices.current() is None:
            target_of(magic, line, cell, 1)
            return
        raise BadInput(
            Text("%%{magic} must be the first line of its cell.", magic=magic),
            hint="Move it above the other lines that begin with %%.",
        )
