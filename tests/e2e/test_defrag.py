"""DefragPolicies: what they recommend, and pods that move one after the other into places that are held for them, also when the operator is killed."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.installation import Installation
from testbed.versions import OLDEST
from tests.e2e.clusterobjects import condition, objects, served_beside
from tests.e2e.moves import (
    CLASS,
    POLICIES,
    SLOW,
    all_run,
    campaign,
    conditions,
    defrag,
    installed,
    places,
    pods,
    scattered,
    status,
    victim,
)
from tests.e2e.preemptible import FIRST, on_card, protect
from tests.e2e.slowends import slow_ends
from tests.e2e.tenant import GPU, MANAGED, Tenant, claim, devices, pod, profile, request
from tests.e2e.viewer import answer, viewing


@pytest.fixture(scope="module")
async def two_nodes(binaries: Binaries) -> AsyncIterator[Installation]:
    """Install on a control plane of its own: nodes are cordoned, and the operator is killed."""
    async with ControlPlane(binaries=binaries) as cluster, installed(cluster) as found:
        yield found


@pytest.fixture(scope="module")
async def two_oldest_nodes(oldest_binaries: Binaries) -> AsyncIterator[Installation]:
    """Install on the oldest version."""
    async with ControlPlane(version=OLDEST, binaries=oldest_binaries) as cluster, installed(cluster) as found:
        yield found


@pytest.fixture
async def team(installation: Installation) -> AsyncIterator[Tenant]:
    """Make a managed namespace; it is emptied afterwards."""
    name = await installation.cluster.make_namespace("team", MANAGED)
    tenant = Tenant(installation, name)
    yield tenant
    await tenant.empty()


class Moves:
    """What holds on every version."""

    async def test_a_whole_card_is_freed_and_the_next_claim_has_it(
        self, installation: Installation, team: Tenant
    ) -> None:
        """One of two pods moves beside the other; both nodes' cards were in use before, so that a claim for a whole one would have waited."""
        async with scattered(team), objects(installation, defrag("tidy", mode="Evict")):
            found = await campaign(team, "tidy")
            assert (found["reason"], [each["phase"] for each in found["moves"]]) == ("Completed", ["Moved"])
            [move] = found["moves"]
            running = await all_run(team, 2)
            assert {each["spec"]["nodeName"] for each in running} == {move["target"]["node"]}
            taken = {f"{GPU}/{each}" for each in (await places(team)).values()}
            assert len(taken) == 2
            assert {*move["target"]["devices"]} < taken
            await team.event(
                move["pod"].partition("/")[2], "Moved", "DefragPolicy tidy", move["target"]["node"]
            )
            await team.event("tidy", "MovesEnded", "1 of 1 moves made", "Completed")
            await eventually(
                lambda: conditions(team, "tidy"), lambda found: found["Completed"][0] == "Completed"
            )

            await team.make(claim("whole", request(GPU, on_card(FIRST))))
            await team.make(pod("whole", "whole"))
            [whole] = await team.running("whole")
            assert whole["spec"]["nodeName"] == move["source"]["node"]


