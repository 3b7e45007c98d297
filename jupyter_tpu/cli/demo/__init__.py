"""The command `jupyter tpu demo`: an emulated cloud and a JupyterLab that uses it, as two child processes.

Start with `command`. The emulator is only started here, never imported.
"""
