"""What is asked whether it fits: copies of a pod with its claims, or of claims that one node has to serve together.

In: the objects of a file. Out: templates, each of which makes any number of copies as objects for a world.
"""

import copy
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apportion.api.contract import GATE
from apportion.api.meant import meant
from apportion.cli.knownfields import check_fields
from apportion.cli.migrateworkloads import KINDS, Workload, workloads_of
from apportion.cli.world.objects import Key, key_of
from apportion.cluster import kinds
from apportion.dra import reading
from apportion.dra.claim import Claim
from apportion.dra.reading import Json
from apportion.errors import BrokenInput
from apportion.scheduling.demands.waiting import IMMEDIATE

CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
_READ = (CLAIM, TEMPLATE, *KINDS)


@dataclass(frozen=True, slots=True)
class Copies:
    """Makes copies of one pod with its claims; without a pod, of claims."""

    name: str
    namespace: str
    wanted: int
    """How many there are to be, as the file says."""
    pod: Json | None
    claims: Mapping[str, Json]
    """Specs of the claims that each copy has for itself, by their name in the pod."""
    shared: tuple[str, ...] = field(default=())
    """Names of the claims that all copies name."""

    def make(self, number: int) -> Iterator[Json]:
        """Yield the objects of one copy: claims, and the pod that names them."""
        entries: list[Json] = []
        for name, spec in self.claims.items():
            made = f"{self.name}-{name}-{number}".lower()
            annotations = {} if self.pod is not None else {GATE: IMMEDIATE}
            yield {
                "kind": CLAIM,
                "metadata": self._metadata(made, number, annotations=annotations),
                "spec": spec,
            }
            entries.append({"name": name, "resourceClaimName": made})
        if self.pod is not None:
            yield self._pod(number, entries)

    def _pod(self, number: int, entries: list[Json]) -> Json:
        own: Any = self.pod or {}
        spec = copy.deepcopy(dict(reading.table(own, "spec")))
        spec["resourceClaims"] = [
            *entries,
            *(
                {"name": f"shared-{index}", "resourceClaimName": name}
                for index, name in enumerate(self.shared)
            ),
        ]
        # As admission and API server make a pod: gated, not bound, requests from limits.
        spec["schedulingGates"] = [{"name": GATE}]
        spec.pop("nodeName", None)
        for part in ("initContainers", "containers"):
            spec[part] = [
                _requesting(container, at)
                for at, container in reading.rows(spec, part, at=f"{self.namespace}/{self.name}: spec")
            ]
        labels = reading.table(reading.table(own, "metadata"), "labels", at="metadata")
        return {
            "kind": "Pod",
            "metadata": self._metadata(f"{self.name}-{number}", number, labels=labels),
            "spec": spec,
        }

    def _metadata(self, name: str, number: int, **more: Any) -> Json:
        made = f"2100-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z"
        return {"name": name, "namespace": self.namespace, "creationTimestamp": made, **more}


def copies_of(objects: Sequence[Json], namespace: str) -> tuple[list[Copies], list[Json]]:
    """Return what the objects of a file ask for, and the claims in it that several pods share.

    Workloads with claims are asked about one by one; without any, all claims of the file are for one copy. `namespace` is that of objects
    that name none. Raises BrokenInput.
    """
    specs: dict[tuple[str, str, str], Json] = {}
    for each in objects:
        kind = str(each.get("kind"))
        if kind not in _READ:
            suggestion = meant(kind, _READ)
            if suggestion:
                raise BrokenInput(f"{kind} is no kind that is read{suggestion}", field="kind")
            continue
        check_fields(each)
        if kind in {CLAIM, TEMPLATE}:
            key = key_of(each)
            spec = reading.table(each, "spec")
            spec = reading.table(spec, "spec", at="spec") if kind == TEMPLATE else spec
            _read(key.name, spec)
            specs[kind, key.namespace or namespace, key.name] = spec
    workloads = [each for each in workloads_of(objects, namespace) if _entries(each)]
    if workloads:
        used = {(each.namespace, name) for each in workloads for name in _shared(each)}
        shared: list[Json] = [
            {"kind": CLAIM, "metadata": {"name": name, "namespace": at}, "spec": spec}
            for (kind, at, name), spec in specs.items()
            if kind == CLAIM and (at, name) in used
        ]
        return [_of_workload(each, specs) for each in workloads], shared
    if not specs:
        raise BrokenInput(f"no claim in it; these kinds are read: {', '.join(_READ)}")
    places = {at for _, at, _ in specs}
    if len(places) > 1:
        raise BrokenInput(f"its claims are of several namespaces: {', '.join(sorted(places))}")
    claims = {name: spec for (_, _, name), spec in specs.items()}
    return [Copies("-".join(claims)[:40], places.pop(), 1, None, claims)], []


def with_volumes_of(raw: Json, known: Container[Key]) -> Json:
    """Return an object of a copy as it counts: volumes of its pod that are not there yet are made where it goes, and tie it to no node."""
    if raw["kind"] != kinds.PODS.name:
        return raw
    namespace, spec = str(raw["metadata"]["namespace"]), raw["spec"]
    kept = []
    for path, row in reading.rows(spec, "volumes", at="spec"):
        used = reading.table(row, "persistentVolumeClaim", at=path)
        if Key(kinds.VOLUME_CLAIMS.name, namespace, str(used.get("claimName"))) in known:
            kept.append(row)
    return {**raw, "spec": {**spec, "volumes": kept}}


def _requesting(container: Json, at: str) -> Json:
    """Return a container that requests what it is limited to, if it says nothing else."""
    asked, inside = reading.table(container, "resources", at=at), f"{at}.resources"
    requests = {**reading.table(asked, "limits", at=inside), **reading.table(asked, "requests", at=inside)}
    return {**container, "resources": {**asked, "requests": requests}}


def _of_workload(found: Workload, specs: Mapping[tuple[str, str, str], Json]) -> Copies:
    claims = {}
    for path, entry in _entries(found):
        template = reading.text(entry, "resourceClaimTemplateName", at=path, default="")
        if template:
            spec = specs.get((TEMPLATE, found.namespace, template))
            if spec is None:
                known = [name for kind, _, name in specs if kind == TEMPLATE]
                raise BrokenInput(
                    f"{TEMPLATE} {found.namespace}/{template} is not in the file{meant(template, known)}",
                    field=f"{found.key}: {path}.resourceClaimTemplateName",
                )
            claims[reading.text(entry, "name", at=path)] = spec
    return Copies(found.name, found.namespace, found.pods, found.pod, claims, tuple(_shared(found)))


def _entries(found: Workload) -> list[tuple[str, Json]]:
    return list(reading.rows(reading.table(found.pod, "spec"), "resourceClaims", at="spec"))


def _shared(found: Workload) -> Iterator[str]:
    for path, entry in _entries(found):
        name = reading.text(entry, "resourceClaimName", at=path, default="")
        if name:
            yield name


def _read(name: str, spec: Json) -> None:
    """Read a claim to see that it can be. Raises BrokenInput naming it."""
    try:
        read = Claim.from_json({"metadata": {"name": name}, "spec": spec})
    except BrokenInput as error:
        raise BrokenInput(f"claim {name}: {error.reason}", field=error.field) from None
    if not read.slots:
        raise BrokenInput(f"claim {name} asks for nothing", field="spec.devices.requests")
