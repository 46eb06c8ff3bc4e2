"""Groups of pods: devices for all of them on whatever nodes, or for none, on a real control plane."""

from tests.e2e.specialpods import LEAST, MODE, TOPOLOGY, replica, with_gpus
from tests.e2e.tenant import GPU, Tenant, claim, gates, request


async def test_a_group_gets_its_devices_together_or_not_at_all(team: Tenant) -> None:
    """Two nodes have eight GPUs each: three pods with five each wait, and take nothing; two of them start."""
    await with_gpus(team, "worker-a", "train", "3")
    await with_gpus(team, "worker-b", "train", "3")
    await team.event("worker-a", "GroupIncomplete", "train", "2 of at least 3")

    await with_gpus(team, "worker-c", "train", "3")
    await team.event("worker-a", "ClaimsNotAllocated", "train", "worker-c found none")
    await team.event("worker-c", "NotAllocated")
    held = [each for each in await team.claims() if each.get("status", {}).get("allocation")]
    assert held == []
    assert [gates(await team.pod(f"worker-{each}")) for each in "abc"] == [["apportion.dev/allocation"]] * 3

    await team.delete("Pod", "worker-c")
    for each in "ab":
        await team.annotate(f"worker-{each}", {LEAST: "2"})
    running = await team.running("worker-a", "worker-b")
    assert len({each["spec"]["nodeName"] for each in running}) == 2


async def test_a_wrong_number_is_reported_on_the_pod(team: Tenant) -> None:
    """And mending it on the pod is enough."""
    await with_gpus(team, "one", "typo", "two", count=1)

    await team.event("one", "BrokenGroup", "typo", LEAST, "'two'")
    assert gates(await team.pod("one")) == ["apportion.dev/allocation"]

    await team.annotate("one", {LEAST: "1"})
    await team.running("one")


async def test_a_group_that_two_pods_describe_differently_waits_and_others_are_served(team: Tenant) -> None:
    """The Event names pod, annotation and reason."""
    await with_gpus(team, "says-two", "torn", "2", count=1)
    await with_gpus(team, "says-three", "torn", "3", count=1)
    await with_gpus(team, "alone", "other", "1", count=1)

    await team.running("alone")
    await team.event("says-two", "BrokenGroup", "torn", "pod says-", LEAST, "have to say the same")
    assert gates(await team.pod("says-two")) == ["apportion.dev/allocation"]


async def test_a_group_of_one_rack_waits_although_others_have_devices(team: Tenant) -> None:
    """Two pods with five GPUs each fit on two nodes, and on none alone; preferred, they start."""
    rack = {TOPOLOGY: "kubernetes.io/hostname", MODE: "Required"}
    for name in "ab":
        await with_gpus(team, name, "close", "2", said=rack)
    await team.event("a", "ClaimsNotAllocated", "kubernetes.io/hostname", "no value has room for so many")

    for name in "ab":
        await team.annotate(name, {MODE: "Preferred"})
    running = await team.running("a", "b")
    assert len({each["spec"]["nodeName"] for each in running}) == 2


async def test_a_leader_whose_workers_are_made_when_it_runs_hears_how_it_may_go_first(team: Tenant) -> None:
    """LeaderWorkerSet with `startupPolicy: LeaderReady`: its Event names object, field and annotation; then its workers start together."""
    for index in "012":
        await team.make(claim(f"w-0-{index}", request(GPU)))
    await team.make(replica("w", "0"))
    await team.event("w-0-0", "GroupIncomplete", "spec.startupPolicy: LeaderReady", f'{LEAST}: "1"')
    assert gates(await team.pod("w-0-0")) == ["apportion.dev/allocation"]

    await team.annotate("w-0-0", {LEAST: "1"})
    await team.running("w-0-0")

    await team.make(replica("w", "1"))
    await team.event("w-0-1", "GroupIncomplete", "2 of at least 3")
    assert gates(await team.pod("w-0-1")) == ["apportion.dev/allocation"]
    await team.make(replica("w", "2"))
    await team.running("w-0-1", "w-0-2")
