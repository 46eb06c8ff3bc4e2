"""The fake NVML keeps the rules of the real one, for nvidia-ml-py as it is."""

from pathlib import Path

import pytest

from testbed.errors import Unavailable
from testbed.fakes.nvml.library import FakeNvml
from tests.fakes.nvmlprogram import Vendor

IN_USE, NO_ROOM, NOT_SUPPORTED, INVALID, NOT_FOUND = 19, 23, 3, 2, 6


def test_the_vendors_binding_enumerates_the_gpus(tmp_path: Path, vendor: Vendor) -> None:
    """Index, UUID and bus id lead to the same GPU, and the bus id is written the library's way."""
    fake = FakeNvml.create(tmp_path / "nvml", ["H100-80GB", "A100-40GB"])
    found = vendor(
        fake,
        """
        device = gpu(1)
        same = [nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(device)), nvmlDeviceGetHandleByPciBusId("0000:19:00.0")]
        answer = [nvmlDeviceGetCount(), nvmlDeviceGetName(device), nvmlDeviceGetPciInfo(device).busId,
                  [nvmlDeviceGetIndex(one) for one in same], nvmlSystemGetDriverVersion(),
                  nvmlDeviceGetArchitecture(device), nvmlDeviceGetCudaComputeCapability(device),
                  nvmlDeviceGetMinorNumber(device), nvmlDeviceGetMigMode(device), refused(gpu, 2)]
        """,
    )
    name = "NVIDIA A100-SXM4-40GB"
    assert found == [2, name, "00000000:19:00.0", [1, 1], "570.86.15", 7, [8, 0], 0, [0, 0], INVALID]


@pytest.mark.slow
def test_profile_ids_are_not_the_constants_that_find_them(h100: FakeNvml, vendor: Vendor) -> None:
    """Constants 0-4, 7 and 9 lead to the ids that `nvidia-smi mig -lgip` shows; both versions of the call agree."""
    found = vendor(
        h100,
        """
        answer = {}
        for constant in range(NVML_GPU_INSTANCE_PROFILE_COUNT):
            if not refused(nvmlDeviceGetGpuInstanceProfileInfo, gpu(), constant):
                old = nvmlDeviceGetGpuInstanceProfileInfo(gpu(), constant, 1)
                new = nvmlDeviceGetGpuInstanceProfileInfo(gpu(), constant)
                by_id = nvmlDeviceGetGpuInstanceProfileInfoById(gpu(), new.id)
                assert (old.id, old.memorySizeMB) == (new.id, new.memorySizeMB) and by_id.name == new.name
                answer[constant] = [new.id, new.name]
        """,
    )
    assert {int(key): value[0] for key, value in found.items()} == {
        0: 19, 1: 14, 2: 9, 3: 5, 4: 0, 7: 20, 9: 15
    }  # fmt: skip
    assert found["7"][1] == "MIG 1g.10gb+me"


def test_a_gpu_instance_without_a_compute_instance_is_no_mig_device(h100: FakeNvml, vendor: Vendor) -> None:
    """Only the list per profile shows it; a compute instance makes it a device, with the attributes of its profile."""
    assert vendor(
        h100,
        """
        instance = cut(gpu(), 9, 4, 4)
        before = [mig_devices(gpu()), instances(gpu(), 9)]
        fill(instance, 2)
        mig = nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 0)
        facts = nvmlDeviceGetAttributes(mig)
        parent = nvmlDeviceGetIndex(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig))
        answer = [before, mig_devices(gpu()), nvmlDeviceGetGpuInstanceId(mig), nvmlDeviceGetComputeInstanceId(mig),
                  parent, facts.multiprocessorCount, facts.gpuInstanceSliceCount, facts.memorySizeMB,
                  nvmlDeviceIsMigDeviceHandle(mig).value]
        """,
    ) == [[[], [1]], [0], 1, 0, 0, 60, 3, 40448, 1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("9, 0, 4", "14, 2, 2", id="a taken slice"),
        pytest.param("20, 0, 1", "20, 5, 1", id="an engine that is used up"),
        pytest.param("0, 0, 8", "19, 6, 1", id="a full GPU"),
    ],
)
def test_whatever_is_missing_the_refusal_is_the_same(
    h100: FakeNvml, vendor: Vendor, first: str, second: str
) -> None:
    """INSUFFICIENT_RESOURCES says nothing about why."""
    assert vendor(h100, f"cut(gpu(), {first})\nanswer = refused(cut, gpu(), {second})") == NO_ROOM


