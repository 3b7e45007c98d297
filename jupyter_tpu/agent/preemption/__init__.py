"""Termination notices for this node, from Google's metadata server, auto-stop or a client.

Start with `notices`, which passes them to the kernels' checkpoint hooks; `notice_watch` polls the metadata server. This
package must not decide to stop a node, which is the task of `agent.autostop`.
"""
