"""Metrics of this worker's chips: read from libtpu once a second, validated, and kept for an hour.

Start with `sampler`; `libtpu` and `sdk` are the sources, `methods` is what clients call. It must know no more about
kernels than which process belongs to which notebook.
"""
