"""A replica that leads no more keeps nothing reserved."""

from apportion.cluster.client import Client
from tests.scheduling.reserving import DEVICES, full
from tests.scheduling.sliced import between, until


async def test_a_replica_that_leads_no_more_has_nothing_reserved(silent: Client) -> None:
    """Its metrics would count it, and its state hold it, until it leads again: perhaps never."""
    made = full(silent)
    made.comes("large", DEVICES)
    await between(made.cycle, until(lambda: bool(made.held())))
    assert not made.reserved
    assert not made.held()
