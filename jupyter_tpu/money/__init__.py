"""The costs of nodes and who pays for them: spans, budgets, grants and quota, as pure values.

Start with `spans`: a span is a period during which one node was READY, and all costs are computed from spans. This
package never accesses a clock, the disk or the cloud. Callers pass the current time and the wall clock's offset from
UTC as arguments.
"""
