"""The recovery file of the fake DCMI: which vNPUs are made anew at boot, and what a killed program leaves of it."""

import signal

import pytest

from testbed.fakes.dcmi.library import FakeDcmi
from tests.fakes.dcmiprogram import run

FILE = -8014


@pytest.mark.slow
def test_the_recovery_file_brings_vnpus_back_at_boot(b4: FakeDcmi) -> None:
    """Created ones are written, destroyed ones struck out; switching it off forgets them all."""
    config = b4.path.with_name("vnpu.cfg")
    run(b4, 'cut("vir05_1c_8g"); dcmi.dcmi_set_vnpu_config_recover_mode(1)')
    run(b4, 'cut("vir05_1c_8g", 107); destroy(cut("vir05_1c_8g", 108))')
    assert config.read_text() == (
        "vnpu_config_recover:enable\n[vnpu-config start]\n"
        "0:107:npu-smi set -t create-vnpu -i 1 -c 0 -f vir05_1c_8g -v 107\n[vnpu-config end]\n"
    )
    before = {row.id: row.serial for row in b4.vnpus()}
    b4.reboot()
    (back,) = b4.vnpus()
    assert (back.id, back.template) == (107, "vir05_1c_8g")
    assert back.serial != before[107]
    run(b4, "dcmi.dcmi_set_vnpu_config_recover_mode(0)")
    assert "create-vnpu" not in config.read_text()
    b4.reboot()
    assert b4.vnpus() == ()


@pytest.mark.slow
def test_a_container_without_the_hosts_recovery_file_has_one_of_its_own(b4: FakeDcmi) -> None:
    """Its switch is on, nothing in it comes back, and the host's keeps what it has."""
    run(b4, 'dcmi.dcmi_set_vnpu_config_recover_mode(1); cut("vir05_1c_8g", 107)')
    with b4.changing() as state:
        state.mounted = 0
    script = """
    cut("vir05_1c_8g", 108)
    before = number("dcmi_get_vnpu_config_recover_mode")
    answer = [before, dcmi.dcmi_set_vnpu_config_recover_mode(0), number("dcmi_get_vnpu_config_recover_mode")]
    """
    assert run(b4, script) == [1, 0, 0]
    assert [row.id for row in b4.vnpus()] == [107, 108]
    b4.reboot()
    assert [row.id for row in b4.vnpus()] == [107]


@pytest.mark.slow
def test_a_line_stays_where_a_program_dies_between_the_vnpu_and_its_line(b4: FakeDcmi) -> None:
    """What was removed then comes back at boot; removed a second time it does not."""
    run(b4, 'dcmi.dcmi_set_vnpu_config_recover_mode(1); cut("vir05_1c_8g", 107)')
    b4.kill("dcmi_set_destroy_vdevice.save", after=False)
    run(b4, "destroy(107)", code=-signal.SIGKILL)
    assert b4.vnpus() == ()
    b4.reboot()
    assert [row.id for row in b4.vnpus()] == [107]
    run(b4, "destroy(107)")
    b4.reboot()
    assert b4.vnpus() == ()


def test_a_vnpu_that_cannot_be_written_down_is_undone(b4: FakeDcmi) -> None:
    """The driver writes to no link."""
    run(b4, "dcmi.dcmi_set_vnpu_config_recover_mode(1)")
    config = b4.path.with_name("vnpu.cfg")
    config.unlink()
    config.symlink_to("/dev/null")
    assert run(b4, 'answer = [cut("vir05_1c_8g"), whole()[0]]') == [FILE, []]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("symbol", "after", "left", "written"),
    [
        ("dcmi_create_vdevice", False, 0, 0),
        ("dcmi_create_vdevice.save", False, 1, 0),
        ("dcmi_create_vdevice.save", True, 1, 1),
        ("dcmi_create_vdevice", True, 1, 1),
    ],
)
def test_a_killed_creation_keeps_what_had_happened(
    b4: FakeDcmi, symbol: str, *, after: bool, left: int, written: int
) -> None:
    """Before it, between hardware and file, after both: state survives the process, and nobody stays locked out."""
    run(b4, "dcmi.dcmi_set_vnpu_config_recover_mode(1)")
    b4.kill(symbol, after=after)
    run(b4, 'cut("vir05_1c_8g")', code=-signal.SIGKILL)
    assert len(b4.vnpus()) == left
    assert b4.path.with_name("vnpu.cfg").read_text().count("create-vnpu") == written
    assert run(b4, "answer = len(whole()[0])") == left
