"""Notices that this node is about to end: from Google's metadata server, from auto-stop or from a client.

Start with `notices`, which passes them to the kernels' checkpoint hooks; `notice_watch` polls the metadata server.
Must not decide that a node ends: `agent.autostop` does.
"""
