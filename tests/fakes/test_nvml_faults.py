"""Faults of the fake NVML: errors, latency, lost GPUs, killed processes, XIDs."""

import signal
import threading
import time
from pathlib import Path

import pytest

from testbed.fakes.nvml.library import FakeNvml
from tests.fakes.nvmlprogram import Vendor

LOST = 15  # NVML_ERROR_GPU_IS_LOST


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_killed_process_leaves_what_it_had_done(h100: FakeNvml, vendor: Vendor, *, after: bool) -> None:
    """A crash point ends the process for real, before or after the call took effect; the next process finds the rest."""
    h100.kill("nvmlDeviceCreateGpuInstanceWithPlacement", after=after)
    vendor(h100, "cut(gpu(), 9, 4, 4)", code=-signal.SIGKILL)
    assert [(one.profile, one.start, one.compute) for one in h100.instances()] == (
        [("3g.40gb", 4, ())] if after else []
    )
    assert vendor(h100, "answer = [mig_devices(gpu()), instances(gpu(), 9)]") == [[], [1] if after else []]
    # The crash point is used up.
    assert vendor(h100, "answer = refused(cut, gpu(), 9, 0, 4)") == 0


def test_faults_come_as_often_as_asked_for(h100: FakeNvml, vendor: Vendor) -> None:
    """One call passes, two fail, then all is well; another function is not concerned."""
    h100.fail("nvmlDeviceGetName", 4, times=2, skip=1)
    script = (
        "answer = [refused(nvmlDeviceGetName, gpu()) for _ in range(4)] + [refused(nvmlDeviceGetUUID, gpu())]"
    )
    assert vendor(h100, script) == [0, 4, 4, 0, 0]


def test_a_lost_gpu_refuses_every_call(tmp_path: Path, vendor: Vendor) -> None:
    """Its neighbour goes on, and it is still counted."""
    fake = FakeNvml.create(tmp_path / "nvml", ["H100-80GB"] * 2)
    fake.lose(0)
    script = "answer = [refused(gpu, 0), refused(gpu, 1), nvmlDeviceGetCount()]"
    assert vendor(fake, script) == [LOST, 0, 2]


@pytest.mark.slow
def test_a_slow_call_holds_up_nobody_else(h100: FakeNvml, vendor: Vendor) -> None:
    """Latency is the caller's own: the state is free meanwhile."""
    h100.delay("nvmlDeviceCreateGpuInstanceWithPlacement", 5)
    slow = threading.Thread(target=vendor, args=(h100, "cut(gpu(), 9, 0, 4)"))
    slow.start()
    while "nvmlDeviceCreateGpuInstanceWithPlacement" not in h100.calls():
        time.sleep(0.02)
    # Who would wait for the call could see nothing before what it has made.
    assert h100.instances() == ()
    slow.join()
    assert len(h100.instances()) == 1


def test_latency_comes_beside_other_faults(h100: FakeNvml, vendor: Vendor) -> None:
    """A slow driver fails and crashes like a fast one."""
    h100.delay("*", 0.001)
    h100.fail("nvmlDeviceGetName", 4)
    assert vendor(h100, "answer = [refused(nvmlDeviceGetName, gpu()) for _ in range(2)]") == [4, 0]
    h100.kill("nvmlDeviceGetName", after=False)
    vendor(h100, "nvmlDeviceGetName(gpu())", code=-signal.SIGKILL)


def test_an_xid_reaches_those_who_listen(h100: FakeNvml, vendor: Vendor) -> None:
    """With its number and its GPU instance; what happened before the set was made does not come."""
    h100.xid(0, 31)
    script = """
    events = nvmlEventSetCreate()
    nvmlDeviceRegisterEvents(gpu(), nvmlEventTypeXidCriticalError, events)
    early = refused(nvmlEventSetWait, events, 0)
    open(%r, "w").close()
    event = nvmlEventSetWait(events, 20000)
    answer = [early, event.eventType, event.eventData, event.gpuInstanceId, refused(nvmlEventSetWait, events, 0)]
    """
    listening = h100.path.with_name("listening")

    def report() -> None:
        while not listening.exists():
            time.sleep(0.02)
        h100.xid(0, 94, instance=3, compute=0)

    reporter = threading.Thread(target=report)
    reporter.start()
    timeout = 10
    assert vendor(h100, script % str(listening)) == [timeout, 8, 94, 3, timeout]
    reporter.join()


def test_a_module_that_a_session_holds_is_not_exchanged(h100: FakeNvml, vendor: Vendor) -> None:
    """It is free when the session ends, and when the process dies with it."""
    (ready := h100.path.with_name("ready")).unlink(missing_ok=True)
    script = f"""
    import time, pathlib
    pathlib.Path({str(ready)!r}).touch()
    while pathlib.Path({str(ready)!r}).exists():
        time.sleep(0.02)
    """
    holding = threading.Thread(target=vendor, args=(h100, script))
    holding.start()
    while not ready.exists():
        time.sleep(0.02)
    with pytest.raises(RuntimeError, match="in use"):
        h100.exchange("580.65.06")
    ready.unlink()
    holding.join()
    h100.exchange("580.65.06")
    assert vendor(h100, "answer = nvmlSystemGetDriverVersion()") == "580.65.06"


def test_a_library_that_was_loaded_before_the_exchange_does_not_fit(h100: FakeNvml, vendor: Vendor) -> None:
    """A session opens in processes only that load the library afterwards (NVML_ERROR_LIB_RM_VERSION_MISMATCH)."""
    ready = h100.path.with_name("ready")
    script = f"""
    import time, pathlib
    nvmlShutdown()
    pathlib.Path({str(ready)!r}).touch()
    while pathlib.Path({str(ready)!r}).exists():
        time.sleep(0.02)
    answer = refused(nvmlInit)
    """
    answers: list[int] = []
    holding = threading.Thread(target=lambda: answers.append(vendor(h100, script)))
    holding.start()
    while not ready.exists():
        time.sleep(0.02)
    h100.exchange("580.65.06")
    ready.unlink()
    holding.join()
    assert answers == [18]
    assert vendor(h100, "answer = nvmlDeviceGetCount()") == 1
