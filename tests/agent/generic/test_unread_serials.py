"""The file with a device's serial number cannot be read for a while: the device is there, and nobody knows which one it is."""

from apportion.agent.devices.values import Health
from testbed.fakes.fpga import FpgaHost
from tests.agent.generic.places import FIRST, SECOND, backend_of


def test_a_device_that_nobody_can_identify_now_is_sick_and_not_lost(host: FpgaHost) -> None:
    """The taint of a lost one would end the pod that has it, whose work goes on. One that is gone beside it may be the one that nobody can identify."""
    backend = backend_of(host.root)
    backend.devices()
    file = host.folder(FIRST) / "serial_number"
    said = file.read_text(encoding="utf-8")
    file.unlink()
    assert backend.health() == {"fpga-1": Health.SICK}
    backend.devices()
    assert backend.health() == {"fpga-1": Health.SICK}
    file.write_text(said, encoding="utf-8")
    assert backend.health() == {}
    host.remove(SECOND)
    assert backend.health() == {"fpga-0": Health.LOST}


def test_a_device_that_nobody_could_ever_identify_hides_none_that_is_gone(host: FpgaHost) -> None:
    """A card without a serial number is no reason to keep pods on one that was pulled out."""
    host.say(FIRST, "serial_number", "0000-0000")
    backend = backend_of(host.root)
    backend.devices()
    host.remove(SECOND)
    assert backend.health() == {"fpga-0": Health.LOST}
