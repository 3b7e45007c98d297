"""What nodes cost and who pays: spans, budgets, grants and quota as pure values.

Start with `spans`: a span is a period in which one node was READY, and every sum of money is computed from spans.
Nothing here reads a clock, a disk or the cloud; the current time and the wall clock's offset come in as arguments.
"""
