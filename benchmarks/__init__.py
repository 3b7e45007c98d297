"""Measure speed and memory of kernels on a worker, and of other ways to run a kernel over SSH; see README.md."""
