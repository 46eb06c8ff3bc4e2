"""People cut and remove by hand beside the agent: theirs is left alone, ours is put right."""

import pytest

from apportion.api.contract import AGENT_FINALIZER, STATIC_SUFFIX
from testbed.api import Json
from testbed.eventually import eventually
from tests.agent.scene import Scene, place

PLACE = place("3g.40gb", 4)
THEIRS = place("1g.5gb", 6, "gpu-1")


def _layout(name: str = "halves") -> Json:
    return {"kind": "PartitionLayout", "name": name, "uid": "6f0d2a3e-0000-4000-8000-00000000000a"}


async def _static(scene: Scene, where: str, profile: str, start: int, card: str = "gpu-1") -> str:
    """Let a layout want a partition; returns its device."""
    at = place(profile, start, card)
    device = f"{at.device}{STATIC_SUFFIX}"
    spec = {
        "nodeName": scene.node.name,
        "driver": "gpu.apportion.dev",
        "pool": scene.node.name,
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
        "metadata": {"name": f"{scene.node.name}-{device}", "finalizers": [AGENT_FINALIZER]},
        "spec": spec,
    }
    await scene.node.api.create("/apis/apportion.dev/v1alpha1/partitions", body)
    return device


async def test_a_layouts_partition_a_claims_and_a_persons_live_on_one_gpu(scene: Scene) -> None:
    """Each in its place: the slices offer what is left, both claims run, and in the end only theirs is there."""
    node = scene.node
    stranger = node.ground.stranger(THEIRS)
    node.start()
    await node.learn_cards()
    static = await _static(scene, "halves", "2g.10gb", 0)
    await scene.tainted(static)
    dynamic = place("1g.5gb", 3, "gpu-1")
    mine = await scene.running("dynamic", dynamic)
    assert sorted((cut.profile, cut.start) for cut in scene.cuts()) == [
        ("1g.5gb", 3),
        ("1g.5gb", 6),
        ("2g.10gb", 0),
    ]
    # Theirs and the layout's are subtracted; the claim's is counted by its allocation.
    left = {n: await scene.counter("gpu-1", f"memory-slice-{n}") for n in range(8)}
    assert left == {0: "0", 1: "0", 2: "1", 3: "1", 4: "1", 5: "1", 6: "0", 7: "1"}
    fixed = await node.claim("static", static)
    given = await node.prepare(fixed, static, "gpu-1")
    assert given.uuid in {cut.uuid for cut in scene.cuts() if cut.profile == "2g.10gb"}
    await node.kill()
    node.start()
    assert (await node.prepare(fixed, static, "gpu-1")).uuid == given.uuid
    for claim in (mine, fixed):
        await node.unprepare(claim)
    await node.drop(dynamic)
    await node.api.delete(f"/apis/apportion.dev/v1alpha1/partitions/{node.name}-{static}")
    await node.gone(dynamic)
    assert [cut.uuid for cut in await scene.becomes(1)] == [stranger]


async def test_ours_whose_compute_instance_somebody_removed_is_made_again(scene: Scene) -> None:
    """The GPU instance is known by its id: it is ours, hollow, and in the way of the new one."""
    node = scene.node
    node.start()
    await node.wish(PLACE, None)
    before = (await scene.phase(PLACE, "Idle"))["status"]["uuid"]
    with scene.fake.changing() as state:
        state.gpu[0].instance[0].computes[0].used = 0

    async def uuid() -> str:
        (item,) = await node.partitions()
        return str(item["status"].get("uuid", ""))

    after = await eventually(uuid, lambda found: found not in ("", before))
    assert [cut.uuid for cut in scene.cuts()] == [after]


async def test_ours_whose_compute_instance_somebody_removed_is_removed(scene: Scene) -> None:
    """The object is deleted while the agent is away: the hollow rest goes with it."""
    node = scene.node
    node.start()
    await node.wish(PLACE, None)
    await scene.phase(PLACE, "Idle")
    await node.kill()
    with scene.fake.changing() as state:
        state.gpu[0].instance[0].computes[0].used = 0
    await node.drop(PLACE)
    node.start()
    await node.gone(PLACE)
    assert scene.cuts() == []


async def test_what_failed_and_nobody_wants_any_more_is_not_cut(scene: Scene) -> None:
    """The claim has gone elsewhere: cutting for nobody would only take the room of others."""
    node = scene.node
    node.ground.stranger(THEIRS)
    node.start()
    at = place("2g.10gb", 4, "gpu-1")
    scene.fake.fail("nvmlDeviceCreateGpuInstanceWithPlacement", 3, times=-1)
    await node.wish(at, await node.claim("left", at.device))
    await scene.phase(at, "Failed")
    await node.hold(at, None)

    async def reason() -> str:
        (item,) = await node.partitions()
        return str(item["status"]["conditions"][0]["reason"])

    await eventually(reason, lambda said: said == "NotWanted")
    scene.fake.heal()
    calls = scene.fake.calls()["nvmlDeviceCreateGpuInstanceWithPlacement"]
    await node.kill()
    node.start()
    await node.serves()
    await eventually(reason, lambda said: said == "NotWanted")
    assert scene.fake.calls()["nvmlDeviceCreateGpuInstanceWithPlacement"] == calls


async def test_quarantine_taints_the_card_until_theirs_is_gone(scene: Scene) -> None:
    """Whole card and every partition of it; the other card is free."""
    node = scene.node
    node.ground.stranger(THEIRS)
    node.start(arguments=["--foreign", "quarantine"])
    free = place("1g.5gb", 0, "gpu-1").device
    # gpu-1 is an A100 in MIG mode, which only a reset takes it out of.
    await scene.tainted("gpu-1", "foreign", "parts-only")
    assert await scene.taints(free) == {"guard", "foreign"}
    assert await scene.taints("gpu-0") == {"guard"}
    scene.fake.reset(1)
    await scene.tainted("gpu-1", "parts-only")
    await scene.tainted(free)


@pytest.mark.parametrize(("policy", "used"), [("adopt", False), ("adopt", True), ("leave", False)])
async def test_theirs_stands_for_a_layouts_where_that_is_the_policy(
    scene: Scene, policy: str, *, used: bool
) -> None:
    """Adopted as it is, with its UUID, unless somebody uses it; otherwise the layout is told that there is no room."""
    node = scene.node
    stranger = node.ground.stranger(THEIRS)
    if used:
        scene.fake.occupy(stranger, 4711)
    node.start(arguments=["--foreign", policy])
    device = await _static(scene, "ones", "1g.5gb", 6)

    async def said() -> tuple[str, str]:
        (item,) = await node.partitions()
        status = item.get("status") or {}
        return status.get("uuid", ""), (status.get("conditions") or [{}])[0].get("reason", "")

    if policy == "adopt" and not used:
        await eventually(said, lambda found: found == (stranger, "Cut"))
        await scene.tainted(device)
    else:
        await eventually(said, lambda found: found == ("", "NoRoom"))
    assert [cut.uuid for cut in scene.cuts()] == [stranger]
