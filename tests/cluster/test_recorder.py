"""Events on a real API server: once, counted, and the newest text in the end."""

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from apportion.cluster.recorder import About
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.recorded import recorder, texts


async def test_the_same_text_is_one_event_with_a_count(client: Client, namespace: str) -> None:
    """Said again only after a while, and then the count rises."""
    clock, about = Clock(), About(CLAIMS, "c", "uid-1", namespace)
    async with recorder(client, clock) as made:
        for _ in range(5):
            made.warning(about, "NotAllocated", "no room")
        await eventually(lambda: texts(client, namespace), lambda found: found == {"no room": 1})
        clock.now += 301
        made.warning(about, "NotAllocated", "no room")
        await eventually(lambda: texts(client, namespace), lambda found: found == {"no room": 2})


async def test_changing_figures_make_few_events_and_the_last_one_is_written(
    client: Client, namespace: str
) -> None:
    """A refusal whose numbers move is not an Event for each number."""
    clock, about = Clock(), About(CLAIMS, "c", "uid-2", namespace)
    async with recorder(client, clock) as made:
        for number in range(20):
            made.warning(about, "NotAllocated", f"{number} devices looked at")
        await eventually(
            lambda: texts(client, namespace), lambda found: set(found) == {"19 devices looked at"}
        )
        for number in range(20, 40):
            made.warning(about, "NotAllocated", f"{number} devices looked at")
        clock.now += 11
        await eventually(lambda: texts(client, namespace), lambda found: "39 devices looked at" in found)
        assert len(await texts(client, namespace)) == 2