def test_places_that_a_profile_does_not_have_are_refused(h100: FakeNvml, vendor: Vendor) -> None:
    """A wrong start or size is an invalid argument; an unknown profile, and any without MIG mode, is not supported."""
    script = "answer = [refused(cut, gpu(), *row) for row in ((14, 1, 2), (14, 0, 1), (9, 2, 4), (7, 0, 1))]"
    assert vendor(h100, script) == [INVALID, INVALID, INVALID, NOT_SUPPORTED]
    h100.set_mode(0, on=False)
    script = "answer = [refused(cut, gpu(), 9, 0, 4), nvmlDeviceGetMaxMigDeviceCount(gpu())]"
    assert vendor(h100, script) == [NOT_SUPPORTED, 0]


def test_without_places_the_order_of_creations_decides(tmp_path: Path, vendor: Vendor) -> None:
    """19, 19, 14, 9 does not fit, 9 first does (MIG User Guide)."""
    for order, last in (("19, 19, 14, 9", NO_ROOM), ("9, 19, 19, 14", 0)):
        fake = FakeNvml.create(tmp_path / "nvml", ["A100-40GB"], mig=True)
        script = f"answer = [refused(nvmlDeviceCreateGpuInstance, gpu(), one) for one in ({order})]"
        assert vendor(fake, script) == [0, 0, 0, last]


def test_remaining_capacity_counts_what_still_fits(h100: FakeNvml, vendor: Vendor) -> None:
    """Beside a 3g at 4: one 3g, two 2g, four 1g, one 1g+me."""
    script = """
    before = nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), 19)
    cut(gpu(), 9, 4, 4)
    answer = [before, *(nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), one) for one in (9, 14, 19, 20, 0))]
    """
    assert vendor(h100, script) == [7, 1, 2, 4, 1, 0]


@pytest.mark.slow
def test_what_is_used_is_not_destroyed(h100: FakeNvml, vendor: Vendor) -> None:
    """A GPU instance with a compute instance is in use, and so is a compute instance with a process."""
    vendor(h100, "fill(cut(gpu(), 14, 0, 2), 1)")
    (made,) = h100.instances()
    h100.occupy(made.compute[0].uuid, 4711)
    script = """
    instance = nvmlDeviceGetGpuInstanceById(gpu(), 3)
    compute = nvmlGpuInstanceGetComputeInstanceById(instance, 0)
    mig = nvmlComputeInstanceGetInfo(compute).device
    answer = [[one.pid for one in nvmlDeviceGetComputeRunningProcesses(mig)],
              refused(nvmlGpuInstanceDestroy, instance), refused(nvmlComputeInstanceDestroy, compute)]
    """
    assert vendor(h100, script) == [[4711], IN_USE, IN_USE]
    h100.occupy(made.compute[0].uuid, 0)
    assert vendor(h100, script) == [[], IN_USE, 0]
    script = "answer = refused(nvmlGpuInstanceDestroy, nvmlDeviceGetGpuInstanceById(gpu(), 3))"
    assert vendor(h100, script) == 0
    assert h100.instances() == ()


def test_ids_come_back_and_uuids_do_not(h100: FakeNvml, vendor: Vendor) -> None:
    """A new instance in the old place has the old id and another UUID; the old handle finds nothing."""
    old, new, ids, stale = vendor(
        h100,
        """
        instance = cut(gpu(), 14, 2, 2)
        compute = fill(instance, 1)
        old, ids = uuid(compute), instances(gpu(), 14)
        nvmlComputeInstanceDestroy(compute)
        nvmlGpuInstanceDestroy(instance)
        new = uuid(fill(cut(gpu(), 14, 2, 2), 1))
        answer = [old, new, [ids, instances(gpu(), 14)], refused(nvmlGpuInstanceDestroy, instance)]
        """,
    )
    assert old != new
    assert ids[0] == ids[1]
    assert stale == NOT_FOUND


def test_mig_devices_keep_their_index_when_others_go(h100: FakeNvml, vendor: Vendor) -> None:
    """The list has holes."""
    assert vendor(
        h100,
        """
        made = [fill(cut(gpu(), 19, start, 1), 0) for start in range(4)]
        nvmlComputeInstanceDestroy(made[1])
        answer = mig_devices(gpu())
        """,
    ) == [0, 2, 3]


