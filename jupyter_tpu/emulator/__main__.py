"""``python -m jupyter_tpu.emulator``."""

from jupyter_tpu.emulator.commands import main

raise SystemExit(main())
