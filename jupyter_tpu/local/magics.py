"""The magics ``%tpu`` and ``%%tpu`` of a kernel on the user's own machine."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.cloud.settings import settings_from_environment
from jupyter_tpu.commands.grammar import parse_words
from jupyter_tpu.errors import BadInput, KernelFailed, Text
from jupyter_tpu.i18n import _
from jupyter_tpu.journal.paths import trial_endpoint
from jupyter_tpu.kernels.kernelspecs import InstalledSpec
from jupyter_tpu.local.attached import AttachedNodes
from jupyter_tpu.local.cell_output import CellFailed, OutputDisplay
from jupyter_tpu.local.command_runner import run_command
from jupyter_tpu.local.commands import ATTACH, CELL, DETACH
from jupyter_tpu.local.remote import RemoteKernel
from jupyter_tpu.local.variables import fetch
from jupyter_tpu.notebook.magics.completion import register_completion
from jupyter_tpu.notebook.magics.subcommands import help_of

_COMMANDS = {each.name: each for each in (ATTACH, DETACH)}


def register_magics(shell: Any) -> None:
    """Add the magics to an IPython shell."""
    magics = LocalMagics(shell)
    shell.register_magic_function(magics.tpu, magic_kind="line_cell", magic_name="tpu")
    register_completion(shell, _words_after)


def _words_after(line: str) -> list[str]:
    """Return the completions of a ``%tpu`` line."""
    from jupyter_tpu.local.command_completion import completions

    return completions(line)


class LocalMagics:
    """The magics of one IPython shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._nodes = AttachedNodes()

    def tpu(self, line: str, cell: str | None = None) -> None:
        """Manage TPU nodes from here, and run cells on them.

        ``%tpu COMMAND …`` is the same as ``jupyter tpu COMMAND …`` in a terminal, for example ``%tpu list``, ``%tpu
        create``, ``%tpu cost`` or ``%tpu --help``. ``%tpu attach NODE`` selects the node for the following cells;
        ``%tpu attach NODE FRAMEWORK`` also selects a framework's environment. ``%tpu detach`` shuts down the kernel on
        that node; ``%tpu detach NODE`` or ``%tpu detach NODE FRAMEWORK`` shuts down a different kernel.

        ``%%tpu`` runs its cell on that node, ``%%tpu NODE`` on a different node, and ``%%tpu NODE FRAMEWORK`` in a
        framework's environment. The kernel on the node keeps its variables until this kernel exits. ``-o NAME`` copies
        a variable back after the cell has run (numbers, strings, lists, dictionaries, arrays). An interrupt is sent to
        the node; a second interrupt leaves the cell running there.
        """
        words = _words(line)
        command = CELL if cell is not None else _COMMANDS.get(words[0] if words else "")
        if command is None:
            _note_trial()
            if run_command(words or ["list"]):
                raise CommandFailed
        elif set(words) & {"--help", "-h"}:
            self._shell.display_pub.publish(data=help_of(command).to_mimebundle())
        elif cell is not None:
            self._run_cell(parse_words(CELL, words, "%%tpu"), cell)
        else:
            (self._attach if command is ATTACH else self._detach)(parse_words(command, words[1:]))

    def _attach(self, options: Namespace) -> None:
        given = {f"--{name}": getattr(options, name) for name in ("zone", "project", "endpoint")}
        if run_command(["kernelspec", options.node, *(word for pair in given.items() if pair[1] for word in pair)]):
            raise CommandFailed
        spec = self._nodes.find(options.node, options.framework, options.zone)
        # Start the kernel now, so that an unusable node is reported here and not by the first cell.
        self._started(spec)
        self._nodes.current = spec.name
        self._display(f"Cells that begin with %%tpu run on {spec.display_name}.")

    def _detach(self, options: Namespace) -> None:
        spec = self._nodes.find(options.node, options.framework)
        ended = self._nodes.detach(spec)
        self._display(f"The kernel on {spec.display_name} {'has ended' if ended else 'is not in use here'}.")

    def _run_cell(self, options: Namespace, cell: str) -> None:
        if not all(name.isidentifier() for name in options.wanted):
            wrong = repr(" ".join(options.wanted)[:60])
            raise BadInput(Text("{name} is not a valid variable name.", name=wrong), hint="Use `%%tpu -o NAME`.")
        spec = self._nodes.find(options.node, options.framework)
        kernel = self._started(spec)
        try:
            # Copy variables only after a success: after an error, they may be incomplete.
            reply = self._reply(kernel, spec, cell)
            if reply.get("status") != "ok":
                raise CellFailed(reply)
            for name in options.wanted:
                self._shell.user_ns[name] = fetch(kernel, name)
        except KernelFailed:
            # The kernel has exited. Drop it, so that the next cell starts a new kernel.
            self._nodes.detach(spec)
            raise

    def _started(self, spec: InstalledSpec) -> RemoteKernel:
        try:
            return self._nodes.kernel_of(spec)
        except KeyboardInterrupt:
            raise StoppedWaiting(f"No kernel was started on {spec.display_name}.") from None

    def _reply(self, kernel: RemoteKernel, spec: InstalledSpec, cell: str) -> Mapping[str, Any]:
        try:
            return kernel.run(cell, OutputDisplay(self._shell, kernel.answer).show)
        except KeyboardInterrupt:
            raise StoppedWaiting(
                f"The cell was left running on {spec.display_name}; the next one there waits for it."
            ) from None

    def _display(self, text: str) -> None:
        self._shell.display_pub.publish(data={"text/plain": text})


def _note_trial() -> None:
    """Notify the user that commands don't apply to the emulated cloud shown in JupyterLab."""
    if trial_endpoint() and not settings_from_environment().endpoint:
        text = _(
            "JupyterLab shows the emulated cloud, but this kernel runs on your computer, where %tpu uses "
            "Google Cloud. To work on an emulated node, choose its kernel (Kernel > Change Kernel…); %tpu "
            "then shows the node."
        )
        sys.stderr.write(f"{text}\n")


class StoppedWaiting(Exception):
    """The user interrupted the wait. This is shown as a message without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class CommandFailed(Exception):
    """The command failed and has printed the reason. This makes the cell fail without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return []


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise BadInput(Text("Can't parse the line: {error}.", error=error), hint="Close the quotes.") from error
