"""Pods that ask for an extended resource behind which there is a DeviceClass."""

import math
from itertools import count, islice

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLASSES, NODES, PODS
from apportion.scheduling.demands.extendedresources import ExtendedResources, Template
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.queued import fleet
from tests.scheduling.test_other_claims import beside

PATIENCE = 5.0
NVIDIA = "nvidia.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


def named(
    world: ObservedCluster, name: str, resource: str, *, managed: bool, created: str = "2026-01-01"
) -> None:
    """Show a class behind an extended resource."""
    expression = 'device.driver == "gpu.apportion.dev"' if managed else 'device.driver == "nic.example.com"'
    metadata = {
        "name": name,
        "labels": {"apportion.dev/managed": "true"} if managed else {},
        "creationTimestamp": f"{created}T00:00:00Z",
    }
    spec = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": resource}
    world.see(CLASSES, {"metadata": metadata, "spec": spec})


def asking(world: ObservedCluster, name: str, *claims: str, **spec: object) -> None:
    """Let a pod ask for one device as for an extended resource."""
    resources = {"requests": {"cpu": "1", str(spec.pop("resource", NVIDIA)): str(spec.pop("amount", "1"))}}
    world.pod(name, *claims, spec={"containers": [{"name": "main", "resources": resources}], **spec})


def plugin(world: ObservedCluster, node: str, resource: str, amount: str) -> None:
    """Let a device plugin offer a resource on a node."""
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "10", resource: amount}
    world.see(NODES, {"metadata": {"name": node}, "status": {"allocatable": allocatable}})


async def test_a_pod_that_nobody_serves_hears_what_to_do(unanswered: Client) -> None:
    """Once kube-scheduler had its time; of a class without the label, and of nodes with a device plugin, the text says so."""
    world = fleet({"n1": ("h100", 1)})
    named(world, "gpu", NVIDIA, managed=True)
    asking(world, "p")
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.warned == []
    world.clock.now += PATIENCE
    cycle.once()
    cycle.once()
    assert world.warned == [("p", "ExtendedResource")]
    [(_, _, text)] = world.messages
    assert "nvidia.com/gpu is DeviceClass gpu" in text
    assert "apportion migrate -n team" in text
    assert "device plugin" not in text
    assert "Give the class the label" not in text


async def test_a_pod_that_goes_while_a_pass_is_made_does_not_end_the_operator(unanswered: Client) -> None:
    """Between any two steps of the pass in which it would be told."""
    for steps in count():
        world = fleet({"n1": ("h100", 1)})
        named(world, "gpu", NVIDIA, managed=True)
        asking(world, "p")
        cycle = world.cycle(unanswered)
        cycle.once()
        world.clock.now += PATIENCE
        begun = cycle._pass(longest=math.inf, evaluates=False)
        done = sum(1 for _ in islice(begun, steps))
        world.gone(PODS, world.seen[PODS, "team", "p"])
        for _ in begun:
            pass
        if done < steps:
            return


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeName": "n1"}, id="bound"),
        pytest.param({"schedulingGates": [{"name": "kueue"}]}, id="behind another gate"),
        pytest.param({"resource": "example.com/other"}, id="another resource"),
        pytest.param({"amount": "0"}, id="none"),
    ],
)
async def test_nothing_is_said_of_other_pods(unanswered: Client, spec: Json) -> None:
    """Who has a node is served; who waits for others is not our business yet."""
    world = fleet({"n1": ("h100", 1)})
    named(world, "gpu", NVIDIA, managed=True)
    asking(world, "p", **spec)
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += PATIENCE
    cycle.once()
    assert world.warned == []


async def test_a_class_without_the_label_and_plugins_on_other_nodes_are_mentioned(unanswered: Client) -> None:
    """A policy may manage the class, but admission goes by the label."""
    world = fleet({"n1": ("h100", 1)})
    named(world, "gpu", NVIDIA, managed=True)
    for known in list(world.snapshot.classes.values()):
        world.gone(CLASSES, {"metadata": {"name": known.name, "uid": known.uid}})
    named(world, "own", NVIDIA, managed=False)
    world.policy(classes=["own"])
    plugin(world, "n2", NVIDIA, "4")
    asking(world, "p")
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += PATIENCE
    cycle.once()
    [text] = [text for _, reason, text in world.messages if reason == "ExtendedResource"]
    assert "Give the class the label" in text
    assert "the 1 nodes whose device plugin" in text


@pytest.mark.parametrize(
    ("name", "asked", "why"),
    [
        pytest.param(
            "gpu", {"resource": IMPLICIT}, "spec.extendedResourceName of a class", id="implicit name"
        ),
        pytest.param("g" * 51, {}, "the class's name has more than 50 characters", id="long name"),
        pytest.param("gpu", {"amount": "1k"}, "a container asks for more than 999", id="a thousand"),
    ],
)
async def test_a_pod_that_admission_never_rewrites_hears_why_and_to_ask_for_claims(
    unanswered: Client, name: str, asked: Json, why: str
) -> None:
    """Made anew it would be as it was, and hear the same."""
    world = fleet({"n1": ("h100", 1)})
    named(world, name, NVIDIA, managed=True, created="2026-06-01")
    asking(world, "p", **asked)
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += PATIENCE
    cycle.once()
    [text] = [text for _, reason, text in world.messages if reason == "ExtendedResource"]
    assert why in text
    assert "apportion migrate -n team" in text
    assert "Make the pod anew" not in text


