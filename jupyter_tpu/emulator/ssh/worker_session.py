"""A session of the embedded SSH server: a command or shell, with pipes or a terminal, or a file transfer."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import asyncssh

from jupyter_tpu.emulator.ssh.pseudo_terminal import TAKE_TERMINAL, Terminal
from jupyter_tpu.emulator.ssh.sftp import SUBSYSTEM, FileTransfer
from jupyter_tpu.emulator.workers.machine import SHELL, Machine
from jupyter_tpu.files import users_umask


class WorkerSession(asyncssh.SSHServerSession[bytes]):
    """A session that runs the requested command, shell or SFTP server, and transfers data in both directions."""

    def __init__(self, machine: Machine, user: str) -> None:
        self._machine = machine
        self._user = user
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._terminal = ""
        self._command: str | None = None
        self._serves_files = False
        self._process: SessionProcess | FileTransfer | None = None
        self._starting: asyncio.Task[None] | None = None
        self._early_input: list[bytes] = []
        self._is_input_ended = False

    # -- callbacks from asyncssh, in the order of the calls

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        """Store the channel."""
        self._channel = chan

    def pty_requested(self, term_type: str, term_size: Any, term_modes: Any) -> bool:
        """Accept the request for a terminal."""
        self._terminal = term_type or "dumb"
        return True

    def shell_requested(self) -> bool:
        """Accept the request for a shell."""
        return True

    def exec_requested(self, command: str) -> bool:
        """Accept the request to run a command."""
        self._command = command
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        """Accept a request for SFTP, but for no other subsystem."""
        self._serves_files = subsystem == SUBSYSTEM
        return self._serves_files

    def session_started(self) -> None:
        """Start the accepted shell, command or subsystem."""
        self._starting = asyncio.ensure_future(self._start())

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Forward input, or buffer it until the process runs."""
        if self._process is None:
            self._early_input.append(data)
        else:
            self._process.write(data)

    def eof_received(self) -> bool:
        """Close the input and keep the output open."""
        self._is_input_ended = True
        if self._process is not None:
            self._process.write_eof()
        return True

    def pause_writing(self) -> None:
        """Pause reading the output, because the client accepts no more data."""
        if self._process is not None:
            self._process.pause_output()

    def resume_writing(self) -> None:
        """Resume reading the output."""
        if self._process is not None:
            self._process.resume_output()

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Resize the terminal."""
        if self._process is not None:
            self._process.resize(width, height)

    def signal_received(self, signal: str) -> None:
        """Send a signal to the process."""
        if self._process is not None:
            self._process.send_signal(signal)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the input and output of the process, or cancel its start."""
        if self._process is not None:
            self._process.hang_up()
        elif self._starting is not None:
            self._starting.cancel()

    # -- start of the process

    async def _start(self) -> None:
        channel = self._channel
        assert channel is not None, "asyncssh starts sessions on channels that were made"
        if self._serves_files:
            self._process = FileTransfer(channel, self._machine.home)
            self._process.start()
            self._send_early_input(self._process)
            return
        # set the attribute only after the process has started: until then, input is buffered
        process = SessionProcess(channel, has_terminal=bool(self._terminal))
        environment = self._machine.environment(self._user)
        if self._terminal:
            environment["TERM"] = self._terminal
        # run the command with the shell, like sshd
        argv = [SHELL] if self._command is None else [SHELL, "-c", self._command]
        await process.start(argv, environment, str(self._machine.home))
        self._process = process
        self._send_early_input(process)

    def _send_early_input(self, process: SessionProcess | FileTransfer) -> None:
        for data in self._early_input:
            process.write(data)
        self._early_input.clear()
        if self._is_input_ended:
            process.write_eof()
        if self._terminal and self._channel is not None:
            width, height, _, _ = self._channel.get_terminal_size()
            process.resize(width, height)