class TestMoves(Moves):
    """The default version."""

    @pytest.fixture
    def installation(self, two_nodes: Installation) -> Installation:
        """The tests' installation."""
        return two_nodes

    async def test_a_policy_recommends_and_touches_nothing(
        self, installation: Installation, team: Tenant
    ) -> None:
        """The plan is in the status, in one line and whole, and an Event says it; the pods are the same afterwards."""
        async with scattered(team):
            before = {each["metadata"]["uid"] for each in await pods(team)}
            async with objects(installation, defrag("tidy")):
                found = await eventually(
                    lambda: status(team, "tidy"), lambda found: found.get("plan"), within=SLOW
                )
                text = "1 pod would move, and 1 more whole card is free"
                assert found["summary"] == text
                [move] = found["plan"]["moves"]
                assert move["source"]["node"] != move["target"]["node"]
                assert found["plan"]["freed"] == [f"{GPU}/{move['source']['node']}/gpu-0"]
                assert "campaign" not in found
                await team.event("tidy", "MovesPlanned", text)
                assert (await conditions(team, "tidy"))["Planned"][0] == "Planned"
            assert {each["metadata"]["uid"] for each in await all_run(team, 2)} == before

    async def test_a_budget_at_zero_ends_it_and_nobody_is_touched(
        self, installation: Installation, team: Tenant
    ) -> None:
        """The server is asked first; the condition names the budget."""
        async with scattered(team):
            before = {each["metadata"]["uid"] for each in await pods(team)}
            for name in ("one", "two"):
                await protect(team, name)
            async with objects(installation, defrag("tidy", mode="Evict")):
                found = await campaign(team, "tidy")
                assert found["reason"] == "Blocked"
                assert "keep-" in found["message"]
            assert {each["metadata"]["uid"] for each in await all_run(team, 2)} == before

    async def test_pods_that_come_in_between_do_not_get_what_is_held(
        self, installation: Installation, team: Tenant
    ) -> None:
        """The pod that goes takes its time, and its set makes no other before; six pods that come meanwhile have all but what is held, so that one of them waits."""
        async with (
            scattered(team, "StatefulSet"),
            slow_ends(installation) as end,
            objects(installation, defrag("tidy", mode="Evict")),
        ):
            [move] = (await campaign(team, "tidy", ended=False))["moves"]
            gone = await victim(team, move)
            names = [f"between-{number}" for number in range(6)]
            for name in names:
                await team.make(claim(name, request(CLASS, profile("1g.10gb"))))
                await team.make(pod(name, name))

            async def served() -> list[str]:
                return [each for name in names for each in devices(await team.claim(name))]

            taken = await eventually(served, lambda found: len(found) == 5, within=SLOW)
            assert not [each for each in taken if each.startswith(f"{move['source']['node']}/")]
            end()
            assert (await campaign(team, "tidy"))["reason"] == "Completed"
            running = {each["metadata"]["name"]: each for each in await all_run(team, 8)}
            place = (await places(team))[running[gone["metadata"]["name"]]["metadata"]["uid"]]
            assert [f"{GPU}/{place}"] == move["target"]["devices"]

    async def test_a_person_with_the_view_role_sees_what_is_held_and_why_a_claim_waits_for_it(
        self, installation: Installation, team: Tenant
    ) -> None:
        """While a plan is carried out nobody else gets its places: `free` counts them as held, `who` names them, and `why` what a claim waits for."""
        async with (
            viewing(installation.cluster) as person,
            scattered(team, "StatefulSet"),
            slow_ends(installation) as end,
        ):
            before = await eventually(lambda: answer(person, "free"), within=SLOW)
            assert before["holds"] == []
            async with objects(installation, defrag("tidy", mode="Evict")):
                [move] = (await campaign(team, "tidy", ended=False))["moves"]
                await victim(team, move)
                for name, count in (("all", 5), ("more", 1)):
                    await team.make(claim(name, request(CLASS, profile("1g.10gb"), count=count)))
                    await team.make(pod(name, name))
                    if name == "all":
                        # What is left then is what is held.
                        await team.allocated(name)
                why = await eventually(
                    lambda: answer(person, "why", "claim", f"{team.namespace}/more"),
                    lambda found: found.get("reason") == "DevicesHeld",
                )
                assert "DeviceHold move holds" in why["message"]
                assert "DefragPolicy tidy moves" in why["message"]
                assert {each["remedy"] for each in why["remedies"]} >= {"WaitFor"}
                free = await answer(person, "free")
                assert [each["name"] for each in free["holds"]] == ["move"]
                assert {row["device"] for row in free["devices"] if row["held"]} >= {"1g.10gb"}
                driver, node, device = move["target"]["devices"][0].split("/")
                who = (await answer(person, "who", f"{driver}/{node}/{device}"))["holders"]
                assert [row["claim"] for row in who] == ["DeviceHold move"]
                end()
                assert (await campaign(team, "tidy"))["reason"] == "Completed"
            await eventually(lambda: answer(person, "free"), lambda found: found["holds"] == [])

    async def test_an_operator_that_is_killed_before_the_eviction_goes_on_with_the_same_places(
        self, installation: Installation, team: Tenant
    ) -> None:
        """A budget keeps it between holding and evicting; while it is dead the budget goes, and a pod comes that would take the new place."""
        [operator] = installation.operators
        async with scattered(team):
            for name in ("one", "two"):
                await protect(team, name)
            async with objects(installation, defrag("tidy", mode="Evict")):
                [move] = (await campaign(team, "tidy", ended=False))["moves"]
                await operator.stop(grace=0)
                budgets = f"/apis/policy/v1/namespaces/{team.namespace}/poddisruptionbudgets"
                await installation.cluster.api.delete_all(budgets)
                before = {each["metadata"]["uid"] for each in await pods(team)}
                await self._hungry(team, 6)
                operator.start()
                await self._moved(team, move, before)

    async def test_an_operator_that_is_killed_after_the_eviction_gives_the_place_to_who_comes_instead(
        self, installation: Installation, team: Tenant
    ) -> None:
        """While it is dead the pod ends, another one comes in its place, and six more that would take all there is; nobody is evicted again."""
        [operator] = installation.operators
        async with scattered(team):
            before = {each["metadata"]["uid"] for each in await pods(team)}
            # Another replica's writes are none of this: the operator dies as soon as the pod is seen to end.
            async with objects(installation, defrag("tidy", mode="Evict")):
                [move] = (await campaign(team, "tidy", ended=False))["moves"]
                await self._evicted(team, move)
                await operator.stop(grace=0)
                await self._hungry(team, 6)
                operator.start()
                await self._moved(team, move, before)
                assert "pod.moved" not in operator.log.read_text().rpartition("operator.starting")[2]

    async def test_bad_fields_are_named_and_everybody_else_is_served(
        self, installation: Installation, team: Tenant
    ) -> None:
        """A schedule, a time zone, a class, a selector: each policy says which field; a policy that is right works beside them."""
        cel = [{"cel": {"expression": "device.nothing("}}]
        wrong = {
            "hour": ({"schedule": "0 25 * * *"}, "spec.schedule"),
            "zone": ({"timeZone": "Mars/Olympus"}, "spec.timeZone"),
            "class": (
                {"free": {"roomFor": {"deviceClass": "nothing"}}},
                "spec.free.roomFor.deviceClass: DeviceClass nothing does not exist",
            ),
            "cel": (
                {"free": {"wholeCards": {"deviceClass": GPU, "selectors": cel}}},
                "spec.free.wholeCards.selectors[0].cel.expression",
            ),
        }
        made = [defrag(name, **spec) for name, (spec, _) in wrong.items()]
        async with objects(installation, *made, defrag("right")):
            for name, (_, field) in wrong.items():
                found = await condition(installation, f"{POLICIES}/{name}", "Accepted")
                assert (found["reason"], found["message"].startswith(field)) == ("Broken", True), found
                await team.event(name, "BrokenDefragPolicy", field)
            right = await eventually(
                lambda: status(team, "right"), lambda found: found.get("plan"), within=SLOW
            )
            assert right["nextSchedule"]
            assert (await conditions(team, "right"))["Planned"][0] == "NoMoves"
            await served_beside(team)

    async def _hungry(self, team: Tenant, count: int) -> None:
        for number in range(count):
            await team.make(claim(f"hungry-{number}", request(CLASS, profile("1g.10gb"))))
            await team.make(pod(f"hungry-{number}", f"hungry-{number}"))

    async def _evicted(self, team: Tenant, move: dict[str, str]) -> None:
        """Wait until the pod of a move is ending, or gone."""
        name = move["pod"].partition("/")[2]
        path = f"/api/v1/namespaces/{team.namespace}/pods/{name}"

        async def gone() -> bool:
            found = await team.installation.cluster.api.find(path)
            return found is None or "deletionTimestamp" in found["metadata"]

        async with asyncio.timeout(SLOW):
            while not await gone():  # noqa: ASYNC110 - as closely as it goes
                await asyncio.sleep(0.01)

    async def _moved(self, team: Tenant, move: dict[str, dict[str, list[str]]], before: set[str]) -> None:
        """Check that a move was made as it was planned, and that everybody runs."""
        found = await campaign(team, "tidy")
        assert (found["reason"], [each["target"] for each in found["moves"]]) == (
            "Completed",
            [move["target"]],
        )
        running = await all_run(team, 8)
        [successor] = [
            each
            for each in running
            if each["metadata"]["uid"] not in before and not each["metadata"]["name"].startswith("hungry")
        ]
        place = (await places(team))[successor["metadata"]["uid"]]
        assert [f"{GPU}/{place}"] == move["target"]["devices"]


class TestMovesOnOldest(Moves):
    """The oldest supported version."""

    @pytest.fixture
    def installation(self, two_oldest_nodes: Installation) -> Installation:
        """The tests' installation."""
        return two_oldest_nodes
