"""A cut that fails costs a gated pod nothing: another placement is found."""

from apportion.agent.devices.simulated.state import StateFile
from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.tenant import MIG, PARTITIONS, Tenant, claim, pod, profile, request

NODE = "h100-b"


async def test_a_failed_cut_is_tried_elsewhere(installation: Installation, team: Tenant) -> None:
    """The placement is given back and left out for a while; the pod runs with another one. No other test leaves an idle partition of this profile."""
    hardware = StateFile(installation.folder(NODE) / "simulation.yaml.state.json")
    with hardware.changing() as state:
        state["faults"]["failures"] = [{"error": "Unsupported", "card": "", "verb": "create", "times": 1}]

    await team.make(claim("gpu", request(MIG, profile("1g.10gb+me"))))
    await team.make(pod("patient", "gpu", nodeSelector={"kubernetes.io/hostname": NODE}))
    await team.running("patient")

    given = await team.event("gpu", "GivenBack", "could not be cut")
    assert "could not be cut: injected at create" in given["message"], "with the driver's own words"
    [device] = await team.allocated("gpu")
    failed = given["message"].split()[1].removeprefix(f"{NODE}-")

    assert device.startswith(f"{NODE}/")
    assert not device.endswith(failed)
    assert [row["profile"] for row in installation.hardware(NODE) if row["profile"] == "1g.10gb+me"] == [
        "1g.10gb+me"
    ]
    assert installation.state(NODE)["faults"]["failures"][0]["times"] == 0

    async def left() -> list[str]:
        found, _ = await installation.cluster.api.items(PARTITIONS)
        return [each["metadata"]["name"] for each in found if each["metadata"]["name"].endswith(failed)]

    assert await eventually(left, lambda names: not names) == []
