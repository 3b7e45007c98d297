"""`jupyter tpu demo`: an emulated cloud and a JupyterLab that uses it, as two child processes."""
