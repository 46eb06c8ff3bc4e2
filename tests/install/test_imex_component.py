"""The component for IMEX channels: what it installs fits together."""

from pathlib import Path

from apportion.agent.devices.imex.backend import CHANNEL
from apportion.agent.settings import AgentOptions
from apportion.settings import DRIVERS
from testbed.binaries import Binaries
from tests.install.rendered import combined, drivers, options, pods


def test_agents_offer_channels_with_the_rights_the_class_and_the_protection_for_them(
    binaries: Binaries, tmp_path: Path
) -> None:
    """Also beside the overlay of NVIDIA's names and generic devices: each adds its drivers."""
    components = ("manifests/components/imex-channels", "manifests/components/generic-devices")
    objects = combined(binaries, tmp_path, "manifests/overlays/nvidia-names", *components)
    agent = next(each for pod in pods(objects) for each in pod["containers"] if each["name"] == "agent")
    (channels,) = [int(each["value"]) for each in agent["env"] if each["name"] == "IMEX_CHANNELS"]
    assert channels > 0
    assert "--imex-channels" in options("agent")
    driver = AgentOptions(node="n", imex_channels=channels).drivers[CHANNEL]
    (made,) = [each for each in objects if each["metadata"]["name"] == "imex-channel.apportion.dev"]
    (selector,) = made["spec"]["selectors"]
    assert f"device.driver == '{driver}'" in selector["cel"]["expression"]
    assert f".type == '{CHANNEL}'" in selector["cel"]["expression"]
    for known in drivers(objects).values():
        assert known == DRIVERS | {"gpu.nvidia.com", "fpga.example.com", driver}
