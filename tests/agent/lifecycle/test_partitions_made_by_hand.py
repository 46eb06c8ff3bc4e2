"""People cut and remove by hand beside the agent: theirs is left alone, ours is put right."""

import pytest

from apportion.api.contract import AGENT_FINALIZER, STATIC_SUFFIX
from testbed.api import Json
from testbed.eventually import eventually
from testbed.fakes.nvml.host import contain
from tests.agent.killablenode import KillableNode, place

PLACE = place("3g.40gb", 4)
THEIRS = place("1g.5gb", 6, "gpu-1")


def _layout(name: str = "halves") -> Json:
    return {"kind": "PartitionLayout", "name": name, "uid": "6f0d2a3e-0000-4000-8000-00000000000a"}


async def _static(killable: KillableNode, where: str, profile: str, start: int, card: str = "gpu-1") -> str:
    """Let a layout want a partition; returns its device."""
    at = place(profile, start, card)
    device = f"{at.device}{STATIC_SUFFIX}"
    spec = {
        "nodeName": killable.node.name,
        "driver": "gpu.apportion.dev",
        "pool": killable.node.name,
        "device": device,
        "parent": card,
        "profile": profile,
        "placement": {"start": start, "size": at.size},
        "origin": "Layout",
        "holder": _layout(where),
    }
    body = {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "Partition",
        "metadata": {"name": f"{killable.node.name}-{device}", "finalizers": [AGENT_FINALIZER]},
        "spec": spec,
    }
    await killable.node.api.create("/apis/apportion.dev/v1alpha1/partitions", body)
    return device


async def test_a_layouts_partition_a_claims_and_a_persons_live_on_one_gpu(killable: KillableNode) -> None:
    """Each in its place: the slices offer what is left, both claims run, and in the end only theirs is there."""
    node = killable.node
    stranger = node.hardware.create_foreign(THEIRS)
    node.start()
    await node.wait_published()
    static = await _static(killable, "halves", "2g.10gb", 0)
    await killable.tainted(static)
    dynamic = place("1g.5gb", 3, "gpu-1")
    mine = await killable.running("dynamic", dynamic)
    assert sorted((cut.profile, cut.start) for cut in killable.cuts()) == [
        ("1g.5gb", 3),
        ("1g.5gb", 6),
        ("2g.10gb", 0),
    ]
    # Theirs and the layout's are subtracted; the claim's is counted by its allocation.
    left = {n: await killable.counter("gpu-1", f"memory-slice-{n}") for n in range(8)}
    assert left == {0: "0", 1: "0", 2: "1", 3: "1", 4: "1", 5: "1", 6: "0", 7: "1"}
    fixed = await node.create_claim("static", static)
    given = await node.prepare(fixed, static, "gpu-1")
    assert given.uuid in {cut.uuid for cut in killable.cuts() if cut.profile == "2g.10gb"}
    await node.kill()
    node.start()
    assert (await node.prepare(fixed, static, "gpu-1")).uuid == given.uuid
    for claim in (mine, fixed):
        await node.unprepare(claim)
    await node.delete_partition(dynamic)
    await node.api.delete(f"/apis/apportion.dev/v1alpha1/partitions/{node.name}-{static}")
    await node.wait_removed(dynamic)
    assert [cut.uuid for cut in await killable.becomes(1)] == [stranger]


async def test_ours_whose_compute_instance_somebody_removed_is_remade(killable: KillableNode) -> None:
    """The GPU instance is known by its id: it is ours, hollow, and in the way of the new one."""
    node = killable.node
    node.start()
    await node.create_partition(PLACE, None)
    before = (await killable.phase(PLACE, "Idle"))["status"]["uuid"]
    with killable.fake.changing() as state:
        state.gpu[0].instance[0].computes[0].used = 0

    async def uuid() -> str:
        (item,) = await node.partitions()
        return str(item["status"].get("uuid", ""))

    after = await eventually(uuid, lambda found: found not in ("", before))
    assert [cut.uuid for cut in killable.cuts()] == [after]


async def test_ours_whose_compute_instance_somebody_removed_is_removed(killable: KillableNode) -> None:
    """The object is deleted while the agent is away: the hollow rest goes with it."""
    node = killable.node
    node.start()
    await node.create_partition(PLACE, None)
    await killable.phase(PLACE, "Idle")
    await node.kill()
    with killable.fake.changing() as state:
        state.gpu[0].instance[0].computes[0].used = 0
    await node.delete_partition(PLACE)
    node.start()
    await node.wait_removed(PLACE)
    assert killable.cuts() == []


