"""A cluster that has been running for a while: nodes, slices, bound pods and allocated claims, as etcd stores them.

In: how many of each. Out: etcd's keys and JSON values. The API server reads JSON from etcd whatever it writes itself.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import orjson

from apportion.api.contract import AGENT_FINALIZER
from apportion.cluster.kinds import CLAIMS, NODES, PARTITIONS, PODS, SLICES, ResourceKind
from apportion.errors import BrokenInput
from bench.h100node import CARDS, MOST_CUT, PROFILE, PROFILE_SELECTORS, RESOURCES, SIMULATION
from bench.scale.objects import DRIVER, pod, request, whole_gpus
from testbed.api import Json
from testbed.publishedslices import published_slices

NAMESPACE: Final = "settled"
"""Where the pods and claims are that were there before the operator."""
_FOLDERS: Final = {NODES.plural: "minions", PARTITIONS.plural: f"{PARTITIONS.group}/{PARTITIONS.plural}"}
"""Folders of kinds in etcd that do not have the kind's plural name: kube-apiserver's `specialDefaultResourcePrefixes`, and custom resources."""
_CUT: Final = CARDS - 1
"""The card of each node that is cut, where there are partitions."""
_UIDS: Final = uuid.UUID("5d2cbb5a-3b0e-4b76-9f3e-1b2a3c4d5e6f")
_MADE: Final = "2026-01-01T00:00:00Z"
_OPERATOR: Final = "apportion-operator"

Row = tuple[str, bytes]
"""Key and value."""


class Published(StrEnum):
    """What the slices of a node hold."""

    GPU = "gpu"
    """The eight whole GPUs, in one slice."""
    MIG = "mig"
    """All that the agent publishes: counters, eight GPUs and 200 MIG placements, in nine slices."""


@dataclass(frozen=True, slots=True)
class World:
    """A cluster's size. The first pods have a claim each, for one GPU; the others have none."""

    nodes: int
    pods: int
    claims: int
    published: Published
    partitions: int = 0
    """How many of the claims, the last ones, have a MIG partition that is cut instead of a whole GPU."""

    def check(self) -> None:
        """Raise BrokenInput for claims without devices or pods."""
        whole, cards = self.claims - self.partitions, _CUT if self.partitions else CARDS
        for option, number, most, what in (
            ("--claims", whole, self.nodes * cards, "whole GPUs"),
            ("--claims", self.claims, self.pods, "pods, one for each claim"),
            ("--partitions", self.partitions, self.nodes * MOST_CUT, "partitions on one card of each node"),
            ("--partitions", self.partitions, self.claims, "claims"),
        ):
            if number > most:
                raise BrokenInput(f"{option}: {number}, but there are at most {most} {what}")
        if self.partitions and self.published is not Published.MIG:
            raise BrokenInput(f"--partitions {self.partitions}: they are published with --published mig only")

    def rows(self) -> Iterator[Row]:
        """Yield all objects."""
        yield from self.node_rows()
        for number in range(self.nodes):
            for item in self._slices(number):
                yield _row(SLICES, item)
        yield from self.claim_rows()
        yield from self.pod_rows()
        yield from self.partition_rows()

    def counts(self) -> dict[ResourceKind, int]:
        """Return how many objects of each kind there are."""
        slices = 1 if self.published is Published.GPU else 1 + CARDS
        found = {NODES: self.nodes, SLICES: self.nodes * slices, PODS: self.pods, CLAIMS: self.claims}
        return found | {PARTITIONS: self.partitions}

    def node_rows(self, mark: str = "") -> Iterator[Row]:
        """Yield the Nodes. Another `mark` makes new versions of the same objects."""
        for number in range(self.nodes):
            name = _node(number)
            status = {
                "capacity": RESOURCES,
                "allocatable": RESOURCES,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": _MADE}],
            }
            metadata = _metadata("Node", name, mark) | {"labels": {"kubernetes.io/hostname": name}}
            item = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": metadata,
                "spec": {},
                "status": status,
            }
            yield _row(NODES, item)

    def claim_rows(self, mark: str = "") -> Iterator[Row]:
        """Yield the claims, allocated by the operator and reserved for their pods."""
        for number in range(self.claims):
            yield _row(CLAIMS, self._claim(number, mark))

    def pod_rows(self, mark: str = "") -> Iterator[Row]:
        """Yield the bound pods."""
        for number in range(self.pods):
            yield _row(PODS, self._pod(number, mark))

    def partition_rows(self, mark: str = "") -> Iterator[Row]:
        """Yield the Partitions, ready and held by their claims."""
        for number in range(self.claims - self.partitions, self.claims):
            yield _row(PARTITIONS, self._partition(number, mark))

    def _device(self, number: int) -> str:
        """Return the device of a claim on its node."""
        cut = number - (self.claims - self.partitions)
        if cut < 0:
            return f"gpu-{number // self.nodes}"
        # Profile 19 is 1g.10gb; the agent names a placement after card, profile and first memory slice.
        return f"gpu-{_CUT}-mig-1g10gb-19-{cut // self.nodes}"

    def _node_of(self, number: int) -> str:
        """Return the node of a pod and its claim: one round after another over all nodes."""
        cut = number - (self.claims - self.partitions)
        return _node((number if cut < 0 or number >= self.claims else cut) % self.nodes)

    def _slices(self, number: int) -> Iterator[Json]:
        name = _node(number)
        slices = published_slices(SIMULATION, name, _uid("Node", name))
        for item in slices if self.published is Published.MIG else (whole_gpus(name, slices),):
            yield item | {"metadata": _metadata("ResourceSlice", item["metadata"]["name"]) | item["metadata"]}

    def _claim(self, number: int, mark: str) -> Json:
        name, node = f"claim-{number:06d}", self._node_of(number)
        place = {"key": "metadata.name", "operator": "In", "values": [node]}
        result = {
            "request": "device",
            "driver": DRIVER,
            "pool": node,
            "device": self._device(number),
        }
        pod = f"pod-{number:06d}"
        written = {
            "manager": _OPERATOR,
            "operation": "Update",
            "apiVersion": "resource.k8s.io/v1",
            "time": _MADE,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {".": {}, "f:allocation": {}}},
            "subresource": "status",
        }
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": _metadata("ResourceClaim", name, mark)
            | {
                "namespace": NAMESPACE,
                "finalizers": ["resource.kubernetes.io/delete-protection"],
                "managedFields": [written],
            },
            "spec": {"devices": {"requests": [self._request(number)]}},
            "status": {
                "allocation": {
                    "devices": {"results": [result]},
                    "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [place]}]},
                    "allocationTimestamp": _MADE,
                },
                "reservedFor": [{"resource": "pods", "name": pod, "uid": _uid("Pod", pod)}],
            },
        }

    def _request(self, number: int) -> Json:
        if number < self.claims - self.partitions:
            return request()
        cut = {"deviceClassName": "mig.apportion.dev", "selectors": PROFILE_SELECTORS}
        exactly = request()["exactly"] | cut
        return {"name": "device", "exactly": exactly}

    def _pod(self, number: int, mark: str) -> Json:
        name = f"pod-{number:06d}"
        claims = [f"claim-{number:06d}"] if number < self.claims else []
        item = pod(name, *claims)
        item["metadata"] = _metadata("Pod", name, mark) | {"namespace": NAMESPACE}
        item["spec"] |= {"nodeName": self._node_of(number), "schedulerName": "default-scheduler"}
        return item | {"status": {"phase": "Running", "startTime": _MADE}}

    def _partition(self, number: int, mark: str) -> Json:
        node, device, claim = self._node_of(number), self._device(number), f"claim-{number:06d}"
        name = f"{node}-{device}"
        start = int(device.rpartition("-")[2])
        holder = {
            "kind": "ResourceClaim",
            "namespace": NAMESPACE,
            "name": claim,
            "uid": _uid("ResourceClaim", claim),
        }
        spec = {"nodeName": node, "driver": DRIVER, "pool": node, "device": device, "parent": f"gpu-{_CUT}"}
        ready = {"type": "Ready", "status": "True", "reason": "Cut", "message": ""}
        return {
            "apiVersion": PARTITIONS.api_version,
            "kind": PARTITIONS.name,
            "metadata": _metadata("Partition", name, mark) | {"finalizers": [AGENT_FINALIZER]},
            "spec": spec
            | {
                "profile": PROFILE,
                "placement": {"start": start, "size": 1},
                "origin": "Claim",
                "holder": holder,
            },
            "status": {
                "phase": "Ready",
                "uuid": f"MIG-{_uid('MIG', name)}",
                "preparedBy": [holder["uid"]],
                "observedGeneration": 1,
                "conditions": [ready | {"lastTransitionTime": _MADE, "observedGeneration": 1}],
            },
        }


def _node(number: int) -> str:
    return f"h100-{number:05d}"


def _uid(kind: str, name: str) -> str:
    return str(uuid.uuid5(_UIDS, f"{kind}/{name}"))


def _metadata(kind: str, name: str, mark: str = "") -> Json:
    """Return what the API server would fill in, with an annotation that differs from version to version."""
    made = {"name": name, "uid": _uid(kind, name), "creationTimestamp": _MADE, "generation": 1}
    return made | {"annotations": {"bench/mark": mark}} if mark else made


def _row(kind: ResourceKind, item: Json) -> Row:
    metadata = item["metadata"]
    parts = ["/registry", _FOLDERS.get(kind.plural, kind.plural), metadata.get("namespace"), metadata["name"]]
    return "/".join(part for part in parts if part), orjson.dumps(item)
