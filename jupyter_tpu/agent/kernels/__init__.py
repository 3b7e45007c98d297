"""The kernels of this worker: their processes, ZMQ sockets and folders on disk.

Start with `kernel`; `kernels` finds a kernel by id. `kernel_bootstrap`, `output_capture` and `prewarmed_kernel` run
inside the kernel's own process. This package must not depend on clients, which reach a kernel through `agent.calls` and
`agent.session`.
"""