async def test_what_failed_and_is_no_longer_needed_is_not_cut(killable: KillableNode) -> None:
    """The claim has gone elsewhere: cutting for nobody would only take the room of others."""
    node = killable.node
    node.hardware.create_foreign(THEIRS)
    node.start()
    at = place("2g.10gb", 4, "gpu-1")
    killable.fake.fail("nvmlDeviceCreateGpuInstanceWithPlacement", 3, times=-1)
    await node.create_partition(at, await node.create_claim("left", at.device))
    await killable.phase(at, "Failed")
    await node.set_holder(at, None)

    async def reason() -> str:
        (item,) = await node.partitions()
        return str(item["status"]["conditions"][0]["reason"])

    await eventually(reason, lambda said: said == "NotWanted")
    killable.fake.heal()
    calls = killable.fake.calls()["nvmlDeviceCreateGpuInstanceWithPlacement"]
    await node.kill()
    node.start()
    await node.wait_serving()
    await eventually(reason, lambda said: said == "NotWanted")
    assert killable.fake.calls()["nvmlDeviceCreateGpuInstanceWithPlacement"] == calls


async def test_quarantine_taints_the_card_until_theirs_is_gone(killable: KillableNode) -> None:
    """Whole card and every partition of it; the other card is free."""
    node = killable.node
    node.hardware.create_foreign(THEIRS)
    node.start(arguments=["--foreign", "quarantine"])
    free = place("1g.5gb", 0, "gpu-1").device
    # gpu-1 is an A100 in MIG mode, which only a reset takes it out of.
    await killable.tainted("gpu-1", "foreign", "parts-only")
    assert await killable.taints(free) == {"guard", "foreign"}
    assert await killable.taints("gpu-0") == {"guard"}
    killable.fake.reset(1)
    await killable.tainted("gpu-1", "parts-only")
    await killable.tainted(free)


@pytest.mark.parametrize(("policy", "used"), [("adopt", False), ("adopt", True), ("leave", False)])
async def test_theirs_stands_for_a_layouts_where_that_is_the_policy(
    killable: KillableNode, policy: str, *, used: bool
) -> None:
    """Adopted as it is, with its UUID, unless somebody uses it; otherwise the layout is told that there is no room."""
    node = killable.node
    stranger = node.hardware.create_foreign(THEIRS)
    if used:
        killable.fake.occupy(stranger, 4711)
    node.start(arguments=["--foreign", policy])
    device = await _static(killable, "ones", "1g.5gb", 6)

    async def said() -> tuple[str, str]:
        (item,) = await node.partitions()
        status = item.get("status") or {}
        return status.get("uuid", ""), (status.get("conditions") or [{}])[0].get("reason", "")

    if policy == "adopt" and not used:
        await eventually(said, lambda found: found == (stranger, "Cut"))
        await killable.tainted(device)
    else:
        await eventually(said, lambda found: found == ("", "NoRoom"))
    assert [cut.uuid for cut in killable.cuts()] == [stranger]


@pytest.mark.parametrize("used", [False, True])
async def test_theirs_is_not_adopted_by_an_agent_that_does_not_see_processes(
    killable: KillableNode, *, used: bool
) -> None:
    """In a pod without hostPID the driver's list is empty, so nobody knows that no program runs on it; the reason names the setting."""
    node = killable.node
    stranger = node.hardware.create_foreign(THEIRS)
    contain(killable.fake, node.folder / "root")
    if used:
        killable.fake.occupy(stranger, 4711)
    node.start(arguments=["--foreign", "adopt"])
    await _static(killable, "ones", "1g.5gb", 6)

    async def said() -> tuple[str, str, str]:
        (item,) = await node.partitions()
        status = item.get("status") or {}
        (about, *_) = status.get("conditions") or [{}]
        return status.get("uuid", ""), about.get("reason", ""), about.get("message", "")

    found = await eventually(said, lambda found: found[0] != "" or found[1] == "NoRoom")
    assert found[:2] == ("", "NoRoom")
    assert "hostPID" in found[2]
    assert [cut.uuid for cut in killable.cuts()] == [stranger]
