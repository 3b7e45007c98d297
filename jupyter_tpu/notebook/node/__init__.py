"""What a kernel knows of the machine that it runs on: its agent, its environment, the processes that use the chips."""
