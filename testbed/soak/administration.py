"""What administrators and hardware do meanwhile: policies, quotas, layouts, namespaces and nodes change, and something is deleted by mistake.

In: a control plane, an installation, the checker, random choices. Out: changes until cancelled; after `undo` all is as it was.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final

from testbed.api import Json
from testbed.checker import Checker
from testbed.controlplane import ControlPlane
from testbed.installation import Installation
from testbed.soak import workload
from testbed.soak.aside import Aside
from testbed.soak.churn import Churn
from testbed.soak.insistence import apply, insist, remove
from testbed.soak.nodechanges import NodeChanges
from testbed.soak.quotas import Quotas
from testbed.soak.removals import Removals
from testbed.soak.specs import GPU

_PAUSE_SECONDS: Final = (1.0, 6.0)
_OWN: Final = "/apis/apportion.dev/v1alpha1"
_LAYOUTS: Final = f"{_OWN}/partitionlayouts"
_DEFRAGS: Final = f"{_OWN}/defragpolicies"
_NAME: Final = "soak"
_GONE: Final = 404


class Administration:
    """`run` changes things until cancelled; `undo` makes an end of it. `counts` says what was done how often."""

    def __init__(
        self,
        cluster: ControlPlane,
        installation: Installation,
        checker: Checker,
        churn: Churn,
        choose: random.Random,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.quotas = Quotas(cluster.api, checker, choose)
        self._api = cluster.api
        self._choose = choose
        self._aside = Aside()
        self._churn = churn
        self._nodes = NodeChanges(cluster, installation, checker, self._aside, choose)
        self._removals = Removals(cluster.api, self._aside, choose, churn.gated)
        self._acts: dict[Callable[[], Coroutine[Any, Any, str]], int] = {
            self._policy: 4, self._layout: 4, self._defrag: 1, self._namespace: 2,
            **self.quotas.acts, **self._nodes.acts, **self._removals.acts,
        }  # fmt: skip

    async def run(self) -> None:
        """Change one thing after the other."""
        await self._removals.prepare()
        while True:
            act = self._choose.choices(list(self._acts), list(self._acts.values()))[0]
            # What is begun is done to its end: a node that was deleted comes back.
            self.counts[await self._aside.finish(act())] += 1
            await asyncio.sleep(self._choose.uniform(*_PAUSE_SECONDS))

    async def undo(self) -> None:
        """Make everything as it was before."""
        await self._aside.close()
        for path in (_LAYOUTS, _DEFRAGS):
            await remove(self._api, f"{path}/{_NAME}")
        await self.quotas.undo()
        await self._nodes.undo()
        await self._removals.undo()
        partitions = {"warm": None, "waitForReady": None}
        others = dict.fromkeys(("strategy", "queue", "preemption"))
        await self._set_policy(
            others
            | workload.POLICY["spec"]
            | {"partitions": workload.POLICY["spec"]["partitions"] | partitions}
        )

    async def _policy(self) -> str:
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
        return "policy changed"

    async def _layout(self) -> str:
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
            await remove(self._api, f"{_LAYOUTS}/{_NAME}")
        else:
            address = 'device.attributes["resource.kubernetes.io"].pciBusID'
            chosen = f'device.driver == "{GPU}" && {address}.endsWith("1b:00.0")'
            spec = {
                "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "h100-1"}},
                "devices": [{"cel": {"expression": chosen}}],
                "partitions": partitions,
            }
            await apply(self._api, _LAYOUTS, "PartitionLayout", _NAME, spec)
        return "layout changed"

    async def _defrag(self) -> str:
        """Have whole cards freed by evictions, or not."""
        if self._choose.random() < 0.3:
            await remove(self._api, f"{_DEFRAGS}/{_NAME}")
        else:
            spec = {
                "free": {"wholeCards": {"deviceClass": GPU, "count": self._choose.choice((1, 2))}},
                "mode": "Evict",
                "schedule": "* * * * *",
                "window": "50s",
                "cooldown": "0s",
                "moveTimeout": "20s",
            }
            await apply(self._api, _DEFRAGS, "DefragPolicy", _NAME, spec)
        return "defragmentation changed"

    async def _namespace(self) -> str:
        """Have a namespace come and go."""
        self._aside.start(self._churn.short_lived_namespace())
        return "namespace made and deleted"

    async def _set_policy(self, spec: Json) -> None:
        """Change the policy, if it is there."""
        await insist(
            lambda: self._api.patch(f"{_OWN}/allocationpolicies/soak", {"spec": spec}), done=(_GONE,)
        )
