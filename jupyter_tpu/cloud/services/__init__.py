"""Google's other services over plain REST: quotas, list prices, the billing export, and the location of buckets.

Start with `rest`, the client that all of them use; each of the others reads one service and returns records of `money`.
"""
