"""The registry of kernels that Jupyter servers on this computer have started, so that the next server finds them.

Start reading at `notes`. It must not know links or SSH.
"""
