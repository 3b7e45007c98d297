"""This computer's own OpenSSH server as the SSH server of a worker.

The emulator accepts each TCP connection and passes it to a separate ``sshd -i``, so that no other process can take the
port in the meantime, and no listener outlives the emulator. A forced command sets the worker's environment at login;
only the user who runs the emulator can log in.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import shlex
import shutil
import socket
from pathlib import Path

from jupyter_tpu.emulator.access.peers import is_own_connection
from jupyter_tpu.emulator.workers.machine import SHELL, Machine, as_env_command
from jupyter_tpu.emulator.workers.process_tree import TOKEN_VARIABLE, kill_server
from jupyter_tpu.emulator.workers.workers import StartSshServer
from jupyter_tpu.files import users_umask

# HOME is in SetEnv because sshd starts a forced command with the user's shell, and bash would run the user's own
# ~/.bashrc first. sshd uses only one SetEnv line.
_CONFIG = """\
HostKey "{host_key}"
AuthorizedKeysFile "{authorized_keys}"
AllowUsers {user}
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowTcpForwarding local
AllowStreamLocalForwarding yes
AllowAgentForwarding no
X11Forwarding no
PrintMotd no
PrintLastLog no
PidFile none
MaxSessions 1000
LogLevel ERROR
PermitUserRC no
SetEnv "{token_variable}={token}" "HOME={home}"
ForceCommand {login}
{sftp}"""

# PATH and the other variables are set after the shell has been chosen, so that no profile of this machine can change
# them. A login may only set the terminal's name.
_LOGIN = """\
#!/bin/sh
cd {home} || exit 1
set -- {shell}
[ -n "$SSH_ORIGINAL_COMMAND" ] && set -- {shell} -c "$SSH_ORIGINAL_COMMAND"
exec {environment} ${{TERM:+"TERM=$TERM"}} "$@"
"""


class SystemSshdMissing(Exception):
    """This computer has no OpenSSH server."""


def find_sshd() -> Path:
    """Return the absolute path of sshd, which sshd needs to re-execute itself."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:/sbin")
    if found is None:
        raise SystemSshdMissing("sshd was not found; install openssh-server, or use --sshd embedded")
    return Path(found).resolve()


def system_server(sshd: Path) -> StartSshServer:
    """Return a function that starts SSH servers with this sshd."""

    async def open_door(machine: Machine, port: int) -> SystemSshServer:
        _make_privilege_separation_folder()
        door = SystemSshServer(machine, sshd)
        door.listen(port)
        return door

    return open_door


class SystemSshServer:
    """A `machine.SshServer` that accepts the connections of one machine."""

    def __init__(self, machine: Machine, sshd: Path) -> None:
        self._machine = machine
        self._sshd = sshd
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._accepting: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port on which the server listens."""
        return int(self._socket.getsockname()[1])

    def listen(self, port: int) -> None:
        """Listen on loopback. Raises OSError if the port is in use."""
        self._write_files()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError:
            self._socket.close()
            raise
        self._socket.listen(64)  # length of the backlog; agents and kernels open a few connections at once
        self._socket.setblocking(False)
        self._accepting = asyncio.ensure_future(self._accept())

    def keys_changed(self) -> None:
        """Write the SSH keys of the Unix user who runs the emulator to the file that sshd reads at each login."""
        user = getpass.getuser()
        lines = [f"{key}\n" for name, key in self._machine.authorized if name == user]
        (self._machine.folder / "authorized_keys").write_text("".join(lines), encoding="ascii")

    async def close(self) -> None:
        """Stop listening and close all connections."""
        tasks = [task for task in (self._accepting, *self._serving) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._socket.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, peer = await loop.sock_accept(self._socket)
            # check before sshd gets the connection: another user must not even reach the key exchange
            if not is_own_connection(peer, connection.getsockname()):
                connection.close()
                continue
            task = asyncio.ensure_future(self._serve(connection))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _serve(self, connection: socket.socket) -> None:
        """Run one sshd for one connection, until the connection closes."""
        with connection:
            # sshd expects a blocking descriptor
            connection.setblocking(True)
            server = await asyncio.create_subprocess_exec(
                str(self._sshd),
                "-i",
                "-e",
                "-f",
                str(self._machine.folder / "sshd_config"),
                stdin=connection.fileno(),
                stdout=connection.fileno(),
                stderr=asyncio.subprocess.DEVNULL,
                env={TOKEN_VARIABLE: self._machine.token, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                start_new_session=True,
                umask=users_umask(),
            )
        try:
            await server.wait()
        finally:
            if server.returncode is None:
                kill_server(server.pid, self._machine.token)  # running logins continue, as when the network fails

    def _write_files(self) -> None:
        folder = self._machine.folder
        login = folder / "login"
        # use a script, because ForceCommand takes one line and the environment is long
        login.write_text(self._login_script(), encoding="utf-8")
        login.chmod(0o700)
        config = _CONFIG.format(
            host_key=self._machine.host_key_path,
            authorized_keys=folder / "authorized_keys",
            user=getpass.getuser(),
            login=shlex.quote(str(login)),
            token_variable=TOKEN_VARIABLE,
            token=self._machine.token,
            home=self._machine.home,
            sftp=_sftp_line(self._sshd),
        )
        (folder / "sshd_config").write_text(config, encoding="utf-8")
        self.keys_changed()

    def _login_script(self) -> str:
        return _LOGIN.format(
            home=shlex.quote(str(self._machine.home)),
            shell=shlex.quote(SHELL),
            environment=as_env_command(self._machine.environment()),
        )


def _sftp_line(sshd: Path) -> str:
    """Return the sshd_config line for SFTP, with OpenSSH's SFTP server; empty if that program isn't installed."""
    # locations in Linux distributions, relative to sshd
    libraries = (sshd.parents[1] / name for name in ("lib/openssh", "libexec/openssh", "libexec", "lib/ssh"))
    programs = (folder / "sftp-server" for folder in libraries)
    return next((f"Subsystem sftp {path}\n" for path in programs if path.exists()), "")


def _make_privilege_separation_folder() -> None:
    """Create the folder that Debian's sshd requires.

    The system's ssh service usually creates the folder, but the service may never have run.
    """
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
