"""Parameters for our drivers, and the devices that they are for: what no device of the claim can keep is refused, never ignored."""

from typing import Any

import pytest

from apportion.api.contract import GATE
from apportion.scheduling.waiting import RefusedConfiguration
from apportion.scheduling.waitingqueue import waiting_demands
from tests.observedcluster import GPU, Json, request
from tests.scheduling.queued import world


def of_kind(kind: str, driver: str, *requests: str, **body: Any) -> Json:
    """Return a `config` entry with parameters of a kind."""
    own = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": kind, **body}
    return {"requests": [*requests], "opaque": {"driver": driver, "parameters": own}}


@pytest.mark.parametrize(
    ("kind", "driver", "reason"),
    [
        ("GpuConfig", "npu.apportion.dev", "GpuConfig is for GPUs, not for a npu"),
        ("MigDeviceConfig", "npu.apportion.dev", "MigDeviceConfig is for GPUs, not for a npu"),
        ("NpuConfig", GPU, "NpuConfig is for NPUs, not for a gpu"),
        ("GpuConfig", "rdma.apportion.dev", "GpuConfig is for GPUs, not for a nic"),
        ("NetworkConfig", GPU, "NetworkConfig is for NICs, not for a gpu"),
    ],
)
def test_parameters_for_cards_of_another_kind_get_no_devices(kind: str, driver: str, reason: str) -> None:
    """The agent would refuse them when the pod has its node: the card would be taken, and the pod never start."""
    made = world()
    made.claim("c", config=[of_kind(kind, driver)])
    made.pod("p", "c", gates=[GATE])
    demands, (found,) = waiting_demands(made.snapshot)
    assert demands == []
    assert isinstance(found, RefusedConfiguration)
    assert str(found.error) == f"spec.devices.config[0].opaque.parameters.kind: {reason}"


@pytest.mark.parametrize(
    ("requests", "named", "refused"),
    [
        ([request("gpu")], [], "gpu"),
        ([request("gpu")], ["gpu"], "gpu"),
        ([request("gpu", count=2)], ["gpu"], ""),
        ([request("gpu", name="one"), request("gpu", name="ring", count=2)], [], ""),
        ([request("gpu", name="one"), request("gpu", name="ring", count=2)], ["one", "ring"], "one"),
        ([request("gpu", name="one"), request("gpu", name="two")], [], "one"),
        ([{"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}], [], ""),
        (
            [
                {
                    "name": "any",
                    "firstAvailable": [
                        {"name": "ring", "deviceClassName": "gpu", "count": 4},
                        {"name": "one", "deviceClassName": "gpu"},
                    ],
                }
            ],
            ["any"],
            "",
        ),
    ],
)
def test_a_rank_table_of_a_single_npu_is_refused(
    requests: list[Json], named: list[str], refused: str
) -> None:
    """One NPU has none, so the pod would never start; where some request may get several it depends on the decision."""
    made = world()
    made.claim("c", *requests, config=[of_kind("NpuConfig", "npu.apportion.dev", *named, rankTable=True)])
    made.pod("p", "c", gates=[GATE])
    demands, unservable = waiting_demands(made.snapshot)
    assert [str(each.error) for each in unservable if isinstance(each, RefusedConfiguration)] == (
        [
            f"spec.devices.config[0].opaque.parameters.rankTable: request {refused} has no rank table: it asks for one NPU"
        ]
        if refused
        else []
    )
    assert len(demands) == (0 if refused else 1)
