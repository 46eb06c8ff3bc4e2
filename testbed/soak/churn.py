"""Objects that come and go: in namespaces with the gate and in one without, and namespaces that come and go with all that is in them.

In: a control plane, random choices. Out: units made and deleted until cancelled, whatever the API server does meanwhile.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final

from testbed.api import Json
from testbed.controlplane import ControlPlane
from testbed.soak import specs, workload
from testbed.soak.insistence import insist, make, remove
from testbed.soak.workload import Unit

MOST_UNITS: Final = 24
"""More than fit: a free device is taken at once, and what lost its devices goes on waiting."""
_FORCED: Final = 0.2
"""Share of pods that are deleted by force."""
_PAUSE_SECONDS = (0.05, 0.6)
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_POLICIES = "/apis/apportion.dev/v1alpha1/allocationpolicies"
_RESOURCE = "/apis/resource.k8s.io/v1"
_MANAGED: Final = {"apportion.dev/managed": "true"}
_SHORT_LIVED_UNITS: Final = 6
_SHORT_LIVED_SECONDS: Final = (1.0, 12.0)


class Churn:
    """Makes units and deletes others. `made` counts the pods that were made, `forced` those that were deleted by force."""

    def __init__(self, cluster: ControlPlane, choose: random.Random, *, preempting: bool = False) -> None:
        self.made = 0
        self.forced = 0
        self.namespaces: list[str] = []
        """The first one has the gate."""
        self.gated: list[str] = []
        """Those with the gate."""
        self.short_lived: list[str] = []
        """Namespaces that were deleted, or will be soon."""
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
        gated = ((name, _MANAGED | {workload.TEAM: name}) for name in (workload.GATED, *workload.TEAMS))
        for name, labels in (*gated, ("plain", {})):
            self.namespaces.append(await self._cluster.make_namespace(name, labels))
            await self._furnish(self.namespaces[-1])
            self.gated += self.namespaces[-1:] if labels else ()
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
        for collection, raw in _objects(namespace, unit):
            await make(self._cluster.api, collection, raw)
        self.made += len(unit.pods)

    async def short_lived_namespace(self) -> None:
        """Make a namespace, with the gate or without, and some units in it, and delete it with them."""
        name = f"short-lived-{len(self.short_lived)}"
        self.short_lived.append(name)
        labels = self._choose.choice(({}, _MANAGED, _MANAGED))
        body = {"metadata": {"name": name, "labels": labels}}
        await make(self._cluster.api, "/api/v1/namespaces", body)
        await self._furnish(name)
        for number in range(_SHORT_LIVED_UNITS):
            await self.make(name, workload.unit(f"p-{number}", self._choose))
        await asyncio.sleep(self._choose.uniform(*_SHORT_LIVED_SECONDS))
        await remove(self._cluster.api, f"/api/v1/namespaces/{name}")

    async def end_some(self, count: int) -> None:
        """Delete so many units, as far as there are any."""
        for _ in range(min(count, len(self._live))):
            await self._end(*self._live.pop(self._choose.randrange(len(self._live))))

    async def make_urgent(self) -> None:
        """Make pods in the namespace with the gate whose turn is before all others'; they end together."""
        self._urgent += 1
        unit = Unit(pods=tuple(workload.urgent_pods(f"urgent-{self._urgent:03d}")))
        self._live.append((self.namespaces[0], unit))
        await self.make(self.namespaces[0], unit)

    async def reserve_nothing(self) -> None:
        """Have no devices kept free for those that wait longest."""
        body = {"spec": {"queue": {"mostReserved": 0}}}
        await insist(partial(self._cluster.api.patch, f"{_POLICIES}/soak", body))

    async def delete_all(self) -> None:
        """Delete every controller, pod and claim."""
        api = self._cluster.api
        self._live.clear()
        for namespace in self.namespaces:
            for collection in (_replicas(namespace), _jobs(namespace)):
                await insist(partial(api.delete_all, collection, propagationPolicy="Foreground"))
            await insist(partial(api.delete_all, _pods(namespace)))
            await insist(partial(api.delete_all, _claims(namespace)))

    async def _furnish(self, namespace: str) -> None:
        """Make the templates in a namespace."""
        for template in specs.templates():
            path = f"{_RESOURCE}/namespaces/{namespace}/resourceclaimtemplates"
            await make(self._cluster.api, path, template)

    async def _end(self, namespace: str, unit: Unit) -> None:
        """Delete the objects of a unit in any order, also claims that pods still use."""
        api, found = self._cluster.api, [*_objects(namespace, unit)]
        self._choose.shuffle(found)
        for collection, raw in found:
            name = raw["metadata"]["name"]
            if collection in (_replicas(namespace), _jobs(namespace)):
                how = self._choose.choice(("Background", "Foreground"))
                only = f"metadata.name={name}"
                await insist(partial(api.delete_all, collection, fieldSelector=only, propagationPolicy=how))
                continue
            forced = collection == _pods(namespace) and self._choose.random() < _FORCED
            self.forced += forced
            await insist(partial(api.delete, f"{collection}/{name}", grace=0 if forced else None))


def _objects(namespace: str, unit: Unit) -> Iterator[tuple[str, Json]]:
    """Yield the objects of a unit, each with its collection."""
    for claim in unit.claims:
        yield _claims(namespace), claim
    for pod in unit.pods:
        yield _pods(namespace), pod
    if unit.replicas is not None:
        yield _replicas(namespace), unit.replicas
    if unit.job is not None:
        yield _jobs(namespace), unit.job


def _claims(namespace: str) -> str:
    return f"{_RESOURCE}/namespaces/{namespace}/resourceclaims"


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def _replicas(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/replicasets"


def _jobs(namespace: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"
