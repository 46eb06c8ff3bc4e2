"""Preemption: pods of lower priority go for those that wait, as few as are enough, and what they give back is kept."""

from collections.abc import AsyncIterator

import pytest

from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.demo.nodes import DEMO_MANIFESTS, h100
from testbed.eventually import eventually
from testbed.installation import Installation
from testbed.versions import OLDEST
from tests.e2e.clusterobjects import objects
from tests.e2e.preemptible import CLASS, FIRST, SECOND, ask, ask_together, on_card, preemptible, protect
from tests.e2e.quotas import quota
from tests.e2e.slowends import slow_ends
from tests.e2e.tenant import LEASE, MANAGED, PATIENCE, Tenant, devices, serving
from tests.e2e.viewer import answer, viewing


class Preemption:
    """What holds on every version."""

    async def test_a_whole_card_gets_the_one_small_partition_that_blocks_it(
        self, installation: Installation, team: Tenant
    ) -> None:
        """The oldest pod goes: on the other card there are two; victim and preemptor can read why."""
        async with preemptible(installation):
            await ask(team, "alone", "1g.10gb", "low", on_card(FIRST))
            await team.running("alone")
            for name in ("one", "two"):
                await ask(team, name, "1g.10gb", "low", on_card(SECOND))
            await team.running("one", "two")
            await ask(team, "whole", "7g.80gb", "high")
            await team.running("whole")

            assert await pods(team) == {"one": "Running", "two": "Running", "whole": "Running"}
            await team.event("alone", "Preempted", "claim whole of priority 1000", "has priority 10")
            await team.event("whole", "Preempting", "(alone)", "priority 1000")
            await team.empty()

    async def test_a_disruption_budget_protects_a_pod_and_others_go(
        self, installation: Installation, team: Tenant
    ) -> None:
        """Nobody is evicted before the server has said yes for all: the next best victims are two."""
        async with preemptible(installation):
            await ask(team, "alone", "1g.10gb", "low", on_card(FIRST))
            for name in ("one", "two"):
                await ask(team, name, "1g.10gb", "low", on_card(SECOND))
            await team.running("alone", "one", "two")
            await protect(team, "alone")
            await ask(team, "whole", "7g.80gb", "high")
            await team.running("whole")

            assert await pods(team) == {"alone": "Running", "whole": "Running"}
            await team.event("whole", "PreemptionBlocked", "pod alone is not evicted", "keep-alone")
            await team.empty()

    async def test_a_group_gets_both_cards_together(self, installation: Installation, team: Tenant) -> None:
        """A small partition blocks each of them; both go, and the gates of the group with its devices."""
        async with preemptible(installation):
            for name, card in (("one", FIRST), ("two", SECOND)):
                await ask(team, name, "1g.10gb", "low", on_card(card))
            await team.running("one", "two")
            await ask_together(team, "first", "second", wanted="7g.80gb", priority="high")
            await team.running("first", "second")

            assert await pods(team) == {"first": "Running", "second": "Running"}
            await team.event("one", "Preempted", "of priority 1000", "has priority 10")
            await team.event("second", "Preempting", "evicting 2 pods", "(one, two)")
            await team.empty()

    async def test_a_team_gets_its_guarantee_back_from_a_borrower(self, installation: Installation) -> None:
        """Whatever the priorities, as far as it has borrowed: of two cards the other team keeps the one that is guaranteed to it."""
        teams = []
        for name in ("owner", "borrower"):
            made = await installation.cluster.make_namespace(name, MANAGED | {"team": name})
            teams.append(Tenant(installation, made))
        owner, borrower = teams
        entry = {"name": "cards", "deviceClass": CLASS, "guaranteed": 1}
        both = [
            quota(name, entry, team=name, cohort="teams", reclaimWithinCohort="Any")
            for name in ("owner", "borrower")
        ]
        async with preemptible(installation, mode="Never"), objects(installation, *both):
            for name in ("one", "two"):
                await ask(borrower, name, "7g.80gb", "high")
            await borrower.running("one", "two")
            await ask(owner, "first", "7g.80gb", "low")
            await owner.running("first")
            await ask(owner, "second", "7g.80gb", "low")
            await owner.event("second", "NotAllocated", "AcceleratorQuota owner would allow it")

            [kept] = await pods(borrower)
            [gone] = {"one", "two"} - {kept}
            await borrower.event(gone, "Preempted", "AcceleratorQuota borrower has more than is guaranteed")
            await owner.event("first", "Preempting", "AcceleratorQuota owner guarantees them")
            assert await pods(owner) == {"first": "Running", "second": "Pending"}
            for tenant in teams:
                await tenant.empty()
                await installation.cluster.drop_namespace(tenant.namespace)


