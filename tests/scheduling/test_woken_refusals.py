"""What a refused demand lacked may come in many ways; each lets it be asked about, also where nothing is reserved for anybody."""

from collections.abc import Callable
from typing import Any

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import LAYOUTS, NODES, PODS, SLICES
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.device import DeviceId
from tests.observedcluster import GPU, ObservedCluster, request
from tests.scheduling.podgroups import member
from tests.scheduling.queued import MODEL, fleet
from tests.scheduling.test_neighbours import ZONE, relation, zones

Json = dict[str, Any]
PARTS = f'device.attributes["{GPU}"].type == "mig"'


async def served_after(world: ObservedCluster, client: Client, change: Callable[[], object]) -> list[str]:
    """Let passes refuse all that waits; return the claims that are served in the next ones, after something changed."""
    world.policy(queue={"mostReserved": 0})
    cycle = world.cycle(client)
    for _ in range(2):
        cycle.once()
    assert world.places() == {}
    change()
    for _ in range(2):
        cycle.once()
    return sorted(world.places())


def pod(world: ObservedCluster, name: str, *claims: str, labels: Json, **spec: Any) -> Json:
    """Show a pod with labels."""
    raw = {
        "metadata": {"name": name, "namespace": "team", "labels": labels},
        "spec": {
            "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
            **spec,
        },
    }
    return world.see(PODS, raw)


@pytest.mark.parametrize("comes", ["bound", "labelled"])
async def test_a_pod_that_needs_company_is_served_once_it_is_there(unanswered: Client, comes: str) -> None:
    """The other pod is bound, or gets its label."""
    world = zones(n1="a")
    before = {"labels": {"app": "web"}} if comes == "bound" else {"labels": {}, "nodeName": "n1"}
    pod(world, "web", **before)
    world.claim("c")
    world.pod("c", "c", spec=relation("podAffinity", ZONE))

    change = lambda: pod(world, "web", labels={"app": "web"}, nodeName="n1")  # noqa: E731
    assert await served_after(world, unanswered, change) == ["c"]


async def test_a_pod_that_shuns_another_is_served_once_that_has_other_labels(unanswered: Client) -> None:
    """An operator of its own may change them while it runs."""
    world = zones(n1="a")
    pod(world, "web", labels={"app": "web"}, nodeName="n1")
    world.claim("c")
    world.pod("c", "c", spec=relation("podAntiAffinity"))

    change = lambda: pod(world, "web", labels={}, nodeName="n1")  # noqa: E731
    assert await served_after(world, unanswered, change) == ["c"]


async def test_a_pod_that_shuns_one_that_is_sent_to_a_node_is_served_once_that_has_other_labels(
    unanswered: Client,
) -> None:
    """That one has its devices, and no scheduler has bound it yet: nothing is said of it when it is bound, either."""
    world = fleet({"n1": ("h100", 2)})
    world.node("n1", cpu="64", **{ZONE: "a"})
    world.allocate(world.claim("web"), "n1", "gpu-0")
    gates = [{"name": GATE}]
    pod(world, "web", "web", labels={"app": "web"}, schedulingGates=gates)
    world.claim("c")
    world.pod("c", "c", spec=relation("podAntiAffinity", ZONE))
    world.policy(queue={"mostReserved": 0})
    cycle = world.cycle(unanswered)
    for _ in range(2):
        cycle.once()
    assert "c" not in world.places()
    pod(world, "web", "web", labels={}, schedulingGates=gates)
    cycle.once()
    assert "c" in world.places()


async def test_a_pod_is_served_once_its_like_are_elsewhere(unanswered: Client) -> None:
    """Its zone has one more than the other one, until a pod is bound there."""
    world = zones(n1="a", n2="a", n3="b")
    for name in ("n1", "n3"):
        world.node(name, cpu="0", **{ZONE: name})
    world.node("n1", cpu="0", **{ZONE: "a"})
    world.node("n3", cpu="0", **{ZONE: "b"})
    pod(world, "web", labels={"app": "web"}, nodeName="n1")
    spread = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    world.claim("c")
    pod(world, "c", "c", labels={"app": "web"}, topologySpreadConstraints=[spread])

    change = lambda: pod(world, "other", labels={"app": "web"}, nodeName="n3")  # noqa: E731
    assert await served_after(world, unanswered, change) == ["c"]