def test_the_template_of_a_rewritten_pod_is_wanted_until_its_claim_is_there() -> None:
    """By its name: the number, the class. Names that nobody manages, and other templates, are others' business."""
    world = fleet({"n1": ("h100", 1)})
    found = ExtendedResources(world.snapshot, world.clock)
    assert found.templates() == set()

    def pod(*templates: str, made: int = 0) -> None:
        claims = [
            {"name": f"c{number}", "resourceClaimTemplateName": template}
            for number, template in enumerate(templates)
        ]
        raw = world.pod("p", gates=["apportion.dev/allocation"], spec={"resourceClaims": claims})
        raw["status"] = {
            "resourceClaimStatuses": [
                {"name": f"c{number}", "resourceClaimName": f"made-{number}"} for number in range(made)
            ]
        }
        world.see(PODS, raw)

    pod("apportion-2-gpu", "apportion-0-gpu", "apportion-1-unknown", "apportion-x-gpu", "users-own")
    assert found.templates() == {Template("team", "apportion-2-gpu", 2, "gpu")}
    pod("apportion-2-gpu", made=1)
    assert found.templates() == set()


def test_the_template_of_a_pod_that_was_seen_before_its_class_was_managed_is_wanted() -> None:
    """Admission has seen the class's new label, and the watch of classes is behind that of pods; nothing of the pod changes any more."""
    world = ObservedCluster()
    named(world, "gpu", NVIDIA, managed=False)
    found = ExtendedResources(world.snapshot, world.clock)
    claims = [{"name": "c", "resourceClaimTemplateName": "apportion-1-gpu"}]
    world.pod("p", gates=["apportion.dev/allocation"], spec={"resourceClaims": claims})
    assert found.templates() == set()
    named(world, "gpu", NVIDIA, managed=True)
    assert found.templates() == {Template("team", "apportion-1-gpu", 1, "gpu")}


async def test_a_pod_hears_what_to_do_whose_class_is_managed_from_now_on(unanswered: Client) -> None:
    """By the class's label, or by a policy."""
    world = fleet({"n1": ("h100", 1)})
    named(world, "late", NVIDIA, managed=False)
    asking(world, "p")
    cycle = world.cycle(unanswered)
    cycle.once()
    world.policy(classes=["late"])
    cycle.once()
    world.clock.now += PATIENCE
    cycle.once()
    assert world.warned == [("p", "ExtendedResource")]


@pytest.mark.parametrize("node", ["n1", "n2"])
async def test_a_node_is_chosen_where_kube_scheduler_finds_the_extended_resource_too(
    unanswered: Client, node: str
) -> None:
    """Of a class that is not ours: it allocates a device there, although no node has any of the resource."""
    world = fleet({"n1": ("h100", 1), "n2": ("h100", 1)})
    beside(world, **{node: {}})
    named(world, "theirs", "example.com/nic", managed=False)
    world.claim("ours", request("gpu"))
    asking(world, "p", "ours", resource="example.com/nic")
    world.cycle(unanswered).once()
    assert world.places() == {"ours": node}


async def test_where_a_device_plugin_offers_it_the_resource_is_counted(unanswered: Client) -> None:
    """kube-scheduler makes no claim on such a node, whatever devices are there."""
    world = fleet({"n1": ("h100", 1), "n2": ("h100", 1)})
    plugin(world, "n1", "example.com/nic", "1")
    beside(world, n1={})
    named(world, "theirs", "example.com/nic", managed=False)
    world.claim("ours", request("gpu"))
    asking(world, "p", "ours", resource="example.com/nic", amount="2")
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}
    assert ("p", "ClaimsNotAllocated") in world.warned
    plugin(world, "n1", "example.com/nic", "2")
    cycle.once()
    assert world.places() == {"ours": "n1"}


async def test_nothing_is_held_for_a_pod_whose_extended_resource_only_guarded_devices_would_serve(
    unanswered: Client,
) -> None:
    """kube-scheduler would not find a device for it anywhere, so the pod's claim would keep its own for nothing."""
    world = fleet({"n1": ("h100", 1)})
    guard = {"key": "apportion.dev/guard", "effect": "NoSchedule"}
    devices = [{"name": f"gpu-{number}", "taints": [guard]} for number in range(2)]
    world.slice("n1", "n1-devices", {"devices": devices}, 1)
    named(world, "other", NVIDIA, managed=True)
    world.claim("ours", request("gpu"))
    asking(world, "p", "ours")
    world.cycle(unanswered).once()
    assert world.places() == {}
    assert ("p", "ClaimsNotAllocated") in world.warned


def test_of_classes_with_one_name_the_newest_counts() -> None:
    """As kube-scheduler has it, for moving from one class to another; then the one with the lower name."""
    world = ObservedCluster()
    named(world, "a", NVIDIA, managed=True)
    named(world, "b", NVIDIA, managed=True, created="2026-02-01")
    named(world, "c", NVIDIA, managed=True, created="2026-02-01")
    found = world.snapshot.managed.extended_resources
    assert found[NVIDIA] == "b"
    assert found["deviceclass.resource.kubernetes.io/a"] == "a"
