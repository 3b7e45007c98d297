"""Find the TPU processes of this worker, release the TPU from them, and run the doctor.

Start with `holders`; `release` terminates TPU processes, and `doctor` is the agent's method ``examine``. This package
must not import `agent.metrics`, which builds on it.
"""
