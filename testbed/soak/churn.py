"""Objects that come and go: in a namespace with the gate and in one without.

In: a control plane, random choices. Out: units made and deleted until cancelled, whatever the API server does meanwhile.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Final

from testbed.api import Json
from testbed.controlplane import ControlPlane
from testbed.soak import workload
from testbed.soak.insistence import insist
from testbed.soak.workload import Unit

MOST_UNITS: Final = 24
"""More than fit: a free device is taken at once, and what lost its devices goes on waiting."""
_FORCED: Final = 0.2
"""Share of pods that are deleted by force."""
_PAUSE_SECONDS = (0.05, 0.6)
_MADE: Final = 409
"""An object that is there already was made by a request whose answer got lost."""
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_POLICIES = "/apis/apportion.dev/v1alpha1/allocationpolicies"
_RESOURCE = "/apis/resource.k8s.io/v1"


class Churn:
    """Makes units and deletes others. `made` counts the pods that were made, `forced` those that were deleted by force."""

    def __init__(self, cluster: ControlPlane, choose: random.Random, *, preempting: bool = False) -> None:
        self.made = 0
        self.forced = 0
        self.namespaces: list[str] = []
        """The first one has the gate."""
        self._preempting = preempting
        self._cluster = cluster
        self._choose = choose
        self._live: list[tuple[str, Unit]] = []
        self._urgent = 0

    async def prepare(self) -> None:
        """Make namespaces, templates, the policy, classes of priority, and the claims of others."""
        api = self._cluster.api
        for name, value in (*workload.PRIORITIES.items(), (workload.URGENT, 10_000)):
            policy = "PreemptLowerPriority" if self._preempting else "Never"
            await api.create(
                _CLASSES, {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            )
        await api.create(_POLICIES, workload.POLICY)
        managed = {"apportion.dev/managed": "true"}
        self.namespaces = [
            await self._cluster.make_namespace("gated", managed),
            await self._cluster.make_namespace("plain"),
        ]
        for namespace in self.namespaces:
            for template in workload.templates():
                await api.create(f"{_RESOURCE}/namespaces/{namespace}/resourceclaimtemplates", template)
        idle = _claims(await self._cluster.make_namespace("idle"))
        await asyncio.gather(*(api.create(idle, claim) for claim in workload.idle_claims()))

    async def run(self) -> None:
        """Make and delete until cancelled."""
        kinds: Counter[str] = Counter()
        while True:
            namespace = self._choose.choice(self.namespaces)
            kinds[namespace] += 1
            unit = workload.unit(f"u-{kinds[namespace]:06d}", self._choose)
            self._live.append((namespace, unit))
            await self.make(namespace, unit)
            while len(self._live) > MOST_UNITS:
                await self._end(*self._live.pop(self._choose.randrange(len(self._live))))
            await asyncio.sleep(self._choose.uniform(*_PAUSE_SECONDS))

    async def make(self, namespace: str, unit: Unit) -> None:
        """Make the objects of a unit."""
        api = self._cluster.api
        for claim in unit.claims:
            await insist(partial(api.create, _claims(namespace), claim), done=(_MADE,))
        for pod in unit.pods:
            await insist(partial(api.create, _pods(namespace), pod), done=(_MADE,))
            self.made += 1

    async def end_some(self, count: int) -> None:
        """Delete so many units, as far as there are any."""
        for _ in range(min(count, len(self._live))):
            await self._end(*self._live.pop(self._choose.randrange(len(self._live))))

    async def make_urgent(self) -> None:
        """Make pods in the namespace with the gate whose turn is before all others'; they end together."""
        self._urgent += 1
        unit = Unit((), tuple(workload.urgent_pods(f"urgent-{self._urgent:03d}")))
        self._live.append((self.namespaces[0], unit))
        await self.make(self.namespaces[0], unit)

    async def delete_all(self) -> None:
        """Delete every pod and every claim."""
        api = self._cluster.api
        self._live.clear()
        for namespace in self.namespaces:
            await insist(partial(api.delete_all, _pods(namespace)))
            await insist(partial(api.delete_all, _claims(namespace)))

    async def _end(self, namespace: str, unit: Unit) -> None:
        """Delete the objects of a unit in any order, also claims that pods still use."""
        paths = [*_named(_claims(namespace), unit.claims), *_named(_pods(namespace), unit.pods)]
        self._choose.shuffle(paths)
        for path in paths:
            forced = "/pods/" in path and self._choose.random() < _FORCED
            self.forced += forced
            await insist(partial(self._cluster.api.delete, path, grace=0 if forced else None))


def _claims(namespace: str) -> str:
    return f"{_RESOURCE}/namespaces/{namespace}/resourceclaims"


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def _named(collection: str, objects: Iterable[Json]) -> list[str]:
    return [f"{collection}/{raw['metadata']['name']}" for raw in objects]
