"""Metrics of this worker's chips: read from libtpu once a second, validated and stored for an hour.

Start with `sampler`; `libtpu` and `sdk` are the sources, and `methods` has the RPC methods. The only thing that this
package may know about kernels is which process belongs to which notebook.
"""
