"""Names of Events."""

import re

import pytest

from apportion.cluster.kinds import CLAIMS, EVENTS
from apportion.cluster.recorder import About
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.apiserver import ApiServer
from tests.cluster.emptyserver import server
from tests.cluster.recorded import recorder

__all__ = ["server"]

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""A name as the API server takes it (apimachinery, `IsDNS1123Subdomain`)."""


@pytest.mark.parametrize("between", ["-", ".", "---"])
async def test_an_event_about_an_object_with_a_long_name_has_a_name_that_the_server_takes(
    server: ApiServer, between: str
) -> None:
    """What does not fit is cut off, and the rest may end in a hyphen or full stop."""
    name = f"{'a' * (230 - len(between))}{between}{'b' * 23}"
    assert SUBDOMAIN.fullmatch(name)

    async def written() -> list[str]:
        return [raw["metadata"]["name"] for raw in server.all(EVENTS)]

    async with server.client() as client, recorder(client, Clock()) as made:
        made.warning(About(CLAIMS, name, "uid", "team"), "NotAllocated", "no device")
        [found] = await eventually(written)
    assert SUBDOMAIN.fullmatch(found)
    assert len(found) <= 253
