"""A kernel provisioner that does what users do by hand: ``ssh -L`` for five ports over one shared connection.

A single command does everything, with the connection file on its standard input, so no forwarding with plain OpenSSH
can be faster.
"""

from __future__ import annotations

import json
import shlex
import socket
import tempfile
from collections.abc import Mapping
from typing import IO, Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Unicode

_PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


class ForwardsProvisioner(LocalProvisioner):
    """Runs ipykernel on `host`, an alias with a ControlMaster in `ssh_config`."""

    ssh_config = Unicode(help="Path of the ssh_config file.").tag(config=True)
    host = Unicode(help="Alias of the worker in it.").tag(config=True)
    python = Unicode("python3", help="Python on the worker.").tag(config=True)

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        kwargs = await super().pre_launch(**kwargs)
        self._there = {name: _free_port() for name in _PORTS}
        here: Mapping[str, Any] = self.connection_info
        forwards = [f"-L{here[name]}:127.0.0.1:{port}" for name, port in self._there.items()]
        kwargs["cmd"] = ["ssh", "-F", self.ssh_config, *forwards, self.host, self._command()]
        kwargs["stdin"] = self._standard_input()
        return kwargs

    def _command(self) -> str:
        kernel = shlex.join([self.python, "-m", "ipykernel_launcher", "-f"])
        size = len(self._connection_file())
        return f'umask 077; f=$(mktemp); head -c {size} > "$f"; exec {kernel} "$f"'

    def _standard_input(self) -> IO[bytes]:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the process that it is given to closes it
        file.write(self._connection_file())
        file.seek(0)
        return file

    def _connection_file(self) -> bytes:
        manager: Any = self.parent
        session = manager.session
        there = {"ip": "127.0.0.1", "transport": "tcp", "kernel_name": "", **self._there}
        return json.dumps({**there, "key": session.key.decode(), "signature_scheme": session.signature_scheme}).encode()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
