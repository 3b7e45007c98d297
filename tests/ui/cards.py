"""The cards of nodes in the TPU panel, used as a user does."""

from __future__ import annotations

from playwright.sync_api import Locator


def card(panel: Locator, node_id: str) -> Locator:
    """The card of a node."""
    return panel.locator(f'.jp-tpu-Node[data-node-id="{node_id}"]')


def open_card(panel: Locator, node_id: str) -> Locator:
    """The card of a node, opened."""
    found = card(panel, node_id)
    head = found.locator(".jp-tpu-Node-heading")
    if head.get_attribute("aria-expanded") == "false":
        head.click()
    return found


def choose(panel: Locator, node_id: str, action: str) -> None:
    """Choose an action in the menu of a node's card."""
    panel.get_by_role("button", name=f"More actions on {node_id}").click()
    panel.page.get_by_role("menuitem", name=action, exact=True).click()
