"""What the NVML backend calls sick or lost."""

import shutil
from pathlib import Path

import pynvml
import pytest

from apportion.agent.backends import backends
from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.stickyerrors import StickyErrors
from apportion.agent.devices.values import Health
from apportion.agent.settings import AgentOptions
from apportion.errors import HardwareError
from tests.agent.nvml.nodes import Node


def test_healthy_gpus_are_not_named(node: Node) -> None:
    """The agent takes silence for health."""
    node.backend.devices()
    assert node.backend.health() == {}


@pytest.mark.parametrize("xid", [48, 62, 79, 94, 119])
def test_an_xid_of_the_gpu_makes_it_sick(node: Node, xid: int) -> None:
    """And it stays so: the driver does not say when it is over. The other GPU is well."""
    node.backend.devices()
    node.fake.xid(0, xid)
    assert node.backend.health() == {"gpu-0": Health.SICK}
    assert node.backend.health() == {"gpu-0": Health.SICK}


def test_an_error_is_not_forgotten_by_a_restart(node: Node, tmp_path: Path) -> None:
    """An upgraded agent must not offer what the old one had found broken; a reboot or a person ends it."""
    folder = tmp_path / "sick"
    for boot, xid, wanted in (("a", 62, True), ("a", 0, True), ("b", 0, False), ("b", 62, True)):
        backend = NvmlBackend(node.root, sticky_errors=StickyErrors(folder, boot))
        backend.devices()
        if xid:
            node.fake.xid(0, xid)
        assert backend.health() == ({"gpu-0": Health.SICK} if wanted else {})
        backend.close()
    # Another process takes the mark off while this one looks.
    running = NvmlBackend(node.root, sticky_errors=StickyErrors(folder, "b"))
    (first, _) = running.devices()
    assert running.health() == {"gpu-0": Health.SICK}
    assert StickyErrors(folder, "b").all() == {first.uuid: "XID 62"}
    assert StickyErrors(folder, "b").remove(first.uuid)
    assert running.health() == {}
    assert not StickyErrors(folder, "b").remove(first.uuid)
    running.close()


def test_a_sticky_error_that_cannot_be_read_or_kept_is_no_failure(node: Node, tmp_path: Path) -> None:
    """The error still counts as long as the process lives."""
    folder = tmp_path / "sick"
    folder.mkdir()
    (folder / "GPU-x.json").write_text("{")
    backend = NvmlBackend(node.root, sticky_errors=StickyErrors(folder, "a"))
    backend.devices()
    assert backend.health() == {}
    shutil.rmtree(folder)
    folder.write_text("no folder")
    node.fake.xid(0, 62)
    assert backend.health() == {"gpu-0": Health.SICK}
    backend.close()


@pytest.mark.parametrize("xid", [11, 13, 14, 25, 31, 37, 43, 45, 68, 69, 80, 109, 137])
def test_an_xid_of_a_program_does_not(node: Node, xid: int) -> None:
    """A program's own fault costs nobody a GPU, and no other tenant his part of it; what comes after it is still seen."""
    node.backend.devices()
    node.fake.xid(1, xid)
    assert node.backend.health() == {}
    node.fake.xid(1, 95, instance=3, compute=0)
    assert node.backend.health() == {"gpu-1": Health.SICK}


@pytest.mark.parametrize("xid", [63, 106, 107, 121])
def test_an_xid_that_only_reports_something_does_not(node: Node, xid: int) -> None:
    """A row was remapped, a link corrected an error: NVIDIA says that nothing is to be done."""
    node.backend.devices()
    node.fake.xid(0, xid)
    assert node.backend.health() == {}


def test_a_recovery_that_is_needed_no_more_is_no_error(node: Node) -> None:
    """XID 154 comes also when a reset has mended the GPU: the report of it made the GPU sick until the next reboot."""
    node.backend.devices()
    node.fake.recover(0, pynvml.NVML_GPU_RECOVERY_ACTION_NONE)
    assert node.backend.health() == {}


@pytest.mark.parametrize(
    "action", [pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET, pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P]
)
def test_a_gpu_whose_driver_asks_for_a_recovery_is_sick(node: Node, action: int) -> None:
    """Whatever the recovery is; the other GPU is well."""
    node.backend.devices()
    node.fake.recover(0, action)
    assert node.backend.health() == {"gpu-0": Health.SICK}


@pytest.mark.parametrize("code", [3, 15])
def test_a_gpu_that_does_not_tell_which_recovery_it_needs_is_sick(node: Node, code: int) -> None:
    """The event comes once: rather a GPU is taken for sick than a sick one for well."""
    node.backend.devices()
    node.fake.fail("nvmlDeviceGetFieldValues", code)
    node.fake.recover(0, pynvml.NVML_GPU_RECOVERY_ACTION_NONE)
    assert node.backend.health() == {"gpu-0": Health.SICK}


def test_an_xid_right_after_discovery_is_not_missed(node: Node) -> None:
    """Listening begins with discovery, not with the first question."""
    node.backend.devices()
    node.fake.xid(0, 48)
    node.fake.xid(1, 48)
    assert set(node.backend.health()) == {"gpu-0", "gpu-1"}


