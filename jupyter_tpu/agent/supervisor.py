"""Keep one agent running: restart it when it exits, and reap its kernels meanwhile.

The supervisor holds the lock of the agent's folder and the listening socket, so a client that connects while the agent
restarts only has to wait. As the subreaper of its descendants, the supervisor receives the exit statuses of an exited
agent's kernels and reports them to the next agent. It is small and uses only the standard library, because a crash of
the supervisor would go unnoticed until the next client connects.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from jupyter_tpu.agent.paths import Home
from jupyter_tpu.files import close_new_files, users_umask

log = logging.getLogger(__name__)

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_SIGNALS = {signal.SIGCHLD, signal.SIGTERM}
# An agent that has run for this long has started successfully. If it crashes later, that is not a crash at start.
_STEADY_S = 10.0
# After this many crashes, assume that the agent can't start at all (a broken environment, a full disk); restarting it
# would only waste CPU.
_MOST_CRASHES = 5


class Supervisor:
    """The supervisor. It restarts the agent until SIGTERM arrives or the agent crashes too often right after its start.

    Args:
        command: the command that starts the agent.
        listener: descriptor of the listening socket, which every agent inherits.
    """

    def __init__(self, command: list[str], listener: int) -> None:
        self._command = command
        self._listener = listener
        self._unreported: dict[int, int] = {}
        # The agent queues the descriptors of terminals in these sockets (`terminals.held_ptys`), for the next agent.
        self._terminals = socket.socketpair()

    def run(self) -> None:
        """Run and restart the agent until SIGTERM, or until it crashes too often right after its start."""
        crashes = 0
        while crashes < _MOST_CRASHES:
            started = time.monotonic()
            agent = self._start()
            if self._watch(agent):
                return
            crashes = 0 if time.monotonic() - started > _STEADY_S else crashes + 1
            log.error("the agent ended with %s; restarting it", agent.returncode)
        log.error("the agent ended %s times in a row right after its start; giving up", crashes)

    def _start(self) -> subprocess.Popen[bytes]:
        terminals = [end.fileno() for end in self._terminals]
        environment = {
            **os.environ,
            "JUPYTER_TPU_LISTENER": str(self._listener),
            "JUPYTER_TPU_TERMINALS": ",".join(map(str, terminals)),
        }
        agent = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            env=environment,
            pass_fds=[self._listener, *terminals],
            start_new_session=True,
            umask=users_umask(),
        )
        for pid, status in self._unreported.items():
            self._report(agent, pid, status)
        self._unreported.clear()
        return agent

    def _watch(self, agent: subprocess.Popen[bytes]) -> bool:
        """Wait for the agent to exit; return whether SIGTERM caused it."""
        while agent.returncode is None:
            if signal.sigwait(_SIGNALS) == signal.SIGTERM:
                agent.terminate()
                agent.wait()
                return True
            self._reap(agent)
        return False

    def _reap(self, agent: subprocess.Popen[bytes]) -> None:
        """Reap every child that has exited, including the agent: one SIGCHLD may represent several exits."""
        while (ended := _next_ended()) is not None:
            pid, status = ended
            if pid == agent.pid:
                agent.returncode = os.waitstatus_to_exitcode(status)
            else:
                self._report(agent, pid, status)

    def _report(self, agent: subprocess.Popen[bytes], pid: int, status: int) -> None:
        assert agent.stdin is not None
        try:
            agent.stdin.write(json.dumps([pid, status]).encode() + b"\n")
            agent.stdin.flush()
        except OSError:  # the agent has exited too; the next one gets the report
            self._unreported[pid] = status


def _next_ended() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def become_reaper() -> None:
    """Become the parent of orphaned descendants, instead of init."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def main(arguments: list[str]) -> None:
    """Run the supervisor's process.

    Args:
        arguments: the inherited descriptors of the listening socket and lock, the agent's folder, and the kernels'
            Python.
    """
    close_new_files()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s supervisor %(levelname)s: %(message)s")
    listener, lock, root, python = arguments
    os.set_inheritable(int(lock), False)
    os.set_inheritable(int(listener), False)
    become_reaper()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    archive = str(Path(__file__).resolve().parents[2])
    Supervisor([sys.executable, "-I", archive, "agent", root, python], int(listener)).run()
    Home(Path(root)).remove_socket()
