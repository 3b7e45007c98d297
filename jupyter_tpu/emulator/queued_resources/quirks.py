"""Undocumented fields of queued resources that the real service has returned. A project setting turns each on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jupyter_tpu.emulator.limits.project import Switches
from jupyter_tpu.emulator.resources.behaviours import recorded

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class QueuedResourceQuirks:
    """The real service's quirks, which `show` applies to the queued resources in a response."""

    switches: Switches
    project: str
    project_number: str

    def show(self, answer: Fields) -> None:
        """Apply the quirks, in place, to each queued resource in a message: a queued resource, list or operation."""
        for each in [answer, answer.get("response", {}), *answer.get("queuedResources", [])]:
            for spec in each.get("tpu", {}).get("nodeSpec", []):
                self._show_spec(spec)

    @recorded(
        "queued-undocumented",
        "Nodes in queued resources have the undocumented fields bootDisk and useTpuVm. In the emulator, a "
        "switch adds them.",
        source="docs.cloud.google.com/ai-hypercomputer, Serve Qwen2-7B with vLLM on TPUs (output of describe)",
    )
    @recorded(
        "queued-project-number",
        "Queued resources name the project by its number in nodeSpec.parent and node.queuedResource. In the "
        "emulator, a switch turns this on.",
        source="docs.cloud.google.com/ai-hypercomputer, Serve Qwen2-7B with vLLM on TPUs (output of describe)",
    )
    def _show_spec(self, spec: Fields) -> None:
        node = spec.get("node", {})
        if self.switches.undocumented_fields:
            node.update(bootDisk={}, useTpuVm=True)
        if self.switches.numbers_in_names:
            for holder, name in ((spec, "parent"), (node, "queuedResource")):
                if name in holder:
                    holder[name] = holder[name].replace(f"projects/{self.project}/", f"projects/{self.project_number}/")
