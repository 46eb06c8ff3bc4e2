"""Devices that serve several claims by capacity: amounts written, places chosen."""

from typing import Any

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from tests.allocator.builders import claim, cluster, device, device_request, device_slice


@pytest.mark.parametrize(
    ("asked", "policy", "written"),
    [
        ("10G", None, "10G"),
        ("9765625Ki", None, "9765625Ki"),
        ("10240Mi", None, "10Gi"),
        ("10G", {"default": "1M", "validRange": {"min": "1M", "step": "1M"}}, "10G"),
        ("9765625Ki", {"default": "1M", "validRange": {"min": "1M", "step": "1M"}}, "10G"),
        ("1500M", {"default": "1Gi", "validRange": {"min": "0", "step": "1Gi"}}, "2Gi"),
        ("1", {"default": "1M", "validRange": {"min": "1Mi"}}, "1Mi"),
        ("10G", {"default": "1Gi", "validRange": {"min": "1Gi"}}, "10G"),
        ("10G", {"default": "9765625Ki", "validValues": ["9765625Ki"]}, "9765625Ki"),
        (None, {"default": "1G", "validRange": {"min": "1"}}, "1G"),
    ],
)
def test_consumed_amounts_keep_the_format_of_the_request_or_of_its_policy(
    asked: str | None, policy: dict[str, Any] | None, written: str
) -> None:
    """As kube-scheduler 1.37 writes them; a claim with the same amount in another format changes nothing."""
    entry = {"value": "40G"} | ({"requestPolicy": policy} if policy else {})
    state = cluster(
        device_slice("s", "n1", [device("gpu-0", allowMultipleAllocations=True, capacity={"rate": entry})])
    )

    def consumed(amount: str | None) -> str:
        capacity = {"capacity": {"requests": {"rate": amount}}} if amount else {}
        answer = allocate(state, Demand((claim(f"c-{amount}", device_request(**capacity)),)))
        assert isinstance(answer, Decision)
        found: str = answer.allocations[0].to_json()["devices"]["results"][0]["consumedCapacity"]["rate"]
        return found

    consumed("10G"), consumed("9765625Ki")
    assert consumed(asked) == written
