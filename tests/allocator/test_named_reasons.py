"""Refusals name what is missing: a slice of a pool, the number of values, memory; not what is there."""

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.explain.render import render, summary
from apportion.allocator.state import State
from apportion.dra.claim import Claim
from tests.allocator.builders import GPU, amounts, claim, cluster, device, device_request, device_slice


def _text(state: State, asked: Claim) -> str:
    found = allocate(state, Demand((asked,)))
    assert isinstance(found, Refusal)
    return summary(found.explanation) + render(found.explanation)


def test_an_incomplete_pool_is_named_beside_devices_of_others() -> None:
    """Each node of a cluster with RDMA has NICs of another pool; of the GPUs' pool one slice is missing."""
    state = cluster(
        device_slice("gpus", "n1", [device("gpu-0")], count=2),
        device_slice("nics", "n1", [device("nic-0", "nic")], pool="nics"),
    )
    text = _text(state, claim("c", device_request()))
    assert "not all of its slices are there yet" in text, text


def test_all_different_values_are_counted() -> None:
    """Seven of eight devices differ; the list of values ends at five, the count must not."""
    rows = [
        device(f"d{n}", attributes={"kind": {"string": "gpu"}, "p": {"int": min(n, 6)}}) for n in range(8)
    ]
    distinct = {"distinctAttribute": f"{GPU}/p"}
    text = _text(
        cluster(device_slice("s", "n1", rows)), claim("c", device_request(count=8), constraints=[distinct])
    )
    assert "7 different values" in text, text


def test_shares_of_one_device_agree() -> None:
    """One card serves both requests where its memory suffices; where it does not, memory is what is missing."""
    row = device("d", allowMultipleAllocations=True, capacity=amounts(memory=4))
    row["attributes"]["p"] = {"int": 1}
    state = cluster(device_slice("s", "n1", [row]))

    def asking(memory: int) -> Claim:
        wanted = {"capacity": {"requests": {"memory": str(memory)}}}
        rows = [device_request(name, **wanted) for name in "ab"]
        return claim("c", *rows, constraints=[{"matchAttribute": f"{GPU}/p"}])

    assert isinstance(allocate(state, Demand((asking(2),))), Decision)
    text = _text(state, asking(3))
    assert "2 must agree" not in text, text