def test_a_gpu_instance_holds_several_smaller_compute_instances(h100: FakeNvml, vendor: Vendor) -> None:
    """Three 1c fill a 3g, a fourth does not fit; each is a MIG device."""
    assert vendor(
        h100,
        """
        instance = cut(gpu(), 9, 0, 4)
        answer = [[refused(fill, instance, 0) for _ in range(4)], len(mig_devices(gpu())), refused(fill, instance, 3)]
        """,
    ) == [[0, 0, 0, NO_ROOM], 3, NOT_SUPPORTED]


def test_mig_mode_waits_for_a_reset_on_ampere_only(tmp_path: Path, vendor: Vendor) -> None:
    """The answer of the call, not an error, says so; a reset makes the pending mode current."""
    fake = FakeNvml.create(tmp_path / "nvml", ["A100-80GB", "H100-80GB"])
    script = "answer = [[nvmlDeviceSetMigMode(gpu(i), 1), nvmlDeviceGetMigMode(gpu(i))] for i in (0, 1)]"
    assert vendor(fake, script) == [[16, [0, 1]], [0, [1, 1]]]
    fake.reset(0)
    assert fake.mode(0) == (True, True)
    fake.reboot()
    assert [fake.mode(0), fake.mode(1)] == [(True, True), (False, False)]


def test_mig_mode_stays_while_an_instance_is_there(h100: FakeNvml, vendor: Vendor) -> None:
    """Even one that is half made; what was asked for stays pending (MIG User Guide, "Enable MIG mode")."""
    script = "cut(gpu(), 9, 0, 4)\nanswer = [nvmlDeviceSetMigMode(gpu(), 0), nvmlDeviceGetMigMode(gpu())]"
    assert vendor(h100, script) == [IN_USE, [1, 0]]


def test_nvlinks_and_switches_are_distinguished(tmp_path: Path, vendor: Vendor) -> None:
    """A link names what is at its other end; where there is none the call is not supported."""
    fake = FakeNvml.create(tmp_path / "nvml", ["A100-80GB"] * 3)
    fake.nvlink([(0, 1)])
    script = """
    answer = [nvmlDeviceGetNvLinkState(gpu(), 0), nvmlDeviceGetNvLinkRemoteDeviceType(gpu(), 0),
              nvmlDeviceGetNvLinkRemotePciInfo(gpu(), 0).busId, refused(nvmlDeviceGetNvLinkState, gpu(2), 0),
              nvmlDeviceGetTopologyCommonAncestor(gpu(0), gpu(2)), nvmlDeviceGetNumaNodeId(gpu(2))]
    """
    assert vendor(fake, script) == [1, 0, "00000000:19:00.0", NOT_SUPPORTED, 50, 1]


def test_without_a_driver_no_session_opens(h100: FakeNvml, vendor: Vendor) -> None:
    """As on a node whose kernel module is not loaded."""
    h100.unload()
    with pytest.raises(AssertionError, match="Driver Not Loaded"):
        vendor(h100, "")


def test_a_file_of_another_layout_is_refused(tmp_path: Path, vendor: Vendor) -> None:
    """A state file that is older than the library is named, not misread."""
    fake = FakeNvml.create(tmp_path / "nvml", ["H100-80GB"])
    fake.path.write_bytes(fake.path.read_bytes() + b"more")
    with pytest.raises(AssertionError, match="is no state file of this library"):
        vendor(fake, "")


def test_without_a_compiler_the_reason_is_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the compiler and the library."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(Unavailable, match=r"libnvidia-ml.so.1 .* no C compiler \(cc\)"):
        FakeNvml.build(tmp_path)


@pytest.mark.slow
def test_versioned_profile_queries_need_mig_mode(h100: FakeNvml, vendor: Vendor) -> None:
    """The query without a version is answered while it is off, too (nvml.h:12815, 12855)."""
    script = """
    answer = [refused(nvmlDeviceGetGpuInstanceProfileInfo, gpu(), 0, version) for version in (1, 2)]
    """
    assert vendor(h100, script) == [0, 0]
    h100.set_mode(0, on=False)
    assert vendor(h100, script) == [0, NOT_SUPPORTED]
    with h100.changing() as state:
        state.versioned_anytime = 1
    assert vendor(h100, script) == [0, 0]
