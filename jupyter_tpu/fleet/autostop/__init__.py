"""Auto-stop from this computer: judge each node by its rules and stop what is due.

Start with `controller`. The rules are in `jupyter_tpu.brakes`; `jupyter_tpu.agent.autostop` is the same on the
node, for when this computer is off.
"""
