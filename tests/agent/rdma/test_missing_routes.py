"""What the host takes back no more of an interface: the claim ends all the same, and the Node says what is missing."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.hostnetwork import ip
from tests.agent.rdma.rails import WANTED, rails_below

pytestmark = pytest.mark.usefixtures("interfaces")


async def test_a_route_that_the_host_takes_back_no_more_does_not_keep_the_claim(tmp_path: Path) -> None:
    """Its source was an address of the loopback device, which was given another one while the pod ran."""
    said: list[tuple[str, str]] = []

    async def warn(reason: str, texts: Iterable[str]) -> None:
        said.extend((reason, text) for text in texts)

    async with rails_below(tmp_path) as rails:
        rails.node.context.warn = warn
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
