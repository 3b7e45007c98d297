"""Find a node by its id. If nodes in several zones have the same id, its full name is needed."""

from __future__ import annotations

from google.rpc import code_pb2

from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.names import last_part
from jupyter_tpu.emulator.resources.protos import NodePb
from jupyter_tpu.emulator.store.database import Store

_SHOWN = 10  # names in an error message: enough to spot a typo


def node_named(store: Store, name: str) -> NodePb:
    """Return the node with this name.

    Raises:
        Refusal: no node or several nodes match; the text lists the existing nodes.
    """
    found = nodes_named(store, name)
    if len(found) == 1:
        return found[0]
    raise _several(name, found) if found else _none(name, store)


def nodes_named(store: Store, name: str) -> list[NodePb]:
    """Return the node with this full name, or all nodes with this id."""
    in_full = store.node(name)
    return [in_full] if in_full else [node for node in store.nodes() if last_part(node.name) == name]


def _several(name: str, nodes: list[NodePb]) -> errors.Refusal:
    names = ", ".join(node.name for node in nodes)
    return _refusal(
        code_pb2.INVALID_ARGUMENT, f"{len(nodes)} nodes are called {name[:80]!r}; give the full name: {names}"
    )


def _none(name: str, store: Store) -> errors.Refusal:
    names = [last_part(node.name) for node in store.nodes(limit=_SHOWN + 1)]
    more = ", …" if len(names) > _SHOWN else ""
    known = f"nodes: {', '.join(names[:_SHOWN])}{more}" if names else "there are no nodes"
    return _refusal(code_pb2.NOT_FOUND, f"There is no node {name[:80]!r}; {known}")


def _refusal(code: int, message: str) -> errors.Refusal:
    return errors.Refusal(errors.status_of(code, message))
