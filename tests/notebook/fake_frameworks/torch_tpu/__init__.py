"""TorchTPU 0.2.0 as far as `%tpu_init` sees it: inert and silent where it sees no chip."""

import os

from touched import touch

saw_chips = os.environ.get("FAKE_CHIPS") != "0"
touch("import torch_tpu")
