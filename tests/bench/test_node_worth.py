"""What the worth of a node tells apart."""

import pytest

from bench.openb.worth.cores import useless_part
from bench.openb.worth.free import Ask, Free
from bench.openb.worth.node_worth import NodeWorth

LARGE = Ask(cpu=64_000, devices=8, milli=1000)
SHARE = Ask(cpu=4_000, devices=1, milli=500)
WHOLE = Ask(cpu=8_000, devices=1, milli=1000)
EMPTY = Free(96_000, "G2", (1000,) * 8)


def test_cores_that_every_pod_can_do_with_make_no_room_useless() -> None:
    """From the greediest pod's cores on nothing is lost; without a core everything is; between them less with more."""
    useless = useless_part({SHARE: 10, WHOLE: 10}, lambda ask: ask.devices * ask.milli / 1000)
    curve = [useless(cores) for cores in (0, 2, 4, 6, 8, 12)]
    assert curve[0] == 1
    assert curve == sorted(curve, reverse=True)
    assert curve[-2:] == [0, 0]


def test_a_share_goes_beside_a_share_that_leaves_room_for_it() -> None:
    """Half a device beside half a device costs less than half of a whole one."""
    node = Free(96_000, "G2", (500, 1000))
    worth = NodeWorth({SHARE: 100, WHOLE: 100}, [node])
    best = max(worth.ways(node, SHARE), key=lambda way: way.score)
    assert best.after.rooms == (0, 1000)


def test_the_last_place_for_a_rare_pod_costs_more_than_one_of_many() -> None:
    """What a way loses is priced by what the cluster has left."""
    worth = NodeWorth({LARGE: 5, SHARE: 100}, [EMPTY] * 10)
    dear = NodeWorth({LARGE: 5, SHARE: 100}, [EMPTY])
    (way,) = worth.ways(EMPTY, SHARE)
    assert way.losses == ((0, 1),)
    assert dear.prices()[0] == pytest.approx(10**2 * worth.prices()[0])


def test_prices_follow_the_cluster() -> None:
    """A node that was taken offers no place any more."""
    worth = NodeWorth({LARGE: 6, SHARE: 100}, [EMPTY, EMPTY, EMPTY])
    before = worth.prices()[0]
    worth.placed(EMPTY, max(worth.ways(EMPTY, LARGE), key=lambda way: way.score).after)
    assert worth.prices()[0] == pytest.approx(before * (3 / 2) ** 2)


def test_nodes_that_differ_in_the_order_of_devices_only_are_scored_alike() -> None:
    """The same score to the last bit, so that ties are ties."""
    one, other = Free(50_000, "G2", (1000, 300, 500)), Free(50_000, "G2", (300, 500, 1000))
    worth = NodeWorth({SHARE: 100, WHOLE: 50}, [one, other])
    assert worth.ways(one, SHARE) == worth.ways(other, SHARE)


def test_a_pod_fits_only_where_cores_model_and_devices_do() -> None:
    """Room is on one device, a model is one of those accepted."""
    node = Free(8_000, "T4", (400, 700))
    assert node.holds(SHARE)
    assert not node.holds(Ask(9_000, 1, 500))
    assert not node.holds(Ask(1_000, 1, 800))
    assert not node.holds(Ask(1_000, 2, 500))
    assert not node.holds(SHARE._replace(models=frozenset({"G2"})))
    assert node.holds(SHARE._replace(models=frozenset({"G2", "T4"})))
    assert node.holds(Ask(8_000, 0, 0))
