"""``python -m jupyter_tpu.emulator``."""

from jupyter_tpu.emulator.process import main

raise SystemExit(main())
