"""What nodes cost and who pays: spans, budgets, grants and quota as values. Pure: no clock, no disk, no cloud."""