class SessionProcess(asyncio.SubprocessProtocol):
    """The process of a session; sends its output and exit status to the channel."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], *, has_terminal: bool) -> None:
        self._channel = channel
        self._terminal = Terminal(channel) if has_terminal else None
        self._transport: asyncio.SubprocessTransport | None = None
        self._open_pipes = {1, 2}
        self._is_gone = False

    async def start(self, argv: list[str], environment: dict[str, str], folder: str) -> None:
        """Start the process."""
        loop = asyncio.get_running_loop()
        if self._terminal is None:
            await loop.subprocess_exec(
                lambda: self, *argv, env=environment, cwd=folder, start_new_session=True, umask=users_umask()
            )
        else:
            await self._start_in_terminal(self._terminal, argv, environment, folder)

    async def _start_in_terminal(
        self, terminal: Terminal, argv: list[str], environment: dict[str, str], folder: str
    ) -> None:
        # 0 stands for the terminal, which is the only output
        self._open_pipes = {0}
        slave = await terminal.open(self._output_ended)
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: self,
                *TAKE_TERMINAL,
                *argv,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=environment,
                cwd=folder,
                start_new_session=True,
                umask=users_umask(),
            )
        finally:
            os.close(slave)

    # -- input from the client

    def write(self, data: bytes) -> None:
        """Write to the process's standard input."""
        if self._terminal is not None:
            self._terminal.write(data)
        elif (pipe := self._pipe(0)) is not None:
            pipe.write(data)

    def write_eof(self) -> None:
        """Close the process's standard input."""
        if self._terminal is None and (pipe := self._pipe(0)) is not None:
            pipe.close()

    def resize(self, width: int, height: int) -> None:
        """Resize the process's terminal."""
        if self._terminal is not None:
            self._terminal.resize(width, height)

    def send_signal(self, name: str) -> None:
        """Send a signal to the process group. The name of the signal has no prefix SIG."""
        number = getattr(signal, f"SIG{name}", None)
        if self._transport is not None and number is not None and self._transport.get_returncode() is None:
            # signal the whole group: a shell must not intercept the signal for its child
            os.killpg(self._transport.get_pid(), number)

    def pause_output(self) -> None:
        """Pause reading the process's output."""
        for pipe in self._output_pipes():
            pipe.pause_reading()

    def resume_output(self) -> None:
        """Resume reading the process's output."""
        for pipe in self._output_pipes():
            pipe.resume_reading()

    def hang_up(self) -> None:
        """Close the process's pipes or terminal after the connection was lost."""
        self._is_gone = True
        if self._terminal is not None:
            self._terminal.close()
        for number in (0, 1, 2):
            if (pipe := self._pipe(number)) is not None:
                pipe.close()

    # -- events from the process

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport; called by asyncio."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Send output to the client."""
        if not self._is_gone:
            self._channel.write(data, asyncssh.EXTENDED_DATA_STDERR if fd == 2 else None)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Record that an output pipe was closed."""
        if fd != 0:
            self._open_pipes.discard(fd)
            self._exit_when_done()

    def process_exited(self) -> None:
        """Record that the process has exited."""
        self._exit_when_done()

    def _output_ended(self) -> None:
        self._open_pipes.clear()
        self._exit_when_done()

    def _exit_when_done(self) -> None:
        """End the session when the process has exited and its output was closed by all processes, as OpenSSH does."""
        code = self._transport.get_returncode() if self._transport is not None else None
        if code is None or self._open_pipes or self._is_gone:
            return
        self._is_gone = True
        # asyncio's return code for a process killed by a signal
        if code < 0:
            self._channel.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
        else:
            self._channel.exit(code)

    def _pipe(self, number: int) -> Any:
        pipe = self._transport.get_pipe_transport(number) if self._transport is not None else None
        return None if pipe is None or pipe.is_closing() else pipe

    def _output_pipes(self) -> list[Any]:
        if self._terminal is not None:
            return self._terminal.readers()
        return [pipe for number in (1, 2) if (pipe := self._pipe(number)) is not None]
