"""A part that is gone while a claim may have it: what it takes of its card is taken, and slices say that it is lost."""

from collections.abc import Mapping

from apportion.agent.devices.generic.backend import GenericBackend
from apportion.agent.devices.values import Health
from apportion.agent.slices.nodeinventory import NodeInventory
from testbed.api import Json
from testbed.fakes.fpga import FpgaHost
from tests.agent.generic.places import FIRST, SECOND, backend_of
from tests.agent.generic.test_generic_parts import REGION, published, taken


def after(backend: GenericBackend, health: Mapping[str, Health]) -> tuple[dict[str, Json], dict[str, Json]]:
    """Discover once more, as for any other device that has come, and return what is published then."""
    assert backend.health() == health
    return published(NodeInventory(backend.devices(), health=health))


def test_a_card_without_its_parts_is_not_free_while_somebody_may_have_one(host: FpgaHost) -> None:
    """Another base image has none. The card was published without counters, and given away whole beside the claim of a part, whose taint was gone."""
    host.remove(SECOND)
    host.divide(FIRST, "region0", "region1")
    backend = backend_of(host.root, parts=[REGION])
    before, sets = published(NodeInventory(backend.devices()))
    host.join(FIRST, "region0")
    host.join(FIRST, "region1")
    parts = {"fpga-0-region-0": Health.LOST, "fpga-0-region-1": Health.LOST}
    devices, now = after(backend, parts)
    assert now == sets == {"fpga-0-counter-set": {"parts": {"value": "2"}}}
    assert {name: taken(row) for name, row in devices.items()} == {
        name: taken(row) for name, row in before.items()
    }
    assert all("lost" in str(devices[name]["taints"]) for name in parts)
    assert not backend.incomplete()


def test_a_part_that_is_lost_holds_none_that_is_there(host: FpgaHost) -> None:
    """Its claim takes of the counter until it is over; with one of two counted, the other part went to nobody."""
    host.remove(SECOND)
    takes = REGION | {"takes": {"regions": 1}}
    host.divide(FIRST, "region0", "region1")
    backend = backend_of(host.root, capacity={"regions": {"value": 2}}, parts=[takes])
    backend.devices()
    host.join(FIRST, "region0")
    _, sets = after(backend, {"fpga-0-region-0": Health.LOST})
    assert sets == {"fpga-0-counter-set": {"parts": {"value": "2"}, "regions": {"value": "2"}}}
