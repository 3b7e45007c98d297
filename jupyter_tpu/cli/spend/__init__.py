"""Commands for costs and limits: cost, budget, grant, quota, cleanup, stop --all, audit.

Start with `ledger_access`, which opens the ledger and budgets shared by most of the commands.
"""
