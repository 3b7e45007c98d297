"""What the chips of this worker do: read from libtpu once a second, validated, kept for an hour.

Start with `sampler`. Knows nothing of kernels but which process belongs to which notebook.
"""
