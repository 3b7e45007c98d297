"""The Jupyter server extension: REST routes under ``/jupyter-tpu/v1``, kernel WebSockets, events and kernelspecs.

Start with `app`. Decisions about nodes, money and kernels are in `fleet`, `money` and `kernels`; this package connects
them to Jupyter Server.
"""
