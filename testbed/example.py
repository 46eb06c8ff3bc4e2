"""An example file and its expected result.

In: a file of examples/, whose leading comment holds a YAML block after the line `expect:`. Out: the objects, and the
list of what differs between the expectation and a cluster. The check shares no code with the product: it reads pods,
claims, slices, Partitions, Events, what the fake kubelets injected, and the state of the simulated hardware.
"""

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import yaml

from testbed.api import Json
from testbed.installation import Installation

_RESOURCE = "/apis/resource.k8s.io/v1"
_OWN = "/apis/apportion.dev/v1alpha1"
LAST = "step", "2"
"""The label of objects that are applied once the pods without it run."""


@dataclass(frozen=True, slots=True)
class Example:
    """One file of examples/."""

    name: str
    path: Path
    title: str
    objects: tuple[Json, ...]
    expect: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Example":
        """Read a file; its title is the first line."""
        text = path.read_text()
        head = [line.removeprefix("#") for line in text.split("apiVersion:", 1)[0].splitlines()]
        at = next(index for index, line in enumerate(head) if line.strip() == "expect:")
        expect = yaml.safe_load("\n".join(line[1:] for line in head[at:]))["expect"]
        objects = tuple(each for each in yaml.safe_load_all(text) if each)
        return cls(path.stem, path, head[0].strip().split(". ")[0].rstrip("."), objects, expect)

    def pods(self) -> list[str]:
        """Return the names of its pods."""
        return [each["metadata"]["name"] for each in self.objects if each["kind"] == "Pod"]

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return the names of its own namespaces; with none it is applied into any."""
        return tuple(each["metadata"]["name"] for each in self.objects if each["kind"] == "Namespace")

    def pods_before_last(self) -> list[str] | None:
        """Return the names of the pods that have to run before the objects with the label LAST come; None: there are none of these."""
        last = [
            each["metadata"] for each in self.objects if LAST in each["metadata"].get("labels", {}).items()
        ]
        names = {each["name"] for each in last}
        return [name for name in self.pods() if name not in names] if last else None

    def differences(self, view: "View") -> list[str]:
        """Return in words what is not as expected; empty when everything is.

        Pods that are `alike` may have each other's places: which of them gets its claim first is controller-manager's.
        """
        rest = {key: value for key, value in self.expect.items() if key != "alike"}
        if alike := self.expect.get("alike"):
            orders = (dict(zip(alike, order, strict=True)) for order in permutations(alike))
            orderings = (replace(self, expect=_renamed(rest, names)).differences(view) for names in orders)
            return min(orderings, key=len)
        found = list(self._pods(view))
        found += self._devices(view)
        found += self._partitions(view)
        found += self._layouts(view)
        found += self._events(view)
        return found

    def _pods(self, view: "View") -> Iterator[str]:
        for name, wanted in self.expect.get("pods", {}).items():
            pod = view.pods.get(name, {})
            phase = pod.get("status", {}).get("phase", "absent")
            if phase != wanted.get("phase", "Running"):
                yield f"pod {name} is {phase}"
            node = pod.get("spec", {}).get("nodeName", "")
            if "node" in wanted and not fnmatch.fnmatch(node, wanted["node"]):
                yield f"pod {name} is on node {node or '(none)'}, not {wanted['node']}"
            environment = view.environment(name)
            for key, value in wanted.get("env", {}).items():
                if environment.get(key) != value:
                    yield f"pod {name} has {key}={environment.get(key)!r}, not {value!r}"
        nodes = {
            view.pods.get(name, {}).get("spec", {}).get("nodeName")
            for name in self.expect.get("together", ())
        }
        if len(nodes) > 1:
            yield f"pods {self.expect['together']} are on different nodes"

    def _devices(self, view: "View") -> Iterator[str]:
        for reference, wanted in self.expect.get("devices", {}).items():
            devices = view.allocated(reference)
            if len(devices) != len(wanted):
                yield f"claim {reference} has {len(devices)} devices, not {len(wanted)}"
                continue
            for device, attributes in zip(devices, wanted, strict=True):
                for key, value in attributes.items():
                    if device["attributes"].get(key) != value:
                        yield f"{device['name']} of {reference} has {key}={device['attributes'].get(key)!r}"
        for reference, keys in self.expect.get("equal", {}).items():
            for key in keys:
                values = {str(device["attributes"].get(key)) for device in view.allocated(reference)}
                if len(values) != 1 or values == {"None"}:
                    yield f"devices of {reference} differ in {key}: {sorted(values)}"

    def _partitions(self, view: "View") -> Iterator[str]:
        for wanted in self.expect.get("partitions", ()):
            pod, profile = wanted.get("pod"), wanted["profile"]
            reference = wanted.get("claim") or view.first_claim(pod)
            held = view.held_by(reference)
            if [each["spec"]["profile"] for each in held] != [profile]:
                yield f"claim {reference} holds {[each['metadata']['name'] for each in held]}, not one {profile}"
                continue
            uuid = held[0].get("status", {}).get("uuid")
            if uuid not in view.live(held[0]["spec"]["nodeName"], profile):
                yield f"partition {held[0]['metadata']['name']} ({uuid}) is not in the hardware"

    def _layouts(self, view: "View") -> Iterator[str]:
        for name, wanted in self.expect.get("layouts", {}).items():
            missing = set(wanted.get("classes", ())) - view.classes
            if missing:
                yield f"layout {name} made no DeviceClass {sorted(missing)}"
            cut = [
                each
                for each in view.partitions
                if each["spec"].get("holder", {}).get("name") == name
                and each.get("status", {}).get("uuid")
                in view.live(each["spec"]["nodeName"], each["spec"]["profile"])
            ]
            if len(cut) != wanted.get("partitions", len(cut)):
                yield f"layout {name} has {len(cut)} partitions in the hardware, not {wanted['partitions']}"

    def _events(self, view: "View") -> Iterator[str]:
        for name, words in self.expect.get("events", {}).items():
            texts = view.events.get(name, [])
            if not any(all(word in text for word in words) for text in texts):
                yield f"no Event on {name} names {words}: {texts}"


def _renamed(expected: Any, names: Mapping[str, str]) -> Any:
    """Return an expectation with other names of pods, those of claims (`pod/entry`) included."""
    if isinstance(expected, Mapping):
        return {_renamed(key, names): _renamed(value, names) for key, value in expected.items()}
    if isinstance(expected, list):
        return [_renamed(each, names) for each in expected]
    pod, *entry = expected.split("/", 1) if isinstance(expected, str) else (expected,)
    return "/".join((names[pod], *entry)) if pod in names else expected


@dataclass(frozen=True, slots=True)
class View:
    """The state of some namespaces, in which no name is twice, read once."""

    installation: Installation
    namespaces: tuple[str, ...]
    pods: Mapping[str, Json]
    claims: Mapping[str, Json]
    devices: Mapping[tuple[str, str, str], Json]
    partitions: tuple[Json, ...]
    classes: frozenset[str]
    events: Mapping[str, list[str]]
    hardware: Mapping[str, list[dict[str, Any]]]
    """By node: the partitions that exist in its simulated hardware."""

    @classmethod
    async def of(cls, installation: Installation, *namespaces: str) -> "View":
        """Read everything."""
        api = installation.cluster.api
        pods: list[Json] = []
        claims: list[Json] = []
        events: list[Json] = []
        for each in namespaces:
            pods += (await api.items(f"/api/v1/namespaces/{each}/pods"))[0]
            claims += (await api.items(f"{_RESOURCE}/namespaces/{each}/resourceclaims"))[0]
            events += (await api.items(f"/api/v1/namespaces/{each}/events"))[0]
        slices, _ = await api.items(f"{_RESOURCE}/resourceslices")
        partitions, _ = await api.items(f"{_OWN}/partitions")
        classes, _ = await api.items(f"{_RESOURCE}/deviceclasses")
        texts: dict[str, list[str]] = {}
        for event in events:
            texts.setdefault(event["involvedObject"]["name"], []).append(event.get("message", ""))
        return cls(
            installation,
            namespaces,
            {each["metadata"]["name"]: each for each in pods},
            {each["metadata"]["name"]: each for each in claims},
            {
                (each["spec"]["driver"], each["spec"]["pool"]["name"], device["name"]): device
                for each in slices
                for device in each["spec"].get("devices", ())
            },
            tuple(partitions),
            frozenset(each["metadata"]["name"] for each in classes),
            texts,
            {node: installation.hardware(node) for node in installation.nodes},
        )

    def claim(self, reference: str) -> Json:
        """Return the claim of `pod/entry`, or of a claim's name; {} when there is none yet."""
        pod, _, entry = reference.partition("/")
        if not entry:
            return self.claims.get(reference, {})
        status = self.pods.get(pod, {}).get("status", {})
        names = {
            each["name"]: each.get("resourceClaimName") for each in status.get("resourceClaimStatuses", ())
        }
        return self.claims.get(names.get(entry) or "", {})

    def first_claim(self, pod: str) -> str:
        """Return the reference of a pod's first claim."""
        entry = self.pods.get(pod, {}).get("spec", {}).get("resourceClaims", [{}])[0]
        direct: str | None = entry.get("resourceClaimName")
        return direct or f"{pod}/{entry.get('name')}"

    def allocated(self, reference: str) -> list[dict[str, Any]]:
        """Return name and plain attributes of a claim's devices, in the order of its results."""
        allocation = self.claim(reference).get("status", {}).get("allocation", {})
        found = []
        for result in allocation.get("devices", {}).get("results", ()):
            key = (result["driver"], result["pool"], result["device"])
            attributes = self.devices.get(key, {}).get("attributes", {})
            plain = {name: next(iter(value.values())) for name, value in attributes.items()}
            found.append({"name": result["device"], "attributes": plain})
        return found

    def held_by(self, reference: str) -> list[Json]:
        """Return the Partitions that a claim holds."""
        uid = self.claim(reference).get("metadata", {}).get("uid", "?")
        return [each for each in self.partitions if each["spec"].get("holder", {}).get("uid") == uid]

    def live(self, node: str, profile: str) -> set[str]:
        """Return the UUIDs of the partitions of one profile in a node's hardware."""
        return {row["uuid"] for row in self.hardware[node] if row["profile"] == profile}

    def environment(self, pod: str) -> dict[str, str]:
        """Return what CDI put into the environment of a pod's first container."""
        found = self.pods.get(pod, {})
        node = found.get("spec", {}).get("nodeName")
        if node is None:
            return {}
        try:
            record = self.installation.kubelets[node].record(pod, found["metadata"]["namespace"])
        except KeyError:
            return {}
        return {
            key: value for injected in record.injected.values() for key, value in injected.environment.items()
        }