def test_memory_errors_count_until_the_reset(node: Node) -> None:
    """Uncorrected, volatile ones."""
    node.backend.devices()
    node.fake.ecc(1, 3)
    assert node.backend.health() == {"gpu-1": Health.SICK}
    node.fake.reset(1)
    assert node.backend.health() == {}


def test_a_gpu_without_ecc_is_not_sick_for_it(node: Node) -> None:
    """NOT_SUPPORTED is no error count."""
    node.backend.devices()
    node.fake.fail("nvmlDeviceGetTotalEccErrors", 3, times=-1)
    assert node.backend.health() == {}


def test_a_lost_gpu_is_lost_as_long_as_it_does_not_answer(node: Node) -> None:
    """And well when it answers again."""
    node.backend.devices()
    node.fake.lose(1)
    assert node.backend.health() == {"gpu-1": Health.LOST}
    node.fake.heal()
    assert node.backend.health() == {}


def test_after_a_lost_session_listening_begins_anew(node: Node) -> None:
    """What was reported before is not forgotten, what comes after is heard."""
    node.backend.devices()
    node.fake.xid(0, 48)
    assert node.backend.health() == {"gpu-0": Health.SICK}
    pynvml.nvmlShutdown()
    with pytest.raises(HardwareError, match="Uninitialized"):
        node.backend.partitions_of("gpu-0")
    node.backend.health()
    node.fake.xid(1, 48)
    assert set(node.backend.health()) == {"gpu-0", "gpu-1"}


def test_a_driver_without_events_still_says_what_it_can(node: Node) -> None:
    """No XIDs then, but lost GPUs and memory errors."""
    node.fake.fail("nvmlDeviceRegisterEvents", 3, times=-1)
    node.backend.devices()
    node.fake.xid(0, 48)
    node.fake.lose(1)
    assert node.backend.health() == {"gpu-1": Health.LOST}


def test_a_gpu_that_answers_late_is_heard_too(node: Node) -> None:
    """Found by a second discovery, while the first one's events go on."""
    node.fake.lose(1)
    node.backend.devices()
    node.fake.heal()
    assert len(node.backend.devices()) == 2
    node.fake.xid(0, 48)
    node.fake.xid(1, 48)
    assert set(node.backend.health()) == {"gpu-0", "gpu-1"}


@pytest.mark.parametrize("code", [3, 10, 15, 16, 17, 999, 4711])
@pytest.mark.parametrize("function", ["nvmlDeviceGetTotalEccErrors", "*"])
def test_whatever_one_gpu_answers_the_health_of_others_is_known(node: Node, function: str, code: int) -> None:
    """An XID error of another GPU is published at the same look."""
    node.backend.devices()
    node.fake.fail(function, code, times=-1, card=0)
    node.fake.xid(1, 119)
    found = node.backend.health()
    assert found["gpu-1"] is Health.SICK
    if (function, code) == ("nvmlDeviceGetTotalEccErrors", 3):
        assert "gpu-0" not in found
    elif code == 15:
        assert found["gpu-0"] is Health.LOST
    elif code != 3:
        assert found["gpu-0"] is Health.SICK


def test_an_event_counts_for_its_gpu_though_that_does_not_answer_any_more(node: Node) -> None:
    """A GPU that falls off the bus reports XID 79 and then nothing; the event is given once."""
    node.backend.devices()
    node.fake.xid(0, 79)
    node.fake.fail("*", 999, times=-1, card=0)
    node.backend.health()
    node.fake.heal()
    assert node.backend.health() == {"gpu-0": Health.SICK}


def test_events_go_on_after_the_wait_for_them_failed(node: Node) -> None:
    """NVML refuses it with "GPU is lost" while one is (nvml.h, nvmlEventSetWait); the others' events are kept meanwhile."""
    node.backend.devices()
    node.fake.fail("nvmlEventSetWait_v2", 15, times=1)
    assert node.backend.health() == {}
    node.fake.xid(1, 48)
    assert node.backend.health() == {"gpu-1": Health.SICK}


def test_a_gpu_whose_events_could_not_be_asked_for_is_asked_until_they_can(node: Node) -> None:
    """And a driver that cannot make a set of events yet costs nobody the rest of the health."""
    node.fake.fail("nvmlDeviceRegisterEvents", 999, times=1, card=0)
    node.fake.fail("nvmlEventSetCreate", 999, times=1)
    node.backend.devices()
    for _ in range(2):
        assert node.backend.health() == {}
    node.fake.xid(0, 48)
    assert node.backend.health() == {"gpu-0": Health.SICK}


def test_xids_that_the_administrator_names_are_no_errors(node: Node) -> None:
    """Beside those of programs, which always are none."""
    options = AgentOptions(node="n", backend="nvml", host_root=node.root, ignored_xids=frozenset({48, 94}))
    (backend,) = backends(options)
    backend.devices()
    for xid in (48, 94, 13):
        node.fake.xid(0, xid)
    node.fake.xid(1, 95)
    assert backend.health() == {"gpu-1": Health.SICK}
