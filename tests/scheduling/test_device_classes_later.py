"""DeviceClasses that change: what was found out about nodes by what they selected before is found out anew."""

from apportion.cluster.client import Client
from apportion.scheduling.backfill.reservations import REPLANNED
from tests.scheduling.lookingfornodes import H100, H200
from tests.scheduling.reserving import DEVICES, Reserving, on


async def test_a_reservation_leaves_devices_that_its_class_selects_no_more(unanswered: Client) -> None:
    """It stayed there for as long as their pods ran: what became free elsewhere went to others."""
    made = Reserving(unanswered, {"n1": DEVICES, "n2": DEVICES}, mostReserved=1)
    h200 = {"attributes": {"model": {"string": "h200"}}}
    devices = [{"name": f"gpu-{number}", **h200} for number in range(DEVICES)]
    made.world.slice("n2", "n2-devices", {"devices": devices}, 1)
    for node in ("n1", "n2"):
        for number in range(2):
            made.starts(f"{node}-{number}", DEVICES // 2, spec={"affinity": on(node)})
    made.comes("large", DEVICES)
    assert made.passes() == []
    [([node], _)] = made.reserved.values()
    made.world.device_class("gpu", H200 if node == "n1" else H100)
    for _ in range(4):
        made.passes(REPLANNED)
    assert made.reserved["large"][0] == [*{"n1", "n2"}.difference({node})]
