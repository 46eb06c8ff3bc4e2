"""DefragPolicies: what they recommend, that they touch nobody, and what they say of fields that are wrong."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.demo.nodes import h100
from testbed.eventually import eventually
from testbed.installation import Installation
from testbed.versions import OLDEST
from tests.e2e.clusterobjects import condition, objects, served_beside
from tests.e2e.moves import POLICIES, SLOW, all_run, conditions, defrag, pods, scattered, status
from tests.e2e.tenant import GPU, LEASE, MANAGED, Tenant, serving


@pytest.fixture(scope="module")
async def two_nodes(binaries: Binaries) -> AsyncIterator[Installation]:
    """Install on a control plane of its own: nodes are cordoned."""
    async with ControlPlane(binaries=binaries) as cluster, _installed(cluster) as installed:
        yield installed


@pytest.fixture(scope="module")
async def two_oldest_nodes(oldest_binaries: Binaries) -> AsyncIterator[Installation]:
    """Install on the oldest version."""
    async with (
        ControlPlane(version=OLDEST, binaries=oldest_binaries) as cluster,
        _installed(cluster) as installed,
    ):
        yield installed


@asynccontextmanager
async def _installed(cluster: ControlPlane) -> AsyncIterator[Installation]:
    nodes = [h100("h100-a"), h100("h100-b")]
    async with Installation(cluster, nodes, operator_options=LEASE) as installed:
        await serving(installed)
        yield installed


@pytest.fixture
async def team(installation: Installation) -> AsyncIterator[Tenant]:
    """Make a managed namespace; it is emptied afterwards."""
    name = await installation.cluster.make_namespace("team", MANAGED)
    tenant = Tenant(installation, name)
    yield tenant
    await tenant.empty()


class Recommendations:
    """What holds on every version."""

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
                await team.event("tidy", "MovesPlanned", text)
                assert (await conditions(team, "tidy"))["Planned"][0] == "Planned"
            assert {each["metadata"]["uid"] for each in await all_run(team, 2)} == before


class TestRecommendations(Recommendations):
    """The default version."""

    @pytest.fixture
    def installation(self, two_nodes: Installation) -> Installation:
        """The tests' installation."""
        return two_nodes

    async def test_bad_fields_are_named_and_everybody_else_is_served(
        self, installation: Installation, team: Tenant
    ) -> None:
        """A mode that is not carried out yet, a schedule, a time zone, a class, a selector: each policy says which field; a policy that is right works beside them."""
        cel = [{"cel": {"expression": "device.nothing("}}]
        wrong = {
            "evict": ({"mode": "Evict"}, "spec.mode: Evict is not carried out by this release"),
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


class TestRecommendationsOnOldest(Recommendations):
    """The oldest supported version."""

    @pytest.fixture
    def installation(self, two_oldest_nodes: Installation) -> Installation:
        """The tests' installation."""
        return two_oldest_nodes
