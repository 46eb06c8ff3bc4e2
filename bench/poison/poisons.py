"""The objects of a storm: what one tenant asks for to the damage of others.

In: the size of the cluster and of the storm. Out: API objects. None of them can take a device away from others by right:
each claim is either one that no node can serve, or one of a few.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Final

from apportion.api.contract import GATE
from apportion.cluster.kinds import CLAIMS, PODS, RESOURCE, VOLUME_CLAIMS, VOLUMES, ResourceKind
from apportion.dra.groupmembership import GROUP, LEAST
from bench.endtoend.workload import TEMPLATE, pod
from bench.h100node import CARDS
from testbed.api import Json

TEMPLATES: Final = ResourceKind(
    RESOURCE, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True
)
COSTLY_AT_ONCE: Final = 10
"""Claims with costly selectors that come at the beginning."""
_SELECTORS: Final = 4
_LOOP: Final = 90
"""Numbers in each of the two nested lists: the API server takes up to 240, by its limit of cost."""
_QUEUED: Final = 8
"""Different templates of the queue."""
_CLASS: Final = "gpu.apportion.dev"
_ARCHITECTURE: Final = 'device.attributes["gpu.apportion.dev"].architecture == "Hopper"'
_UUID: Final = 'device.attributes["gpu.apportion.dev"].uuid'
_NUMA_NODE: Final = 'device.attributes["resource.kubernetes.io"].numaNode'
_FEW: Final = 24
"""Pods of a poison whose pods could get a device each, where there are devices enough."""
_ATTACKED: Final = 4
_VOLUME_SIZE: Final = {"storage": "1Gi"}


class Poison(StrEnum):
    """What the attacker does."""

    SELECTOR = "selector"
    """Claims without a pod whose selectors cost much."""
    GANG = "gang"
    """A group of pods that needs more devices than there are."""
    QUEUE = "queue"
    """The claims of one Job, none of which can be served, and an Event about each."""
    NEVER = "never"
    """Pods that can never start: a PersistentVolumeClaim or a scheduler that does not exist."""
    ZONE = "zone"
    """Pods with a volume in a zone without nodes."""
    FINALIZERS = "finalizers"
    """Claims in use whose finalizers the attacker clears, to delete them."""


@dataclass(frozen=True, slots=True)
class PoisonObject:
    """One object of the attacker."""

    poison: Poison
    kind: ResourceKind
    body: Json


@dataclass(frozen=True, slots=True)
class Storm:
    """What comes at once, and how much of it."""

    poisons: tuple[Poison, ...]
    devices: int
    """Whole GPUs in the cluster."""
    claims: int
    """Claims of the one Job."""
    gang: int
    """Pods of the group."""

    @property
    def few(self) -> int:
        """How many pods there are of a poison whose pods could get a device each."""
        return max(min(_FEW, self.devices // CARDS), 1)

    @property
    def most_held(self) -> int:
        """How many devices the attacker can have at most, whatever the operator does about pods that never start."""
        pods = {
            Poison.NEVER: 2 * self.few,
            Poison.ZONE: self.few,
            Poison.FINALIZERS: len(self.attacked()),
        }
        return sum(number for poison, number in pods.items() if poison in self.poisons)

    def objects(self) -> Iterator[PoisonObject]:
        """Yield all objects, one of each poison in turn."""
        streams = [self._stream(poison) for poison in self.poisons]
        for row in zip_longest(*streams):
            yield from (each for each in row if each is not None)

    def templates(self) -> Iterator[Json]:
        """Yield the ResourceClaimTemplates beside that of one whole GPU: more devices of one node than a node has."""
        for number in range(_QUEUED):
            selectors = [_selector(_ARCHITECTURE)] if number % 2 else []
            claim = _claim_spec(count=CARDS + 1 + number, selectors=selectors)
            yield {"metadata": {"name": _queued(number)}, "spec": {"spec": claim}}

    def volumes(self, namespace: str) -> Iterator[tuple[ResourceKind, Json]]:
        """Yield the volumes of the zone that no node is in, each bound to its claim."""
        for number in range(self.few if Poison.ZONE in self.poisons else 0):
            name = _zonal(number)
            zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["nowhere"]}
            yield (
                VOLUMES,
                {
                    "metadata": {"name": name},
                    "spec": {
                        "capacity": _VOLUME_SIZE,
                        "accessModes": ["ReadWriteOnce"],
                        "claimRef": {"namespace": namespace, "name": name},
                        "csi": {"driver": "none", "volumeHandle": name},
                        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
                    },
                },
            )
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": _VOLUME_SIZE}}
            yield (
                VOLUME_CLAIMS,
                {"metadata": {"name": name}, "spec": spec | {"storageClassName": "", "volumeName": name}},
            )

    def attacked(self) -> Mapping[str, str]:
        """Return the pods whose claims are attacked, by claim."""
        return {f"used-{number}": f"user-{number}" for number in range(min(_ATTACKED, self.few))}

    def _stream(self, poison: Poison) -> Iterator[PoisonObject]:
        match poison:
            case Poison.SELECTOR:
                yield from (costly(number) for number in range(COSTLY_AT_ONCE))
            case Poison.GANG:
                yield from (_pod(poison, self._member(number)) for number in range(self.gang))
            case Poison.QUEUE:
                yield from (_pod(poison, _of_job(number)) for number in range(self.claims))
            case Poison.NEVER:
                for number in range(self.few):
                    mistyped = _with_volume(f"mistyped-{number}", "daat")
                    yield _pod(poison, mistyped)
                    yield _pod(poison, _scheduled(f"unknown-{number}", "no-such-scheduler"))
            case Poison.ZONE:
                for number in range(self.few):
                    yield _pod(poison, _with_volume(_zonal(number), _zonal(number)))
            case Poison.FINALIZERS:
                for claim, user in self.attacked().items():
                    body = {"metadata": {"name": claim}, "spec": _claim_spec()}
                    yield PoisonObject(poison, CLAIMS, body)
                    yield _pod(poison, _claiming(pod(user), {"resourceClaimName": claim}))

    def _member(self, number: int) -> Json:
        found = pod(f"member-{number:05d}")
        found["metadata"] |= {"labels": {GROUP: "gang"}, "annotations": {LEAST: str(self.gang)}}
        return found


def costly(number: int) -> PoisonObject:
    """Return a claim without a pod, with selectors of texts that no other number has; no device matches all of them.

    Each walks two nested lists. Odd numbers read what differs from device to device, even ones what has few values: these
    cost little as long as devices with equal values share an evaluation, so that a limit on the cost lets them pass.
    """
    if number % 2:
        read, never = f"size({_UUID})", f'{_UUID} == "none"'
    else:
        read, never = _NUMA_NODE, f"{_NUMA_NODE} < 0"
    numbers = ",".join(map(str, range(_LOOP)))
    texts = [
        f"[{numbers}].all(a, [{numbers}].all(b, a * b + {read} + {number * _SELECTORS + each} >= 0))"
        for each in range(_SELECTORS)
    ]
    # Evaluated last of all, so that the others are evaluated in full.
    texts[-1] += f" && {never}"
    metadata = {"name": f"costly-{number:05d}", "annotations": {GATE: "Immediate"}}
    spec = _claim_spec(selectors=[_selector(text) for text in texts])
    return PoisonObject(Poison.SELECTOR, CLAIMS, {"metadata": metadata, "spec": spec})


def _of_job(number: int) -> Json:
    found = _claiming(pod(f"job-{number:05d}"), {"resourceClaimTemplateName": _queued(number % _QUEUED)})
    found["metadata"]["labels"] = {"batch.kubernetes.io/job-name": "job"}
    return found


def _with_volume(name: str, claim: str) -> Json:
    found = pod(name)
    found["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return found


def _scheduled(name: str, scheduler: str) -> Json:
    found = pod(name)
    found["spec"]["schedulerName"] = scheduler
    return found


def _claiming(body: Json, source: Json) -> Json:
    body["spec"]["resourceClaims"] = [{"name": TEMPLATE, **source}]
    return body


def _pod(poison: Poison, body: Json) -> PoisonObject:
    return PoisonObject(poison, PODS, body)


def _claim_spec(count: int = 1, selectors: list[Json] | None = None) -> Json:
    exactly: Json = {"deviceClassName": _CLASS, "allocationMode": "ExactCount", "count": count}
    if selectors:
        exactly["selectors"] = selectors
    return {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}


def _selector(text: str) -> Json:
    return {"cel": {"expression": text}}


def _queued(number: int) -> str:
    return f"queued-{number}"


def _zonal(number: int) -> str:
    return f"zonal-{number}"
