"""Google's other services over plain REST: quotas, list prices, the billing export and bucket locations.

Start with `rest`, the client used by the other modules; each of them reads one service and returns records from
`money`.
"""
