"""The emulator's command line: the emulated cloud itself, and the tools that break its links."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``proxy`` or ``fault``, or else the emulator. Returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["proxy"]:
        from jupyter_tpu.emulator import fault_proxy_command

        return fault_proxy_command.main(arguments[1:])
    if arguments[:1] == ["fault"]:
        from jupyter_tpu.emulator import fault_command

        return fault_command.main(arguments[1:])
    from jupyter_tpu.emulator import process

    return process.main(arguments)
