"""The folder of a kernel while something removes it."""

from __future__ import annotations

import shutil
from pathlib import Path

from jupyter_tpu.agent.kernels.kernel_dir import KernelDirectory
from jupyter_tpu.agent.paths import Home


def test_a_state_that_could_not_be_saved_in_a_removed_folder_is_saved_when_it_is_restored(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make()
    directory = KernelDirectory(home, "kernel-1")
    directory.save(pid=1)
    shutil.rmtree(home.kernels / "kernel-1")

    directory.save(is_cut_off=True)  # `rm -rf` is faster than the restoring agent
    (home.kernels / "kernel-1").mkdir(mode=0o700)
    (home.kernels / "kernel-1" / "requests").touch()

    assert not directory.is_whole
    directory.restore()
    assert directory.is_whole
    assert (home.kernels / "kernel-1" / "kernel.json").exists()
    directory.close()
