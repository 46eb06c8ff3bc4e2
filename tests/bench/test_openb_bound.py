"""The bound of the openb replay: value of a node, rare requests and their prices."""

import pytest

from bench.openb.bound.knowndemand import KnownDemand
from bench.openb.bound.stranding import stranded_fraction
from bench.openb.model import FreeNode, PodRequest

LARGE = PodRequest(cpu=64_000, devices=8, milli=1000)
SHARE = PodRequest(cpu=4_000, devices=1, milli=500)
WHOLE = PodRequest(cpu=8_000, devices=1, milli=1000)
EMPTY = FreeNode(96_000, "G2", (1000,) * 8)


def test_with_cores_enough_for_every_pod_no_device_is_stranded() -> None:
    """Nothing is stranded from the cores of the most demanding pod on, everything without a core, less with more cores between."""
    stranded = stranded_fraction(
        {SHARE: 10, WHOLE: 10}, lambda request: request.devices * request.milli / 1000
    )
    curve = [stranded(cores) for cores in (0, 2, 4, 6, 8, 12)]
    assert curve[0] == 1
    assert curve == sorted(curve, reverse=True)
    assert curve[-2:] == [0, 0]


def test_a_share_goes_to_a_device_where_it_fills_the_rest() -> None:
    """The second half of a device costs less than half of a whole device."""
    node = FreeNode(96_000, "G2", (500, 1000))
    bound = KnownDemand({SHARE: 100, WHOLE: 100}, [node])
    best = max(bound.placements(node, SHARE), key=lambda placement: placement.score)
    assert best.after.free_milli == (0, 1000)


def test_the_last_place_for_a_rare_request_costs_more_than_one_of_many() -> None:
    """The price of a lost place follows from the places left in the cluster."""
    bound = KnownDemand({LARGE: 5, SHARE: 100}, [EMPTY] * 10)
    scarce = KnownDemand({LARGE: 5, SHARE: 100}, [EMPTY])
    (placement,) = bound.placements(EMPTY, SHARE)
    assert placement.losses == ((0, 1),)
    assert scarce.prices()[0] == pytest.approx(10**2 * bound.prices()[0])


def test_prices_follow_the_places_left() -> None:
    """A node that was taken has no place left."""
    bound = KnownDemand({LARGE: 6, SHARE: 100}, [EMPTY, EMPTY, EMPTY])
    before = bound.prices()[0]
    bound.placed(EMPTY, max(bound.placements(EMPTY, LARGE), key=lambda placement: placement.score).after)
    assert bound.prices()[0] == pytest.approx(before * (3 / 2) ** 2)


def test_nodes_that_differ_only_in_the_order_of_devices_get_the_same_score() -> None:
    """Equal to the last bit, so that ties are ties."""
    one, other = FreeNode(50_000, "G2", (1000, 300, 500)), FreeNode(50_000, "G2", (300, 500, 1000))
    bound = KnownDemand({SHARE: 100, WHOLE: 50}, [one, other])
    assert bound.placements(one, SHARE) == bound.placements(other, SHARE)


def test_a_pod_fits_only_where_cores_model_and_devices_do() -> None:
    """A share needs its milli on one device; the node's model is one of those accepted."""
    node = FreeNode(8_000, "T4", (400, 700))
    assert node.fits(SHARE)
    assert not node.fits(PodRequest(9_000, 1, 500))
    assert not node.fits(PodRequest(1_000, 1, 800))
    assert not node.fits(PodRequest(1_000, 2, 500))
    assert not node.fits(SHARE._replace(models=frozenset({"G2"})))
    assert node.fits(SHARE._replace(models=frozenset({"G2", "T4"})))
    assert node.fits(PodRequest(8_000, 0, 0))