async def test_a_pod_is_served_once_another_takes_less_of_its_node(unanswered: Client) -> None:
    """Requests of a running pod can be lowered (KEP-1287)."""
    world = fleet({"n0": ("common", 4)})
    big = world.pod("big", spec={"nodeName": "n0"})
    world.wait_for("a", request("gpu"))

    def resized(cpu: str) -> None:
        big["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        world.see(PODS, big)

    resized("64")
    assert await served_after(world, unanswered, lambda: resized("1")) == ["a"]


@pytest.mark.parametrize("of_group", [False, True])
async def test_a_pod_is_served_once_it_tolerates_its_node(unanswered: Client, *, of_group: bool) -> None:
    """A toleration can be added while it waits; nothing else changes."""
    world = fleet({"n1": ("h100", 2)})
    node = world.seen[NODES, "", "n1"]
    node["spec"] = {"taints": [{"key": "t", "effect": "NoSchedule"}]}
    world.see(NODES, node)
    world.claim("c")
    raw = member(world, "p", "c", least="1") if of_group else world.pod("p", "c", gates=(GATE,))

    def tolerates() -> None:
        raw["spec"]["tolerations"] = [{"operator": "Exists"}]
        world.see(PODS, raw)

    assert await served_after(world, unanswered, tolerates) == ["c"]


async def test_a_pod_is_served_once_a_layout_leaves_its_card(unanswered: Client) -> None:
    """Nothing of the layout was cut yet, so that no Partition goes with it."""
    world = ObservedCluster()
    world.device_class("gpu", PARTS)
    world.node("n1")
    world.card("n1")
    layout = world.layout({"profile": "7g.80gb", "count": 1})
    world.wait_for("c", request("gpu"))

    assert await served_after(world, unanswered, lambda: world.gone(LAYOUTS, layout)) == ["c"]


async def test_a_pod_is_served_once_a_node_without_its_like_is_gone(unanswered: Client) -> None:
    """As long as the zone is there, others have one pod too many."""
    world = zones(n1="a", n2="b")
    empty = world.node("n2", cpu="0", **{ZONE: "b"})
    pod(world, "web", labels={"app": "web"}, nodeName="n1")
    spread = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    world.claim("c")
    pod(world, "c", "c", labels={"app": "web"}, topologySpreadConstraints=[spread])

    assert await served_after(world, unanswered, lambda: world.gone(NODES, empty)) == ["c"]


async def test_a_pod_is_served_once_the_driver_of_its_parameters_has_devices(unanswered: Client) -> None:
    """Its name is nearly that of one of ours, so that it is taken for mistyped until then."""
    world = fleet({"n1": ("h100", 2)})
    driver = "gpus.apportion.dev"
    world.claim("c", request("gpu"), config=[{"opaque": {"driver": driver, "parameters": {}}}])
    world.pod("c", "c")

    def publishes() -> None:
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": "n1", "pool": pool, "devices": [{"name": "other"}]}
        world.see(SLICES, {"metadata": {"name": "other"}, "spec": spec})

    assert await served_after(world, unanswered, publishes) == ["c"]


async def test_a_pod_is_served_once_a_claim_has_its_devices_elsewhere(unanswered: Client) -> None:
    """It was deallocated and allocated while the watch was broken, which shows both as one change."""
    world = fleet({"n1": ("h100", 1), "n2": ("a100", 1)})
    held = world.allocate(world.claim("held"), "n1", "gpu-0")
    world.wait_for("c", request("gpu", expression=f'{MODEL} == "h100"'))
    world.policy(queue={"mostReserved": 0})
    cycle = world.cycle(unanswered)
    for _ in range(2):
        cycle.once()
    assert world.places() == {"held": "n1"}
    world.allocate(held, "n2", "gpu-0")
    cycle.once()
    assert world.places() == {"held": "n2", "c": "n1"}


async def test_a_pod_is_served_once_a_claim_got_other_devices_than_we_chose(unanswered: Client) -> None:
    """Somebody else was first, so that our write was refused; the watch shows which ones."""
    world = fleet({"n1": ("h100", 1), "n2": ("a100", 1)})
    held = world.claim("held")
    assumption = world.snapshot.assume(
        world.claim_value(held),
        Allocation((DeviceResult("gpu", DeviceId(GPU, "n1", "gpu-0")),)),
    )
    assert world.snapshot.sent(assumption, held["metadata"]["resourceVersion"])
    world.wait_for("c", request("gpu", expression=f'{MODEL} == "h100"'))
    world.policy(queue={"mostReserved": 0})
    cycle = world.cycle(unanswered)
    for _ in range(2):
        cycle.once()
    assert "c" not in world.places()
    world.allocate(held, "n2", "gpu-0", by="another")
    cycle.once()
    assert world.places() == {"held": "n2", "c": "n1"}
