"""Terminals on this worker: login shells whose output is recorded like a kernel's. Start reading at `terminals`.

This package must not depend on kernels' messages or on how frames are transported.
"""
