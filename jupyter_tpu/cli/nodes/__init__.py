"""Commands about nodes: list, create, stop, start, delete, search, queue, ssh, doctor.

Start with `fleet_run`: what all commands that change nodes do alike.
"""
