"""Backfill: the first of the queue gets its devices, and others use them as long as they end before."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.clusterobjects import objects
from tests.e2e.reserved import a_second_later, comes, large_pod_is_served, large_waits, reserving
from tests.e2e.tenant import NPU, OWN, Tenant, chip, claim, devices, pod, request
from tests.e2e.viewer import answer, viewing


@pytest.fixture
async def reserved_class(installation: Installation) -> AsyncIterator[str]:
    """Return a class of eight devices of one node, whose policy reserves devices at once."""
    async with reserving(installation) as name:
        yield name


async def test_a_large_pod_is_overtaken_only_by_pods_that_end_before_and_starts_when_its_devices_are_free(
    team: Tenant, reserved_class: str
) -> None:
    """Its Event says what is reserved, since when, when it is expected to start, and for the end of which pods it waits."""
    await large_pod_is_served(team, reserved_class)


async def test_slices_that_are_written_anew_let_nobody_overtake(
    installation: Installation, team: Tenant, reserved_class: str
) -> None:
    """Kubelet deletes the slices of its node at its start, and the agent writes all nine of them again."""
    await large_waits(team, reserved_class)
    await team.event("silent", "ClaimsNotAllocated")
    api, slices, own = installation.cluster.api, "/apis/resource.k8s.io/v1/resourceslices", "ascend-910b4-a"

    async def shown() -> set[str]:
        found, _ = await api.items(slices)
        return {each["metadata"]["uid"] for each in found if each["spec"].get("nodeName") == own}

    former = await shown()
    await api.delete_all(slices, fieldSelector=f"spec.nodeName={own}")
    await eventually(shown, lambda now: len(now) == len(former) and now.isdisjoint(former))
    await team.delete("Pod", "old")
    await team.running("large")
    assert devices(await team.claim("silent")) == []
    await team.delete("Pod", "large")
    await team.running("silent")


async def test_a_runtime_that_nobody_can_read_is_said_on_the_pod_which_runs_all_the_same(
    team: Tenant, reserved_class: str
) -> None:
    """It counts as a pod that declares nothing."""
    await comes(team, "soon", reserved_class, 1, "soon")
    await team.event("soon", "BadRuntime", "apportion.dev/max-runtime", "'soon'", "not a duration")
    await team.running("soon")


async def test_a_new_leader_reserves_what_its_predecessor_did(
    installation: Installation, team: Tenant, reserved_class: str
) -> None:
    """Nothing of it is written; a pod that comes meanwhile gets none of it."""
    await comes(team, "old", reserved_class, 5)
    await team.running("old")
    await comes(team, "large", reserved_class, 8)
    await team.event("large", "Reserved", "is not known", f"{team.namespace}/old declare no runtime")
    [operator] = installation.operators
    await operator.stop()
    await a_second_later()
    await comes(team, "small", reserved_class, 1)
    operator.start()
    await team.event("small", "ClaimsNotAllocated")
    assert devices(await team.claim("small")) == []
    await team.delete("Pod", "old")
    await team.running("large")


async def test_what_is_reserved_is_seen_by_who_may_view(
    installation: Installation, team: Tenant, reserved_class: str
) -> None:
    """A pod that says nothing of its end waits for it, one that ends before does not, and the head knows what is held for it and from when on."""
    async with viewing(installation.cluster) as person:
        await large_waits(team, reserved_class)
        silent = await eventually(
            lambda: answer(person, "why", "claim", f"{team.namespace}/silent"),
            lambda found: found is not None and found.get("reason") == "DevicesHeld",
        )
        assert (
            f"for ResourceClaim {team.namespace}/large, which waits and is expected to start at"
            in silent["message"]
        )
        large = await answer(person, "why", "claim", f"{team.namespace}/large")
        assert large["reason"] == "NotAllocated"
        [held] = large["holds"]
        assert "holds 8 devices" in held["message"]
        [chips] = [
            row for row in (await answer(person, "free"))["devices"] if row["held"] and row["device"] == "npu"
        ]
        assert chips["held"] == 3
        await team.event("silent", "ClaimsNotAllocated", f"DeviceHold {held['name']}")

        # Now the end of another pod is awaited, and an earlier one.
        expected = held["message"].rpartition(" ")[2]
        await comes(team, "short", reserved_class, 1, "10m")
        await team.running("short")
        await team.delete("Pod", "old")

        async def starts() -> str:
            found, _ = await installation.cluster.api.items(f"{OWN}/deviceholds")
            named = [each["spec"] for each in found if each["metadata"]["name"] == held["name"]]
            return str(named[0].get("starts", "")) if named else ""

        await eventually(starts, lambda found: "" < found < expected)
        await team.delete("Pod", "large")
        await team.running("silent")
        await eventually(lambda: answer(person, "free"), lambda found: found["holds"] == [])


async def test_a_new_leader_puts_right_what_another_one_has_left(installation: Installation) -> None:
    """A DeviceHold of something that nobody holds is gone soon after an operator begins to act."""
    api, holds = installation.cluster.api, f"{OWN}/deviceholds"
    [operator] = installation.operators
    await operator.stop(grace=0)
    spec = {
        "purpose": "Reservation",
        "heldFor": [{"kind": "ResourceClaim", "namespace": "team", "name": "gone", "uid": "gone"}],
        "count": 1,
        "devices": [{"driver": NPU, "pool": "ascend-910b4-a", "device": "npu-0"}],
    }
    body = {"apiVersion": "apportion.dev/v1alpha1", "kind": "DeviceHold", "metadata": {"name": "left"}}
    await api.create(holds, {**body, "spec": spec})
    operator.start()

    async def left() -> list[str]:
        found, _ = await api.items(holds)
        return [each["metadata"]["name"] for each in found]

    await eventually(left, lambda found: found == [])


async def test_a_pod_of_high_priority_runs_where_kube_scheduler_preempts_pods_without_devices_for_it(
    installation: Installation, team: Tenant
) -> None:
    """Its gate goes although there is too little cpu: kube-scheduler sees it, and takes the cpu from pods of lower priority."""
    node = "ascend-910b4-a"
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }
    found = await installation.cluster.api.get(f"/api/v1/nodes/{node}")
    cores = int(found["status"]["allocatable"]["cpu"])
    there = {"nodeSelector": {"kubernetes.io/hostname": node}}
    async with objects(installation, ("/apis/scheduling.k8s.io/v1/priorityclasses", urgent)):
        await team.make(_asking(pod("low", **there), cores - 1))
        await team.running("low")
        await team.make(claim("urgent", request(NPU, chip("910B4", 0))))
        await team.make(_asking(pod("urgent", "urgent", priorityClassName="urgent", **there), 2))
        await team.running("urgent")
        assert await team.allocated("urgent") == [f"{node}/npu-0"]
        await team.delete("Pod", "urgent")


def _asking(raw: dict[str, Any], cores: int) -> dict[str, Any]:
    raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(cores)
    return raw
