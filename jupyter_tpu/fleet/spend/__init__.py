"""The cost of nodes: the ledger of READY time, list prices, grants, quota, and budgets that stop nodes.

Start with `enforcer`. The arithmetic is in `jupyter_tpu.money`, which is pure; storage is in `jupyter_tpu.journal`.
"""
