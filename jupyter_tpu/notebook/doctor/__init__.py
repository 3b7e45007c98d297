"""What could keep this kernel from its TPU: `examine` gathers `facts`, `checks` judges them (pure)."""
