"""What the host takes back no more of an interface: the claim ends all the same, and the Node says what is missing."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from apportion.errors import NotReady
from testbed.api import Json
from testbed.hostnetwork import ip, seen
from tests.agent.places import RDMA
from tests.agent.rdma.rails import WANTED, Rails, rails_below

pytestmark = pytest.mark.usefixtures("interfaces")


def saying(rails: Rails) -> list[tuple[str, str]]:
    """Return what the Node is said from now on: reasons and texts."""
    said: list[tuple[str, str]] = []

    async def warn(reason: str, texts: Iterable[str]) -> None:
        said.extend((reason, text) for text in texts)

    rails.node.context.warn = warn
    return said


async def test_a_route_that_the_host_takes_back_no_more_does_not_keep_the_claim(tmp_path: Path) -> None:
    """Its source was an address of the loopback device, which was given another one while the pod ran."""
    async with rails_below(tmp_path) as rails:
        said = saying(rails)
        journal = rails.node.context.journal
        for row in journal.networks():
            journal.put_network(replace(row, wanted=json.dumps(json.loads(WANTED) | {"routes": []})))
        name, source = rails.network.name, f"198.19.{rails.network.number}.77"
        before = rails.network.on_host()
        ip("address", "add", f"{source}/32", "dev", "lo")
        try:
            ip("route", "add", "198.19.254.0/24", "via", rails.network.gateway, "dev", name, "src", source)
            first, namespace = rails.sandbox("first")
            await rails.networks.began(first)
        finally:
            ip("address", "del", f"{source}/32", "dev", "lo")
        await rails.networks.ending(first)
        rails.network.end(namespace)
        assert await rails.refusals() == []
        assert rails.network.on_host() == before
        (text,) = (text for reason, text in said if reason == "NetworkDeviceNotRestored")
        assert text.startswith(f"interface {name} of nic-mlx5-0: route to 198.19.254.0/24: Invalid argument")


async def test_an_mtu_that_the_host_refuses_does_not_keep_the_claim_for_ever(tmp_path: Path) -> None:
    """That of a virtual function may not be above its physical function's, which somebody has lowered: no try would ever help."""
    async with rails_below(tmp_path) as rails:
        said = saying(rails)
        before = rails.network.on_host()
        await rails.networks.began(rails.sandbox("first")[0])
        as_it_was(rails, lambda found: {**found, "mtu": 70000})
        refused = [*await rails.refusals(), *await rails.refusals()]
        assert 0 < len(refused) < 5
        assert all("MTU 70000: Invalid argument" in each for each in refused)
        assert rails.steps() == []
        assert rails.network.on_host() == before
        (text,) = (text for reason, text in said if reason == "NetworkDeviceNotRestored")
        assert text.startswith(f"interface {rails.network.name} of nic-mlx5-0: MTU 70000: Invalid argument")


async def test_a_name_that_another_interface_has_by_now_does_not_keep_the_claim_for_ever(
    tmp_path: Path,
) -> None:
    """The kernel gives free names (eth2) to what is plugged in; nobody renames the other one while it is in use."""
    async with rails_below(tmp_path) as rails:
        said, name = saying(rails), rails.network.name
        before, index = rails.network.on_host(), ip("link", "show", name)[0]["ifindex"]
        first, namespace = rails.sandbox("first")
        await rails.networks.began(first)
        ip("link", "add", name, "type", "veth", "peer", "name", f"{rails.network.peer}x")
        try:
            refused = [*await rails.refusals(), *await rails.refusals()]
            assert 0 < len(refused) < 5
            assert rails.steps() == []
            assert seen(f"dev{index}") == before
        finally:
            ip("link", "delete", name)
        assert rails.where(namespace) == 0
        (text,) = (text for reason, text in said if reason == "NetworkDeviceNotRestored")
        assert text.startswith(f"interface {name} of nic-mlx5-0: name {name}: File exists")


async def test_what_the_host_refuses_for_a_moment_is_put_back(tmp_path: Path) -> None:
    """A driver that starts anew refuses all: an interface that is given back then would never be as it was."""
    async with rails_below(tmp_path) as rails:
        before = rails.network.on_host()
        await rails.networks.began(rails.sandbox("first")[0])
        right = as_it_was(rails, lambda found: {**found, "mtu": 70000})
        with pytest.raises(NotReady, match="MTU 70000"):
            await rails.networks.release("c", RDMA)
        as_it_was(rails, lambda found: {**found, "mtu": right["mtu"]})
        assert await rails.refusals() == []
        assert rails.network.on_host() == before


def as_it_was(rails: Rails, change: Callable[[Json], Json]) -> Json:
    """Change what the journal says of how the first interface was on the host; returns what it has said."""
    journal = rails.node.context.journal
    row = next(each for each in journal.networks() if each.interface == rails.network.name)
    found: Json = json.loads(row.before)
    journal.put_network(replace(row, before=json.dumps(change(found))))
    return found
