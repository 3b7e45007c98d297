"""Commands about money: cost, budget, grant, quota, cleanup, stop --all, audit.

Start with `ledger_access`, which opens the ledger and budgets that most of them share.
"""
