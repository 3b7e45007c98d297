"""Find the TPU processes of this worker, release the TPU from them, and run the doctor.

Start with `holders`; `release` ends TPU processes, `doctor` is the agent's method ``examine``. It must not know
metrics: `agent.metrics` builds on this.
"""
