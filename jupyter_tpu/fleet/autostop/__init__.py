"""Auto-stop from this computer: judge each node by its rules, and stop or delete it when it is due.

Start with `controller`. The rules are in `jupyter_tpu.autostop`; `jupyter_tpu.agent.autostop` does the same on the
node, for when this computer is off. It knows nothing of HTTP or SSH: it reaches agents through
`jupyter_tpu.fleet.agents`.
"""
