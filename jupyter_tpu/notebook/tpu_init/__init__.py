"""``%tpu_init``: start JAX, PyTorch or TensorFlow on this worker's chips and check that it computes there.

Start with `command`; one module starts each framework. `known_errors` maps messages of frameworks to meanings and
fixes.
"""
