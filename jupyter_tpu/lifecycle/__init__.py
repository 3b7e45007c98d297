"""What to do next about a node: events in, actions out. Pure: no asyncio, no clock, no cloud."""
