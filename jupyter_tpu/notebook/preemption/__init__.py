"""``%%tpu_on_preempt``: save work when the node is about to be taken away."""
