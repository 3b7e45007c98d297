"""Entry point of ``python -m jupyter_tpu.cli``."""

from jupyter_tpu.cli import main

raise SystemExit(main())