class TestPreemption(Preemption):
    """The default version."""

    async def test_what_is_freed_goes_to_the_preemptor_although_others_wait_for_it(
        self, installation: Installation, team: Tenant
    ) -> None:
        """An older claim of low priority waits for a half of the card; the victim asks again at once, too."""
        async with preemptible(installation, [FIRST]):
            await ask(team, "victim", "1g.10gb", "low")
            await team.running("victim")
            await ask(team, "waits", "4g.40gb", "low")
            await team.event("waits", "ClaimsNotAllocated")
            await ask(team, "whole", "7g.80gb", "high")
            await team.running("whole")
            await ask(team, "again", "1g.10gb", "low")
            await team.event("again", "ClaimsNotAllocated")

            assert devices(await team.claim("waits")) == []
            assert await pods(team) == {"waits": "Pending", "whole": "Running", "again": "Pending"}
            await team.empty()

    async def test_an_operator_that_is_killed_after_the_eviction_costs_the_preemptor_nothing(
        self, installation: Installation, team: Tenant
    ) -> None:
        """The victim ends while nobody acts; the next operator gives its devices to the same claim, and evicts nobody."""
        [operator] = installation.operators
        async with preemptible(installation, [FIRST]), slow_ends(installation) as end:
            await ask(team, "victim", "1g.10gb", "low")
            await team.running("victim")
            await ask(team, "whole", "7g.80gb", "high")
            await eventually(
                lambda: team.pod("victim"), lambda found: found["metadata"].get("deletionTimestamp")
            )
            await operator.stop(grace=0)
            # Served first, it would be in the way.
            await ask(team, "small", "1g.10gb", "low")
            end()
            operator.start()
            await team.running("whole", within=2 * PATIENCE)

            assert devices(await team.claim("small")) == []
            assert "pod.preempted" not in operator.log.read_text().rpartition("operator.starting")[2]
            await team.empty()

    async def test_what_is_kept_for_the_preemptor_is_seen_by_who_may_view(
        self, installation: Installation, team: Tenant
    ) -> None:
        """The victim takes its time to end; a small claim, which would fit beside it, waits for what is kept, and the preemptor for the victim."""
        async with (
            viewing(installation.cluster) as person,
            preemptible(installation, [FIRST]),
            slow_ends(installation) as end,
        ):
            await ask(team, "victim", "1g.10gb", "low")
            await team.running("victim")
            await eventually(lambda: answer(person, "free"))
            await ask(team, "whole", "7g.80gb", "high")
            await team.event("whole", "Preempting")
            await ask(team, "small", "1g.10gb", "low")
            small = await eventually(
                lambda: answer(person, "why", "claim", f"{team.namespace}/small"),
                lambda found: found.get("reason") == "DevicesHeld",
            )
            assert f"for ResourceClaim {team.namespace}/whole, for which pods are evicted" in small["message"]
            whole = await answer(person, "why", "claim", f"{team.namespace}/whole")
            assert whole["reason"] == "NotAllocated"
            assert [each["name"] for each in whole["holds"]] == [
                each["name"] for each in (await answer(person, "free"))["holds"]
            ]
            end()
            await team.running("whole", within=2 * PATIENCE)
            # What is held by now is for the small one, which waits longer on a busy machine.
            await eventually(
                lambda: answer(person, "free"),
                lambda found: all(
                    f"{team.namespace}/whole" not in each["message"] for each in found["holds"]
                ),
            )
            await team.empty()

    async def test_nobody_goes_for_a_group_where_a_budget_protects_one_of_those_that_would_have_to(
        self, installation: Installation, team: Tenant
    ) -> None:
        """One card is not enough for the group, so that the unprotected pod would go in vain."""
        async with preemptible(installation):
            for name, card in (("one", FIRST), ("two", SECOND)):
                await ask(team, name, "1g.10gb", "low", on_card(card))
            await team.running("one", "two")
            await protect(team, "two")
            await ask_together(team, "first", "second", wanted="7g.80gb", priority="high")
            await team.event("first", "PreemptionBlocked", "pod two is not evicted", "keep-two")

            left = {"one": "Running", "two": "Running", "first": "Pending", "second": "Pending"}
            assert await pods(team) == left
            await team.empty()

    async def test_nobody_goes_for_a_pod_that_does_not_preempt(
        self, installation: Installation, team: Tenant
    ) -> None:
        """`preemptionPolicy: Never` of its priority; it waits like any other."""
        async with preemptible(installation, [FIRST], after="0s"):
            await ask(team, "keeps", "1g.10gb", "low")
            await team.running("keeps")
            await ask(team, "polite", "7g.80gb", "polite")
            await ask(team, "equal", "7g.80gb", "low")
            await team.event("polite", "ClaimsNotAllocated")
            await team.event("equal", "ClaimsNotAllocated")
            # A search for victims is made every second.
            await ask(team, "whole", "7g.80gb", "high")
            await team.event("keeps", "Preempted")
            await team.running("whole")
            assert devices(await team.claim("polite")) == []
            await team.empty()


@pytest.fixture(scope="module")
async def oldest_installation(oldest_binaries: Binaries) -> AsyncIterator[Installation]:
    """Install on the oldest version with the right to evict, on one node."""
    async with (
        ControlPlane(version=OLDEST, binaries=oldest_binaries) as cluster,
        Installation(
            cluster, [h100("h100-b")], operator_options=LEASE, manifests=DEMO_MANIFESTS
        ) as installed,
    ):
        await serving(installed)
        yield installed


class TestPreemptionOnOldest(Preemption):
    """The oldest supported version."""

    @pytest.fixture
    def installation(self, oldest_installation: Installation) -> Installation:
        """The tests' installation."""
        return oldest_installation

    @pytest.fixture
    async def team(self, oldest_installation: Installation) -> Tenant:
        """Make a managed namespace; it goes with the control plane."""
        name = await oldest_installation.cluster.make_namespace("team", MANAGED)
        return Tenant(oldest_installation, name)


async def pods(tenant: Tenant) -> dict[str, str]:
    """Wait until no pod of a namespace is ending, and return their phases."""

    async def found() -> list[dict[str, object]]:
        path = f"/api/v1/namespaces/{tenant.namespace}/pods"
        every, _ = await tenant.installation.cluster.api.items(path)
        return every

    left = await eventually(
        found, lambda every: not any("deletionTimestamp" in each["metadata"] for each in every)
    )
    return {each["metadata"]["name"]: each["status"]["phase"] for each in left}
