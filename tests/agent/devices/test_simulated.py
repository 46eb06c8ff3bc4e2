"""The simulated backend refuses what a driver refuses, and forgets nothing."""

import re
from pathlib import Path

import pytest

from apportion.agent.devices.simulated.simulation import load
from apportion.agent.devices.values import Health, PartitionPlace, Placement
from apportion.errors import BrokenInput, Busy, HardwareError, Lost, NoRoom, Unsupported
from tests.agent.places import H100, MakeBackend, partition_place


def test_a_mig_partition_has_a_new_uuid_every_time(make_backend: MakeBackend) -> None:
    """Identity is card, profile and placement; the UUID changes on each re-creation (hardware page 1)."""
    backend = make_backend(cards=[H100])
    place = partition_place(backend, "gpu-0", "1g.10gb", 3)
    first = backend.create(place)
    backend.destroy(first)
    second = backend.create(place)
    assert first.place == second.place == place
    assert first.uuid != second.uuid
    assert first.instance["gpuInstance"] != second.instance["gpuInstance"]


def test_overlapping_memory_slices_are_refused(make_backend: MakeBackend) -> None:
    """A place is free only if none of its memory slices is taken."""
    backend = make_backend(cards=[H100])
    backend.create(partition_place(backend, "gpu-0", "3g.40gb", 4))
    with pytest.raises(NoRoom, match="memory slice"):
        backend.create(partition_place(backend, "gpu-0", "1g.10gb", 5))
    backend.create(partition_place(backend, "gpu-0", "4g.40gb", 0))


def test_a_second_partition_with_media_extensions_is_refused_for_lack_of_the_engine(
    make_backend: MakeBackend,
) -> None:
    """The GPU has one OFA: +me fits once, whatever the slices say."""
    backend = make_backend(cards=[H100])
    backend.create(partition_place(backend, "gpu-0", "1g.10gb+me", 0))
    with pytest.raises(NoRoom):
        backend.create(partition_place(backend, "gpu-0", "1g.10gb+me", 1))


def test_two_half_310p_do_not_fit_because_of_the_ai_cpus(make_backend: MakeBackend) -> None:
    """2 x vir04 need 8 AI CPUs of 7; 2 x vir04_3c fit (virtual instance guide)."""
    backend = make_backend(cards=[{"model": "310P", "count": 2}])
    backend.create(partition_place(backend, "npu-0", "vir04", 100))
    with pytest.raises(NoRoom, match="aicpu"):
        backend.create(partition_place(backend, "npu-0", "vir04", 101))
    backend.create(partition_place(backend, "npu-1", "vir04_3c", 116))
    backend.create(partition_place(backend, "npu-1", "vir04_3c", 117))


def test_all_media_engines_leave_room_only_for_a_template_without(make_backend: MakeBackend) -> None:
    """The `_m` template takes every media engine of the chip; `_nm` needs none."""
    backend = make_backend(cards=[{"model": "910B4"}])
    backend.create(partition_place(backend, "npu-0", "vir10_4c_16g_m", 100))
    with pytest.raises(NoRoom):
        backend.create(partition_place(backend, "npu-0", "vir05_1c_8g", 101))
    backend.create(partition_place(backend, "npu-0", "vir10_3c_16g_nm", 101))


def test_a_vnpu_id_outside_the_chips_range_is_refused(make_backend: MakeBackend) -> None:
    """Ids are phy id * 16 + 100 and up, eight of them on a 310P."""
    backend = make_backend(cards=[{"model": "310P"}])
    with pytest.raises(Unsupported, match="vNPU id"):
        backend.create(PartitionPlace("npu-0", "vir01", Placement(108, 1)))


def test_what_exists_survives_the_process(make_backend: MakeBackend, tmp_path: Path) -> None:
    """The state file is the hardware: a second backend on it sees the same partitions."""
    backend = make_backend(cards=[H100])
    made = backend.create(partition_place(backend, "gpu-0", "1g.10gb", 0))
    restarted = type(backend)(tmp_path / "simulation-0.yaml", "node-a")
    assert restarted.partitions() == (made,)


