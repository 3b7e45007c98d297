"""Speed and memory of kernels on a worker, side by side with other ways to run a kernel over SSH; see README.md."""
