"""Auto-stop from this computer: check each node against its rules, and stop or delete it when a rule requires it.

Start with `controller`. The rules are in `jupyter_tpu.autostop`; `jupyter_tpu.agent.autostop` applies them on the node,
even when this computer is off. The package does not depend on HTTP or SSH: it calls agents through
`jupyter_tpu.fleet.agents`.
"""
