"""The command `jupyter tpu demo`: an emulated cloud and a JupyterLab that uses it, as two child processes.

Start with `command`. This package starts the emulator, but never imports it.
"""
