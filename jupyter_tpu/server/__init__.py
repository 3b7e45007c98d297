"""The Jupyter server's half: routes under ``/jupyter-tpu/v1``, events, and kernelspecs that follow the nodes."""
