"""The magics ``%tpu`` and ``%%tpu`` of a kernel on the user's own machine."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.errors import BadInput, KernelFailed, Text
from jupyter_tpu.kernels.kernelspecs import InstalledSpec
from jupyter_tpu.local.attached import AttachedNodes
from jupyter_tpu.local.cell_output import CellFailed, OutputDisplay
from jupyter_tpu.local.command_runner import run_command
from jupyter_tpu.local.remote import RemoteKernel
from jupyter_tpu.local.variables import fetch
from jupyter_tpu.notebook.magics.completion import register_completion

_HOW = "Use %%tpu, %%tpu NODE, %%tpu NODE FRAMEWORK, and -o NAME for each variable to copy back."

# a node and an environment
_MOST_NAMES = 2


def register_magics(shell: Any) -> None:
    """Add our magics to an IPython shell."""
    magics = LocalMagics(shell)
    shell.register_magic_function(magics.tpu, magic_kind="line_cell", magic_name="tpu")
    register_completion(shell, _words_after)


def _words_after(line: str) -> list[str]:
    """Return the completions of a ``%tpu`` line."""
    from jupyter_tpu.local.command_completion import completions

    return completions(line)


class LocalMagics:
    """The magics of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._nodes = AttachedNodes()

    def tpu(self, line: str, cell: str | None = None) -> None:
        """Manage TPU nodes from here, and run cells on them.

        ``%tpu COMMAND …`` does what ``jupyter tpu COMMAND …`` does in a terminal: ``%tpu list``, ``%tpu create``,
        ``%tpu cost``, ``%tpu --help``. ``%tpu attach NODE`` selects the node for the cells that follow, ``%tpu attach
        NODE FRAMEWORK`` also the environment of a framework. ``%tpu detach`` ends the kernel there, ``%tpu detach
        NODE`` or ``%tpu detach NODE FRAMEWORK`` another one.

        ``%%tpu`` runs its cell on that node, ``%%tpu NODE`` on another one, ``%%tpu NODE FRAMEWORK`` in the environment
        of a framework. The kernel there lives as long as this one and keeps its variables. ``-o NAME`` copies a
        variable back when the cell has run (numbers, strings, lists, dictionaries, arrays). An interrupt goes to the
        node; a second one leaves the cell running there.
        """
        words = _words(line)
        if cell is not None:
            self._run_cell(words, cell)
        elif words[:1] == ["attach"]:
            self._attach(words[1:])
        elif words[:1] == ["detach"]:
            self._detach(words[1:])
        elif run_command(words or ["list"]):
            raise CommandFailed

    def _attach(self, words: list[str]) -> None:
        if not words:
            raise BadInput("Which node?", hint="%tpu attach NODE; `%tpu list` shows them.")
        # NODE [FRAMEWORK] [options]: the options go on to the command `kernelspec`.
        node, environment, options = words[0], "", words[1:]
        if options and not options[0].startswith("-"):
            environment, options = options[0], options[1:]
        if run_command(["kernelspec", node, *options]):
            raise CommandFailed
        spec = self._nodes.find(node, environment, _zone_in(options))
        # Started now, so that a node that cannot be used is reported here and not by the first cell.
        self._started(spec)
        self._nodes.current = spec.name
        self._say(f"Cells that begin with %%tpu run on {spec.display_name}.")

    def _detach(self, words: list[str]) -> None:
        if len(words) > _MOST_NAMES:
            raise BadInput(
                "%tpu detach takes one node at a time.", hint="%tpu detach NODE, or %tpu detach NODE FRAMEWORK."
            )
        spec = self._nodes.find(*words or [""])
        ended = self._nodes.detach(spec)
        self._say(f"The kernel on {spec.display_name} {'has ended' if ended else 'is not in use here'}.")

    def _run_cell(self, words: list[str], cell: str) -> None:
        (node, environment), wanted = _cell_words(words)
        spec = self._nodes.find(node, environment)
        kernel = self._started(spec)
        try:
            # Variables are copied only after a success: after an error they may be half computed.
            reply = self._reply(kernel, spec, cell)
            if reply.get("status") != "ok":
                raise CellFailed(reply)
            for name in wanted:
                self._shell.user_ns[name] = fetch(kernel, name)
        except KernelFailed:
            # A dead kernel is dropped, so that the next cell starts another one.
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

    def _say(self, text: str) -> None:
        self._shell.display_pub.publish(data={"text/plain": text})


class StoppedWaiting(Exception):
    """The user interrupted the wait; shown as a sentence without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class CommandFailed(Exception):
    """The command failed and has shown why; it makes the cell fail without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return []


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise BadInput(Text("Can't parse the line: {error}.", error=error), hint="Close the quotes.") from error


def _zone_in(options: list[str]) -> str:
    """Return the value of ``--zone``, parsed as the command line does it."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--zone", default="")
    return str(parser.parse_known_args(options)[0].zone)


def _cell_words(words: list[str]) -> tuple[tuple[str, str], list[str]]:
    """Return the node and the environment, each empty if not given, and the variables to copy back.

    Raises:
        BadInput: the arguments are not of this form.
    """
    rest, wanted = list(words), list[str]()
    while "-o" in rest:
        at = rest.index("-o")
        # A missing name becomes an empty one, which is refused below.
        wanted += rest[at + 1 : at + 2] or [""]
        del rest[at : at + 2]
    if len(rest) > 2 or any(word.startswith("-") for word in rest):
        raise BadInput(Text("%%tpu has no argument {words}.", words=repr(" ".join(rest)[:60])), hint=_HOW)
    if not all(name.isidentifier() for name in wanted):
        raise BadInput(Text("{name} is not the name of a variable.", name=repr(" ".join(wanted)[:60])), hint=_HOW)
    node, environment, *_ = (*rest, "", "")
    return (node, environment), wanted
