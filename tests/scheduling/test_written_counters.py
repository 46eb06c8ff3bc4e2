"""What devices take of the counters of their pools is written with their allocation: who starts later knows it (ADR 45)."""

from typing import Any

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.cluster.kinds import CLAIMS, SLICES
from apportion.dra.claim import Claim
from tests.observedcluster import ObservedCluster
from tests.scheduling.allocating import DEVICE, Allocating

WHOLE, PART = DEVICE.name, "part"


def publish(world: ObservedCluster, *devices: str) -> None:
    """Let a driver that is not ours publish a card in two slices: what it has, and these of its devices."""
    amounts = {WHOLE: "4", PART: "1"}

    def taken(name: str) -> list[dict[str, Any]]:
        return [{"counterSet": "card", "counters": {"memory": {"value": amounts[name]}}}]

    contents = {
        "counters": {"sharedCounters": [{"name": "card", "counters": {"memory": {"value": "4"}}}]},
        "devices": {"devices": [{"name": name, "consumesCounters": taken(name)} for name in devices]},
    }
    for name, content in contents.items():
        pool = {"name": DEVICE.pool, "generation": 1, "resourceSliceCount": 2}
        spec = {"driver": DEVICE.driver, "nodeName": "n1", "pool": pool, **content}
        world.see(SLICES, {"metadata": {"name": name}, "spec": spec})


def world_with(*devices: str) -> ObservedCluster:
    made = ObservedCluster()
    made.device_class("gpu")
    made.node("n1")
    publish(made, *devices)
    return made


def asked(world: ObservedCluster) -> Decision | Refusal:
    """Ask for any device."""
    return allocate(world.snapshot.state, Demand((Claim.from_json(world.claim("next")),)))


async def test_a_device_that_its_driver_withdraws_while_no_operator_runs_keeps_its_counters(
    allocating: Allocating,
) -> None:
    """A part of the same card is given to nobody as long as the claim has the whole; afterwards it is."""
    publish(allocating.world, WHOLE, PART)
    await allocating.write()
    raw = await allocating.server.get(CLAIMS, "c", namespace=allocating.namespace)

    restarted = world_with(PART)
    restarted.snapshot.observe(CLAIMS, "MODIFIED", raw)
    assert isinstance(asked(restarted), Refusal)

    restarted.snapshot.observe(CLAIMS, "DELETED", raw)
    assert isinstance(asked(restarted), Decision)


async def test_the_devices_of_our_own_agents_need_no_record(allocating: Allocating) -> None:
    """An agent publishes a device as long as a claim has it, so that the allocation is as short as before."""
    publish(allocating.world, WHOLE, PART)
    allocating.world.snapshot.drivers = allocating.world.snapshot.drivers | {DEVICE.driver}
    await allocating.write()
    found = (await allocating.see()).allocation
    assert found is not None
    assert found.config == ()
    assert found.results[0].counters is None


async def test_what_a_tenant_writes_into_a_claim_is_no_record(allocating: Allocating) -> None:
    """The configs of a claim reach the allocation as its author wrote them; only those of classes can say what devices take."""
    publish(allocating.world, WHOLE, PART)
    await allocating.write()
    raw = await allocating.server.get(CLAIMS, "c", namespace=allocating.namespace)
    for entry in raw["status"]["allocation"]["devices"]["config"]:
        entry["source"] = "FromClaim"

    restarted = world_with(PART)
    restarted.snapshot.observe(CLAIMS, "MODIFIED", raw)
    assert isinstance(asked(restarted), Decision)
