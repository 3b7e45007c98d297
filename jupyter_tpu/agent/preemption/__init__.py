"""Notices that this machine is about to go: from Google's metadata server, or from our own rules.

Passes them to the checkpoint hooks of kernels. Must not decide that a node ends: `agent.autostop` does.
"""
