"""A default route in a table of the interface's own (policy routing): by it a rail reaches the others, and the node nothing."""

from testbed.hostnetwork import ip
from tests.agent.rdma.networknode import NetworkNode


async def test_the_node_does_without_a_default_route_of_another_table(rail: NetworkNode) -> None:
    """Nodes with several rails have one in a table for each; no claim got any interface of theirs. It comes back with the interface."""
    name, table = rail.network.name, str(7000 + rail.network.number)
    ip("route", "add", "default", "via", rail.network.gateway, "dev", name, "table", table)
    async with rail.node.agent():
        assert await rail.offered() is True
        claim, _ = await rail.started()
        assert rail.network.on_host() == {}
        assert await rail.unprepare(claim) == ""
    (route,) = ip("route", "show", "table", table)
    assert (route["dst"], route["gateway"], route["dev"]) == ("default", rail.network.gateway, name)


async def test_a_default_route_of_the_node_may_be_in_the_table_for_such(rail: NetworkNode) -> None:
    """The kernel looks into `default` after `main` (ip-rule(8))."""
    route = (
        "default",
        "via",
        rail.network.gateway,
        "dev",
        rail.network.name,
        "table",
        "default",
        "metric",
        "7",
    )
    ip("route", "add", *route)
    async with rail.node.agent():
        await rail.heard()
        assert "a default route of the node goes through it" in await rail.prepare(await rail.claim())
