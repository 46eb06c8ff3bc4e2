"""What happens to nodes and cards: they fall sick, are shut, are tainted, are shared or not, and are deleted and registered anew.

In: a control plane, an installation, random choices. Out: changes, most of which end by themselves; after `undo` all is as it was.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from apportion.agent.devices.simulated.state import StateFile
from testbed import taintrules
from testbed.checker import Checker
from testbed.controlplane import ControlPlane
from testbed.installation import Installation
from testbed.soak.aside import Aside
from testbed.soak.insistence import insist, make, remove
from testbed.soak.specs import GPU, NPU

_SICK_SECONDS: Final = (2.0, 20.0)
_SHUT_SECONDS: Final = (3.0, 20.0)
_GONE_SECONDS: Final = (0.0, 3.0, 70.0)
"""How long a node is away: after 40 s the pods on it are deleted by the garbage collector of pods, after a minute its Partitions."""
_ATTENDED_SECONDS: Final = 20.0
"""After how long an agent that was started has looked at its hardware, also if it is killed in between."""
_TAINT: Final = "soak"
_GONE: Final = 404


class NodeChanges:
    """`acts` are changes, by how often they come."""

    def __init__(
        self,
        cluster: ControlPlane,
        installation: Installation,
        checker: Checker,
        aside: Aside,
        choose: random.Random,
    ) -> None:
        self.acts: Mapping[Callable[[], Coroutine[Any, Any, str]], int] = {
            self._sick: 3, self._shut: 2, self._label: 1, self._taint: 2, self._register_anew: 1
        }  # fmt: skip
        """Each returns in words what it did."""
        self._api, self._taints = cluster.api, taintrules.collection(cluster.version)
        self._installation, self._checker = installation, checker
        self._aside, self._choose = aside, choose

    async def undo(self) -> None:
        """Make everything as it was before."""
        for node in self._installation.nodes:
            self._set_faults(node, sick=[], lost=[])
            await self._set_shut(node, shut=False)
        await self._set_label("shared")
        await self._untaint()

    async def _sick(self) -> str:
        """Let a card fall sick, or answer nothing, for a while."""
        node = self._drawn()
        card = "npu" if node.startswith("ascend") else "gpu"
        how = self._choose.choice(("sick", "lost"))
        self._set_faults(node, **{how: [f"{card}-{self._choose.randrange(2)}"]})

        async def heal() -> None:
            self._set_faults(node, sick=[], lost=[])

        self._aside.later(self._choose.uniform(*_SICK_SECONDS), heal)
        return f"card {how}"

    async def _shut(self) -> str:
        """Cordon a node for a while."""
        node = self._drawn()
        await self._set_shut(node, shut=True)
        self._aside.later(self._choose.uniform(*_SHUT_SECONDS), lambda: self._set_shut(node, shut=False))
        return "node shut"

    async def _label(self) -> str:
        """Have the GPUs of a node shared, or not."""
        await self._set_label(self._choose.choice(("shared", "shared", "whole")))
        return "node labelled"

    async def _taint(self) -> str:
        """Taint a card for a while, and have pods evicted from it, or not."""
        node = self._drawn()
        driver, card = (NPU, "npu-1") if node.startswith("ascend") else (GPU, "gpu-1")
        effect = self._choose.choice(("NoSchedule", "NoExecute"))
        body = {
            "metadata": {"name": _TAINT},
            "spec": {
                "deviceSelector": {"driver": driver, "pool": node, "device": card},
                "taint": {"key": "example.com/soak", "effect": effect},
            },
        }
        await self._untaint()
        await make(self._api, self._taints, body)
        self._aside.later(self._choose.uniform(*_SICK_SECONDS), self._untaint)
        return f"card tainted {effect}"

    async def _register_anew(self) -> str:
        """Delete a node whose kubelet and agent are stopped; after a while they start, and the node is another one of the same name."""
        # The agent of the first one is never ended, because its memory is judged.
        node = self._choose.choice(sorted(self._installation.nodes)[1:])
        seconds = self._choose.choice(_GONE_SECONDS)
        kubelet = self._installation.kubelets[node]
        await kubelet.stop()
        await self._installation.agents[node].stop()
        self._checker.unattended.add(node)
        await remove(self._api, f"/api/v1/nodes/{node}")
        await asyncio.sleep(seconds)
        await kubelet.start()
        await insist(lambda: self._installation.renew_agent(node))

        async def attend() -> None:
            self._checker.unattended.discard(node)

        self._aside.later(_ATTENDED_SECONDS, attend)
        return f"node registered anew after {seconds:g} s"

    def _drawn(self) -> str:
        return self._choose.choice(sorted(self._installation.nodes))

    def _set_faults(self, node: str, **faults: Any) -> None:
        with StateFile(self._installation.folder(node) / "simulation.yaml.state.json").changing() as state:
            state["faults"] |= faults

    async def _set_shut(self, node: str, *, shut: bool) -> None:
        body = {"spec": {"unschedulable": shut}}
        await insist(lambda: self._api.patch(f"/api/v1/nodes/{node}", body), done=(_GONE,))

    async def _set_label(self, value: str) -> None:
        body = {"metadata": {"labels": {"example.com/gpus": value}}}
        await insist(lambda: self._api.patch("/api/v1/nodes/shared-0", body), done=(_GONE,))

    async def _untaint(self) -> None:
        await remove(self._api, f"{self._taints}/{_TAINT}")
