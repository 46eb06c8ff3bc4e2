"""A group whose devices are given to it member by member stays within the limits of its quota, though others are decided in between."""

from collections.abc import Iterator

from apportion.cluster.client import Client
from apportion.cluster.debouncer import Debouncer
from apportion.settings import CycleSettings
from tests.clock import Ticking
from tests.quota.tenants import namespace, quota, said, wait
from tests.scheduling.podgroups import gang
from tests.scheduling.sliced import between, until

PODS = 16


async def test_who_comes_while_a_group_is_given_its_devices_gets_none_of_its_limit(silent: Client) -> None:
    """A pod of higher priority would be within the limit, as long as only those count that have theirs; there are devices for all."""
    world = gang(PODS, PODS // 4 + 1, count=1)
    world.clock = Ticking(step=0.004)
    namespace(world, "team", team="team")
    quota(world, "team", limit=PODS)
    debouncer = Debouncer(quiet=0, longest=0, clock=world.clock)
    given: list[int] = []

    def late() -> Iterator[None]:
        yield from until(lambda: bool(world.places()), debouncer.wake)
        given.append(len(world.places()))
        wait(world, "team", "z", priority=10)
        members = {f"g-c{number}" for number in range(PODS)}
        yield from until(lambda: members <= world.places().keys(), debouncer.wake)
        yield from until(
            lambda: bool(said(world, "z", "ExceedsLimit")) or "z" in world.places(), debouncer.wake
        )

    await between(world.cycle(silent, CycleSettings(idle=3600), debouncer), late())

    assert given[0] < PODS
    assert (len(world.places()), "z" in world.places()) == (PODS, False)
