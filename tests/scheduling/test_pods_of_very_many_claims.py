"""A pod may name thousands of claims, or one thousands of times, as the API server accepts it: nobody else waits until all of them are looked up."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.device import DeviceId
from apportion.dra.pod import MOST_CLAIMS_READ
from apportion.scheduling.demands.extendedresources import Template
from tests.observedcluster import GPU, Json
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.queued import fleet
from tests.steps import Steps, steps


def naming(number: int, *last: str) -> Json:
    """Return the spec of a pod that names claim c0 so many times, and then others."""
    names = ["c0"] * number + [*last]
    return {
        "resourceClaims": [{"name": f"x{row}", "resourceClaimName": name} for row, name in enumerate(names)]
    }


@pytest.mark.parametrize("has_device", [True, False])
async def test_no_step_grows_with_how_many_claims_pods_name(unanswered: Client, has_device: bool) -> None:  # noqa: FBT001
    """Fifty pods with 16,000 of one claim, which is all that they need, held up everybody for twelve seconds; and for half a second whenever the claim changed."""
    found = []
    for count in (MOST_CLAIMS_READ + 1, 20 * MOST_CLAIMS_READ):
        world = fleet({"n1": ("h100", 8)})
        cycle = served_before(world, unanswered)
        raw = world.claim("c0")
        if has_device:
            world.allocate(raw, "n1", "gpu-0")
        longest = [
            steps(lambda n=number, w=world, c=count: w.pod(f"p{n}", gates=(GATE,), spec=naming(c)))
            for number in range(4)
        ]
        longest.append(longest_step(cycle))
        raw["metadata"]["annotations"] = {"changed": "yes"}
        longest.append(steps(lambda w=world, r=raw: w.see(CLAIMS, r)))
        world.clock.now += 1
        longest.append(longest_step(cycle))
        found.append(longest)
    for few, many in zip(*found, strict=True):
        assert many < 1.2 * few + 100


async def test_such_a_pod_hears_that_it_gets_none_and_another_one_is_served(unanswered: Client) -> None:
    """By the number that it names, of which only some are read."""
    world = fleet({"n1": ("h100", 8)})
    world.claim("c0")
    world.pod("many", gates=(GATE,), spec=naming(1000))
    cycle = world.cycle(unanswered)
    cycle.once()
    assert not world.places()
    [text] = [text for name, reason, text in world.messages if (name, reason) == ("many", "TooManyAtOnce")]
    assert "these are 1000 claims" in text
    world.pod("one", "c0", gates=(GATE,))
    cycle.once()
    assert world.places() == {"c0": "n1"}


def test_a_pod_that_got_to_its_node_has_what_a_claim_that_is_not_read_has_lost() -> None:
    """It may have been bound by the devices, whatever else it names."""
    world = fleet({"n1": ("h100", 8)})
    pod = world.pod("p", spec=naming(MOST_CLAIMS_READ, "c"))
    consumer = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    claim = world.allocate(world.claim("c"), "n1", "gpu-0", reservedFor=[consumer])
    world.gone(CLAIMS, claim)
    pod = world.see(PODS, pod | {"metadata": pod["metadata"] | {"labels": {"changed": "yes"}}})
    world.see(PODS, pod | {"spec": pod["spec"] | {"nodeName": "n1"}})
    assert world.snapshot.state.holders(DeviceId(GPU, "n1", "gpu-0"))


@pytest.mark.parametrize(("has_device", "looks"), [(True, 2), (False, 30)], ids=["gates", "decision"])
async def test_many_pods_that_name_many_claims_hold_up_nobody_for_long(
    unanswered: Client,
    has_device: bool,  # noqa: FBT001
    looks: int,
) -> None:
    """As many pods as a demand may have, that name 64 claims each: their gates were looked at in one piece of a quarter of a second, and where the pods go took twice as long as needed."""
    longest = []
    for count in (1, 64):
        world = fleet({"n1": ("h100", 8)})
        cycle = served_before(world, unanswered)
        if has_device:
            world.allocate(world.claim("c0"), "n1", "gpu-0")
        else:
            world.claim("c0")
        for number in range(256):
            world.pod(f"p{number}", gates=(GATE,), spec=naming(count))
        longest.append(longest_step(cycle))
    assert longest[1] < longest[0] + 256 * 64 * looks


async def test_a_pass_without_news_does_not_go_through_the_templates_of_all_pods(unanswered: Client) -> None:
    """Two thousand pods that wait for 128 templates each took a fifth of a second in every pass."""
    counts = []
    for count in (10, 100):
        world = fleet({"n1": ("h100", 8)})
        cycle = served_before(world, unanswered)
        entries = [
            {"name": f"x{row}", "resourceClaimTemplateName": f"apportion-{row + 1}-gpu"} for row in range(20)
        ]
        for number in range(count):
            world.pod(f"p{number}", gates=(GATE,), spec={"resourceClaims": entries})
        for _ in range(3):
            cycle.once()
        with Steps(only=Template.__eq__) as counted:
            cycle.once()
        counts.append(counted.count)
    assert counts[1] <= counts[0] + 200