def test_a_crash_between_the_two_halves_leaves_a_half_made_partition(make_backend: MakeBackend) -> None:
    """As a GPU instance without compute instance: listed, marked incomplete, in the way of others."""
    backend = make_backend(cards=[H100], faults={"createDelay": 1})

    class PowerCutError(Exception):
        pass

    def cut(_: float) -> None:
        raise PowerCutError

    backend._sleep = cut
    with pytest.raises(PowerCutError):
        backend.create(partition_place(backend, "gpu-0", "1g.10gb", 0))
    (half,) = backend.partitions()
    assert not half.complete
    assert half.uuid == ""
    backend._sleep = lambda _: None
    with pytest.raises(NoRoom):
        backend.create(half.place)
    backend.destroy(half)
    assert backend.partitions() == ()


@pytest.mark.parametrize(("name", "error"), [("Busy", Busy), ("NoRoom", NoRoom), ("Lost", Lost)])
def test_injected_failures_strike_as_often_as_asked(
    make_backend: MakeBackend, name: str, error: type[HardwareError]
) -> None:
    """Then the hardware works again."""
    backend = make_backend(cards=[H100], faults={"failures": [{"error": name, "times": 2}]})
    place = partition_place(backend, "gpu-0", "1g.10gb", 0)
    for _ in range(2):
        with pytest.raises(error, match="injected"):
            backend.create(place)
    assert backend.create(place).complete


def test_a_partition_in_use_is_not_destroyed(make_backend: MakeBackend) -> None:
    """The driver says busy, and the partition stays."""
    backend = make_backend(
        cards=[H100],
        foreign=[{"card": "gpu-0", "profile": "1g.10gb", "start": 6, "inUse": True}],
    )
    (foreign,) = backend.partitions()
    with pytest.raises(Busy):
        backend.destroy(foreign)
    assert backend.partitions() == (foreign,)


def test_a_partition_that_somebody_re_created_is_left_alone(make_backend: MakeBackend) -> None:
    """The UUID is compared before the blow: the same place may hold somebody else's partition by now."""
    backend = make_backend(cards=[H100])
    place = partition_place(backend, "gpu-0", "1g.10gb", 0)
    old = backend.create(place)
    backend.destroy(old)
    new = backend.create(place)
    backend.destroy(old)
    assert backend.partitions() == (new,)


def test_faults_are_switched_while_the_node_runs(make_backend: MakeBackend) -> None:
    """The state file is the switchboard: no restart is needed."""
    backend = make_backend(cards=[{"model": "910B4", "count": 2}])
    assert backend.health() == {}
    with backend.state.changing() as state:
        state["faults"]["sick"] = ["npu-1"]
    assert backend.health() == {"npu-1": Health.SICK}


def test_an_unknown_model_or_field_is_named(make_backend: MakeBackend) -> None:
    """A typing error in the simulation file is named with what would have been right."""
    with pytest.raises(BrokenInput, match=r"unknown model 'H1000'.*H100-80GB"):
        make_backend(cards=[{"model": "H1000"}])
    with pytest.raises(BrokenInput, match=r"cards.0.cuont"):
        make_backend(cards=[{"model": "910B4", "cuont": 2}])


@pytest.mark.parametrize("text", ["cards: [", "state: 2026-02-30", "- a"])
def test_a_simulation_file_that_is_none_is_named_in_one_sentence(tmp_path: Path, text: str) -> None:
    """Also one with a date that there is not, which the YAML library refuses in a way of its own."""
    path = tmp_path / "node.yaml"
    path.write_text(text)
    with pytest.raises(BrokenInput, match=rf"simulation file {re.escape(str(path))}: [^\n]+$"):
        load(path)
