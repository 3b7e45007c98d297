"""Entry point of ``python -m jupyter_tpu.emulator``."""

from jupyter_tpu.emulator.cli.commands import main

raise SystemExit(main())
