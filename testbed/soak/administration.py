"""What administrators and hardware do meanwhile: policies, quotas, layouts and labels change, nodes are shut, cards fall sick.

In: a control plane, an installation, the checker, random choices. Out: changes until cancelled; after `undo` all is as it was. What a quota
lets nobody have is checked each second, once its limit has stood for longer than any write takes.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from apportion.agent.devices.simulated.state import StateFile
from testbed.api import Json
from testbed.checker import Checker
from testbed.controlplane import ControlPlane
from testbed.installation import Installation
from testbed.soak import workload
from testbed.soak.insistence import insist

_PAUSE_SECONDS: Final = (1.0, 6.0)
_SICK_SECONDS: Final = (2.0, 20.0)
_SHUT_SECONDS: Final = (3.0, 20.0)
_SETTLED_SECONDS: Final = 25.0
"""How long a limit stands before what is beyond it counts: a leader may die, and its last write come late."""
_OWN: Final = "/apis/apportion.dev/v1alpha1"
_QUOTAS: Final = f"{_OWN}/acceleratorquotas"
_LAYOUTS: Final = f"{_OWN}/partitionlayouts"
_DEFRAGS: Final = f"{_OWN}/defragpolicies"
_PROFILE: Final = "1g.10gb"
_NAME: Final = "soak"


class Administration:
    """`run` changes things until cancelled; `undo` makes an end of it. `counts` says what was done how often."""

    def __init__(
        self, cluster: ControlPlane, installation: Installation, checker: Checker, choose: random.Random
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.violations: set[str] = set()
        self._api = cluster.api
        self._installation = installation
        self._checker = checker
        self._choose = choose
        self._limit: tuple[int | None, float] = None, 0.0
        """What pods of the namespace with the gate may have together, and since when (`time.monotonic()`)."""
        self._had = 0
        self._aside: set[asyncio.Task[None]] = set()
        self._acts: dict[Callable[[], Awaitable[None]], int] = {
            self._policy: 4, self._quota: 3, self._layout: 4, self._sick: 3, self._shut: 2, self._label: 1, self._defrag: 1,
        }  # fmt: skip

    async def run(self) -> None:
        """Change one thing after the other."""
        try:
            while True:
                await self._choose.choices(list(self._acts), list(self._acts.values()))[0]()
                await asyncio.sleep(self._choose.uniform(*_PAUSE_SECONDS))
        finally:
            for task in self._aside:
                task.cancel()

    def look(self) -> None:
        """Note what pods have beyond a quota that has stood for a while."""
        limit, since = self._limit
        have = sum(
            1
            for claim in self._checker.claims.values()
            if claim["metadata"]["namespace"].startswith("gated")
            for row in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results") or ()
            if "-mig-1g10gb-" in row["device"]
        )
        stood = time.monotonic() - since > _SETTLED_SECONDS
        if limit is not None and stood and have > max(limit, self._had):
            self.violations.add(f"{have} partitions {_PROFILE} are had, and the quota says {limit}")
        self._had = have

    async def undo(self) -> None:
        """Make everything as it was before."""
        for path in (_QUOTAS, _LAYOUTS, _DEFRAGS):
            await self._lose(path)
        self._limit = None, time.monotonic()
        for node in self._installation.nodes:
            self._set_faults(node, sick=[], lost=[])
            await self._set_shut(node, shut=False)
        await self._set_label("shared-0", "shared")
        partitions = {"warm": None, "waitForReady": None}
        others = dict.fromkeys(("strategy", "queue", "preemption"))
        await self._set_policy(
            others
            | workload.POLICY["spec"]
            | {"partitions": workload.POLICY["spec"]["partitions"] | partitions}
        )

    async def _policy(self) -> None:
        """Change who goes first, who is evicted, what is kept."""
        choose = self._choose
        spec: Json = {
            "strategy": choose.choice(("LeastFragmentation", "Pack", "Spread", "FirstFit")),
            "queue": {
                "order": choose.choice(("Priority", "FIFO")),
                "reserveAfter": choose.choice(("0s", "3s", "60s")),
                "mostReserved": choose.choice((1, 8)),
            },
            "preemption": {
                "mode": choose.choice(("Never", "LowerPriority", "LowerPriority")),
                "after": "1s",
                "minRuntime": choose.choice(("0s", "10s")),
                "cooldown": "5s",
            },
            "partitions": {
                "idleTimeout": choose.choice(("0s", "2s", "30s")),
                "warm": choose.choice(([], [{"profile": "1g.10gb", "count": 2}])),
                "waitForReady": choose.random() < 0.8,
            },
            "unusedTimeout": choose.choice(("2s", "5s")),
        }
        await self._set_policy(spec)
        self.counts["policy changed"] += 1

    async def _quota(self) -> None:
        """Limit what the namespace with the gate has, or let it have all."""
        limit = self._choose.choice((None, 0, 2, 4, 8))
        if limit is None:
            await self._lose(_QUOTAS)
        else:
            resources = [{"name": "small", "profile": _PROFILE, "limit": limit}]
            spec = {
                "namespaceSelector": {"matchLabels": {"apportion.dev/managed": "true"}},
                "resources": resources,
            }
            await self._have(_QUOTAS, "AcceleratorQuota", spec)
        self._limit = limit, time.monotonic()
        self.counts["quota changed"] += 1

    async def _layout(self) -> None:
        """Cut a card for good, cut it otherwise, or give it up."""
        partitions = self._choose.choice(
            (
                None,
                [{"profile": "1g.10gb", "count": 3}],
                [{"profile": "3g.40gb", "count": 1}, {"profile": "1g.10gb", "count": 2}],
                [{"profile": "2g.20gb", "count": 2}],
            )
        )
        if partitions is None:
            await self._lose(_LAYOUTS)
        else:
            address = 'device.attributes["resource.kubernetes.io"].pciBusID'
            spec = {
                "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "h100-1"}},
                "devices": [
                    {
                        "cel": {
                            "expression": f'device.driver == "{workload.GPU}" && {address}.endsWith("1b:00.0")'
                        }
                    }
                ],
                "partitions": partitions,
            }
            await self._have(_LAYOUTS, "PartitionLayout", spec)
        self.counts["layout changed"] += 1

    async def _defrag(self) -> None:
        """Have whole cards freed by evictions, or not."""
        if self._choose.random() < 0.3:
            await self._lose(_DEFRAGS)
        else:
            spec = {
                "free": {"wholeCards": {"deviceClass": workload.GPU, "count": self._choose.choice((1, 2))}},
                "mode": "Evict",
                "schedule": "* * * * *",
                "window": "50s",
                "cooldown": "0s",
                "moveTimeout": "20s",
            }
            await self._have(_DEFRAGS, "DefragPolicy", spec)
        self.counts["defragmentation changed"] += 1

    async def _sick(self) -> None:
        """Let a card fall sick, or answer nothing, for a while."""
        node = self._choose.choice(sorted(self._installation.nodes))
        card = "npu" if node.startswith("ascend") else "gpu"
        how = self._choose.choice(("sick", "lost"))
        self._set_faults(node, **{how: [f"{card}-{self._choose.randrange(2)}"]})
        self._later(self._choose.uniform(*_SICK_SECONDS), self._heal, node)
        self.counts[f"card {how}"] += 1

    async def _heal(self, node: str) -> None:
        self._set_faults(node, sick=[], lost=[])

    async def _shut(self) -> None:
        """Cordon a node for a while."""
        node = self._choose.choice(sorted(self._installation.nodes))
        await self._set_shut(node, shut=True)
        self._later(self._choose.uniform(*_SHUT_SECONDS), self._open, node)
        self.counts["node shut"] += 1

    async def _open(self, node: str) -> None:
        await self._set_shut(node, shut=False)

    async def _label(self) -> None:
        """Have the GPUs of a node shared, or not."""
        await self._set_label("shared-0", self._choose.choice(("shared", "shared", "whole")))
        self.counts["node labelled"] += 1

    def _later(self, seconds: float, act: Callable[[str], Awaitable[None]], node: str) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            await act(node)

        task = asyncio.create_task(wait())
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    def _set_faults(self, node: str, **faults: Any) -> None:
        with StateFile(self._installation.folder(node) / "simulation.yaml.state.json").changing() as state:
            state["faults"] |= faults

    async def _set_shut(self, node: str, *, shut: bool) -> None:
        await insist(lambda: self._api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": shut}}))

    async def _set_label(self, node: str, value: str) -> None:
        body = {"metadata": {"labels": {"example.com/gpus": value}}}
        await insist(lambda: self._api.patch(f"/api/v1/nodes/{node}", body))

    async def _set_policy(self, spec: Json) -> None:
        await insist(lambda: self._api.patch(f"{_OWN}/allocationpolicies/soak", {"spec": spec}))

    async def _have(self, path: str, kind: str, spec: Json) -> None:
        """Create or change an object."""
        body = {
            "apiVersion": "apportion.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": _NAME},
            "spec": spec,
        }
        await insist(
            lambda: self._api.patch(f"{path}/{_NAME}", body, "apply", fieldManager="soak", force="true")
        )

    async def _lose(self, path: str) -> None:
        await insist(lambda: self._api.delete(f"{path}/{_NAME}"))
