"""When a node is idle and when it must end: the rule that server and agent share. Pure, and valid for Python 3.10."""
