"""Tests of quotas on a live cluster, for each version of Kubernetes: limits, guarantees and turns of tenants, as they and their administrators see them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from testbed.api import Json
from testbed.errors import ApiError
from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.clusterobjects import objects
from tests.e2e.tenant import (
    GPU,
    MANAGED,
    MIG,
    OWN,
    PATIENCE,
    Tenant,
    claim,
    devices,
    first_available,
    pod,
    profile,
    request,
)

HOST = "kubernetes.io/hostname"
QUOTAS = f"{OWN}/acceleratorquotas"


def quota(name: str, *resources: Json, team: str, cohort: str | None = None, **more: str) -> tuple[str, Json]:
    """Return a quota for the namespaces of a team, and where it is made; `more` are fields of its spec."""
    spec: Json = {"namespaceSelector": {"matchLabels": {"team": team}}, "resources": [*resources], **more}
    return QUOTAS, {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "AcceleratorQuota",
        "metadata": {"name": name},
        "spec": spec | ({"cohort": cohort} if cohort else {}),
    }


async def status(installation: Installation, name: str) -> Json:
    """Return the status of a quota."""
    found: Json = (await installation.cluster.api.get(f"{QUOTAS}/{name}")).get("status", {})
    return found


def conditions(found: Json) -> dict[str, str]:
    """Return the reason of each condition."""
    return {each["type"]: each["reason"] for each in found.get("conditions", ())}


async def in_force(installation: Installation, *names: str) -> None:
    """Wait until the operator knows quotas: what it sees before is given out without them."""
    for name in names:
        await eventually(
            lambda name=name: status(installation, name),  # type: ignore[misc]
            lambda now: conditions(now).get("Accepted") == "Valid",
            within=PATIENCE,
        )


class Quotas:
    node = "h100-a"
    """A node with eight GPUs."""

    @pytest.fixture
    async def tenants(self, installation: Installation) -> AsyncIterator[tuple[Tenant, Tenant]]:
        """Make two managed namespaces of different teams; they are emptied afterwards."""
        made = []
        for name in ("red", "blue"):
            namespace = await installation.cluster.make_namespace(name, MANAGED | {"team": name})
            made.append(Tenant(installation, namespace))
        yield made[0], made[1]
        for tenant in made:
            await tenant.empty()
            await installation.cluster.drop_namespace(tenant.namespace)

    async def test_a_pod_beyond_the_limit_waits_says_why_and_runs_when_another_one_ends(
        self, installation: Installation, tenants: tuple[Tenant, Tenant]
    ) -> None:
        """Two GPUs are the limit; the third waits, the other tenant's runs."""
        red, blue = tenants
        entry = {"name": "gpus", "deviceClass": GPU, "guaranteed": 1, "limit": 2}
        async with objects(installation, quota("red", entry, team="red")):
            await in_force(installation, "red")
            for name in ("one", "two"):
                await red.make(claim(name, request(GPU)))
                await red.make(pod(name, name))
            await red.running("one", "two")
            await red.make(claim("three", request(GPU)))
            await red.make(pod("three", "three"))
            await blue.make(claim("other", request(GPU)))
            await blue.make(pod("other", "other"))
            await blue.running("other")
            words = "AcceleratorQuota red, resource gpus: used 2, asked 1, limit 2"
            await red.event("three", "ExceedsLimit", words)
            found = await eventually(
                lambda: status(installation, "red"),
                lambda now: conditions(now).get("Served") == "ExceedsLimit",
                within=PATIENCE,
            )
            assert found["summary"] == "gpus 2/2"
            assert (found["namespaces"], found["pending"]) == (1, 1)
            [row] = found["resources"]
            assert row == {
                "name": "gpus", "used": "2", "borrowed": "1", "pending": 1, "reason": "LimitReached"
            }  # fmt: skip
            assert (conditions(found)["Accepted"], conditions(found)["Exclusive"]) == ("Valid", "Valid")

            await red.delete("Pod", "one")
            await red.delete("ResourceClaim", "one")
            await red.running("three")

    async def test_an_alternative_beyond_the_limit_is_skipped_and_partitions_are_charged_exactly(
        self, installation: Installation, tenants: tuple[Tenant, Tenant]
    ) -> None:
        """No whole GPU is left of a limit of 20Gi, a partition of 10Gi is; the next one is, a third one is not."""
        red, _ = tenants
        entry = {"name": "memory", "capacity": "gpu.apportion.dev/memory", "limit": "20Gi"}
        async with objects(installation, quota("memory", entry, team="red")):
            await in_force(installation, "memory")
            small = profile("1g.10gb")
            for names in (("a", "b"), ("c",)):
                for name in names:
                    await red.make(claim(name, first_available((GPU, "true"), (MIG, small))))
                    await red.make(pod(name, name))
                await red.running("a", "b")
            await red.event("c", "ExceedsLimit", "resource memory", "limit 20Gi")
            found = [device for name in "ab" for device in devices(await red.claim(name))]
            assert ["-mig-1g10gb-" in device for device in found] == [True, True]
            shown = await eventually(
                lambda: status(installation, "memory"),
                lambda now: now.get("pending") == 1 and bool(now.get("resources")),
                within=PATIENCE,
            )
            assert shown["resources"][0]["used"] == "19968Mi"  # two partitions of 9984Mi

    async def test_a_raised_limit_lets_pods_in_that_wait_for_it(
        self, installation: Installation, tenants: tuple[Tenant, Tenant]
    ) -> None:
        """Nothing else happens."""
        red, _ = tenants
        entry = {"name": "gpus", "deviceClass": GPU, "limit": 0}
        async with objects(installation, quota("none", entry, team="red")):
            await in_force(installation, "none")
            await red.make(claim("waits", request(GPU)))
            await red.make(pod("waits", "waits"))
            await red.event("waits", "ExceedsLimit", "used 0, asked 1, limit 0")
            change = {"spec": {"resources": [entry | {"limit": 1}]}}
            await installation.cluster.api.patch(f"{QUOTAS}/none", change)
            await red.running("waits")

    async def test_tenants_of_a_cohort_get_what_is_free_by_their_weights(
        self, installation: Installation, tenants: tuple[Tenant, Tenant]
    ) -> None:
        """Of eight GPUs of a node the tenant that came later gets six, because it weighs three times as much."""
        red, blue = tenants
        stack = AsyncExitStack()
        for team, weight in (("red", 1), ("blue", 3)):
            entry = {"name": "gpus", "deviceClass": GPU, "weight": weight}
            await stack.enter_async_context(
                objects(installation, quota(team, entry, team=team, cohort="colours"))
            )
        async with stack:
            await in_force(installation, "red", "blue")
            blocker = await self._fill(red, blue)
            for tenant in (red, blue):
                for number in range(8):
                    await tenant.make(claim(f"c{number}", request(GPU)))
                    await tenant.make(pod(f"p{number}", f"c{number}", nodeSelector={HOST: self.node}))
            for tenant in (red, blue):
                await tenant.event("p7", "ClaimsNotAllocated")
            await blocker.delete("Pod", "all")
            await blocker.delete("ResourceClaim", "all")

            async def served() -> tuple[int, int]:
                both = [[devices(each) for each in await tenant.claims()] for tenant in (red, blue)]
                return sum(map(bool, both[0])), sum(map(bool, both[1]))

            found = await eventually(served, lambda now: sum(now) == 8, within=PATIENCE)
            assert found == (2, 6)

    async def _fill(self, *tenants: Tenant) -> Tenant:
        """Take all GPUs of the node until everybody waits."""
        blocker, _ = tenants
        await blocker.make(claim("all", request(GPU, count=8)))
        await blocker.make(pod("all", "all", nodeSelector={HOST: self.node}))
        await blocker.running("all")
        return blocker

    async def test_quotas_that_cannot_work_as_written_say_so_and_others_are_served(
        self, installation: Installation, tenants: tuple[Tenant, Tenant]
    ) -> None:
        """A limit below the guarantee is refused; an unknown class and a mistyped capacity get a condition, two for one namespace both; alone in a cohort, too."""
        red, blue = tenants
        wrong = {"name": "gpus", "deviceClass": GPU, "guaranteed": 2, "limit": 1}
        with pytest.raises(ApiError, match="guaranteed must not exceed limit"):
            await installation.cluster.api.create(*quota("wrong", wrong, team="red"))
        unknown = {"name": "r", "deviceClass": "nobody-has-it", "limit": 1}
        strange = {"name": "r", "capacity": "memori", "limit": 1}
        async with (
            objects(installation, quota("first", unknown, team="red")),
            objects(installation, quota("second", strange, team="red", cohort="second")),
        ):
            for tenant in (red, blue):
                await tenant.make(claim("c", request(GPU)))
                await tenant.make(pod("p", "c"))
                await tenant.running("p")
            at = "spec.resources[0]"
            for name, reason, words in (
                ("first", "UnknownClass", f"{at}.deviceClass: DeviceClass nobody-has-it does not exist"),
                (
                    "second",
                    "NotPublished",
                    f"{at}.capacity: no node offers a device with capacity memori; did you mean memory?",
                ),
            ):
                found = await eventually(
                    lambda name=name: status(installation, name),  # type: ignore[misc]
                    lambda now: conditions(now).get("Exclusive") == "Overlap",
                    within=PATIENCE,
                )
                assert (conditions(found)["Accepted"], conditions(found)["Resolved"]) == ("Valid", reason)
                texts = {each["type"]: each["message"] for each in found["conditions"]}
                assert texts["Resolved"] == words
                await red.event(name, "Unresolved", words)
                assert f"namespace {red.namespace} is selected by" in texts["Exclusive"]
                assert "and obeys first, which is the oldest" in texts["Exclusive"]
            assert conditions(found)["Joined"] == "Alone"
            async with objects(installation, quota("third", strange, team="blue", cohort="second")):
                await eventually(
                    lambda: status(installation, "second"),
                    lambda now: conditions(now).get("Joined") == "Valid",
                    within=PATIENCE,
                )
