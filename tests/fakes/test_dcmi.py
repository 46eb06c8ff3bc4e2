"""The fake DCMI keeps the rules of the real one, for programs that know the vendor's header."""

import threading
import time
from pathlib import Path

import pytest

from testbed.fakes.dcmi.layout import CONTAINER
from testbed.fakes.dcmi.library import FakeDcmi
from tests.fakes.dcmiprogram import run

INVALID, NOT_PERMITTED, INNER, NOT_EXIST, NOT_READY, FILE, OCCUPIED, NOT_SUPPORTED = (
    -8001, -8002, -8005, -8008, -8012, -8014, -8020, -8255,
)  # fmt: skip


def test_numbers_lead_from_cards_to_chips_and_back(tmp_path: Path) -> None:
    """Card, chip in the card, logic id, physical id: all of one chip, and a card's controller is none."""
    fake = FakeDcmi.create(tmp_path / "dcmi", ["910B4", "310P-48G", "310P-48G"])
    found = run(
        fake,
        """
        count, cards = c_int(), (c_int * 64)()
        dcmi.dcmi_get_card_list(byref(count), cards, 64)
        answer = []
        for card in cards[:count.value]:
            chips, mcu, cpu = c_int(), c_int(), c_int()
            dcmi.dcmi_get_device_id_in_card(card, byref(chips), byref(mcu), byref(cpu))
            for chip in range(chips.value):
                logic = c_int()
                dcmi.dcmi_get_device_logic_id(byref(logic), card, chip)
                phy = number("dcmi_get_device_phyid_from_logicid", logic.value)
                back = c_int(), c_int()
                dcmi.dcmi_get_card_id_device_id_from_phyid(byref(back[0]), byref(back[1]), phy)
                answer.append([card, chip, mcu.value, logic.value, phy, [one.value for one in back]])
        answer.append([number("dcmi_get_all_device_count"), number("dcmi_get_device_health", 9, 0)])
        """,
    )
    assert found == [
        [1, 0, 1, 0, 0, [1, 0]],
        [2, 0, -1, 1, 1, [2, 0]],
        [2, 1, -1, 2, 2, [2, 1]],
        [3, INVALID],
    ]


def test_a_vnpu_takes_what_its_template_says(b4: FakeDcmi) -> None:
    """Of everything, in the vendor's layouts; splitting turns data CPUs into AI CPUs and back."""
    before, name, used, left, after = run(
        b4,
        """
        before = whole()
        made = cut("vir10_3c_16g_nm", 105)
        answer = [before, one(made), [whole()[0], whole()[1]["aicpu"]], rest(), [destroy(made), whole()]]
        """,
    )
    assert before[0] == []
    assert (before[1]["aicore"], before[1]["aicpu"], before[1]["memory"]) == (20, 6, 28672)
    # A name of 15 characters, no container, no group on this chip.
    assert name[:4] == ["vir10_3c_16g_nm", 0, 0xFFFFFFFF, 0]
    assert (name[4]["aicore"], name[4]["aicpu"], name[4]["memory"], name[4]["vpc"]) == (10, 3, 14336, 0)
    assert used == [[105], 7]
    assert (left["aicore"], left["aicpu"], left["memory"], left["vpc"], left["pngd"]) == (10, 4, 14336, 9, -1)
    assert after == [0, before]


def test_the_driver_gives_ids_in_turn(b4: FakeDcmi) -> None:
    """One that is made again has another id; one that is asked for is given if it is the chip's and free."""
    assert run(
        b4,
        """
        first = cut("vir05_1c_8g")
        destroy(first)
        answer = [first, cut("vir05_1c_8g"), cut("vir05_1c_8g", 110), cut("vir05_1c_8g", 110),
                  cut("vir05_1c_8g", 99), cut("vir05_1c_8g", 116), cut("vir01")]
        """,
    ) == [100, 101, 110, INNER, INVALID, INVALID, INVALID]


def test_what_is_missing_is_not_reported(b4: FakeDcmi) -> None:
    """Cores, AI CPUs or engines: always the same code; what is left says more."""
    assert run(
        b4,
        """
        answer = [cut("vir10_4c_16g_m") > 0, cut("vir10_3c_16g"), cut("vir05_1c_8g"), cut("vir10_3c_16g_nm") > 0,
                  cut("vir10_3c_16g_nm")]
        """,
    ) == [True, INNER, INNER, True, INNER]


def test_groups_of_two_cores_on_a_310p(tmp_path: Path) -> None:
    """Two vNPUs of one core share a group; halves that are left over keep a vNPU of two cores out."""
    fake = FakeDcmi.create(tmp_path / "dcmi", ["310P"])
    found = run(
        fake,
        """
        small = [cut("vir01") for _ in range(7)]
        groups = [one(id)[2] for id in small]
        for id in (small[1], small[3]):
            destroy(id)
        left = rest()["aicore"]
        answer = [groups, left, cut("vir02_1c"), cut("vir01") > 0]
        """,
    )
    assert found == [[0, 0, 1, 1, 2, 2, 3], 3, INNER, True]


def test_a_910_has_no_engines_to_tell_and_none_to_give_in_smp_mode(tmp_path: Path) -> None:
    """Fields that it does not know are -1."""
    fake = FakeDcmi.create(tmp_path / "dcmi", ["910A"])
    found = run(fake, 'answer = [whole()[1]["vpc"], cut("vir02")]')
    assert found == [-1, 100]
    fake.set_mode(smp=True)
    assert run(fake, 'answer = [cut("vir02"), destroy(100), number("dcmi_get_npu_work_mode", 1) & 0xff]') == [
        NOT_SUPPORTED, NOT_SUPPORTED, 1,
    ]  # fmt: skip


def test_chips_without_vnpus_refuse_the_call(tmp_path: Path) -> None:
    """An A3 tells its super pod instead."""
    fake = FakeDcmi.create(tmp_path / "dcmi", ["A3"])
    answer = 'answer = [whole(), cut("vir12_3c_32g"), struct.unpack_from("<6I", ask(1, 48, main=12))]'
    assert run(fake, answer) == [NOT_SUPPORTED, NOT_SUPPORTED, [0, 384, 7, 3, 0, 0]]


def test_modes_and_rights(b4: FakeDcmi) -> None:
    """The mode changes on a whole node only; for virtual machines no container's vNPU is made; rights come first."""
    assert run(
        b4,
        """
        made = cut("vir05_1c_8g")
        refused = dcmi.dcmi_set_vdevice_mode(1)
        destroy(made)
        answer = [refused, dcmi.dcmi_set_vdevice_mode(1), number("dcmi_get_vdevice_mode"), cut("vir05_1c_8g"),
                  dcmi.dcmi_set_vdevice_mode(2)]
        """,
    ) == [OCCUPIED, 0, 1, NOT_SUPPORTED, INVALID]
    b4.call_from(CONTAINER)
    assert (
        run(b4, 'answer = [cut("vir05_1c_8g"), destroy(100), number("dcmi_get_vdevice_mode")]')
        == [NOT_PERMITTED] * 3
    )


def test_what_is_used_is_not_destroyed_and_what_is_not_there_neither(b4: FakeDcmi) -> None:
    """65535 means all of a chip."""
    run(b4, 'cut("vir05_1c_8g"); cut("vir05_1c_8g")')
    b4.occupy(101)
    assert run(b4, "answer = [one(101)[1:4:2], destroy(101), destroy(110), one(110)]") == [
        [1, 0xFFFFFFFFFFFF], OCCUPIED, NOT_EXIST, NOT_EXIST,
    ]  # fmt: skip
    b4.occupy(101, used=False)
    assert run(b4, "answer = [destroy(EVERY), whole()[0]]") == [0, []]


def test_faults_strike_the_call_and_the_chip_that_they_were_asked_for(tmp_path: Path) -> None:
    """So many times, after so many calls."""
    fake = FakeDcmi.create(tmp_path / "dcmi", ["910B4", "910B4"])
    fake.fail("dcmi_get_device_health", -8012, skip=1, card=1)
    assert run(
        fake,
        """
        answer = [number("dcmi_get_device_health", card, 0) for card in (1, 2, 2, 2)]
        """,
    ) == [0, 0, NOT_READY, 0]
    assert fake.calls()["dcmi_get_device_health"] == 4


@pytest.mark.slow
def test_latency_holds_up_the_call_and_nobody_else(tmp_path: Path) -> None:
    """A slow creation on one chip, questions about another meanwhile."""
    fake = FakeDcmi.create(tmp_path / "dcmi", ["910B4", "910B4"])
    # It takes until the other program has ended, however long that takes to start.
    fake.hang("dcmi_create_vdevice", card=0)
    slow = threading.Thread(target=run, args=(fake, 'cut("vir05_1c_8g")'))
    slow.start()
    try:
        while "dcmi_create_vdevice" not in fake.calls():
            time.sleep(0.01)
        run(fake, "answer = whole(card=2)")
        assert fake.vnpus() == ()
    finally:
        fake.drop_rules()
        slow.join()
    assert len(fake.vnpus()) == 1


def test_two_programs_never_get_one_id_or_more_than_there_is(b4: FakeDcmi) -> None:
    """Four fit, by any program."""
    script = 'answer = [id for id in (cut("vir05_1c_8g") for _ in range(4)) if id > 0]'
    found: list[list[int]] = []
    programs = [threading.Thread(target=lambda: found.append(run(b4, script))) for _ in range(3)]
    for program in programs:
        program.start()
    for program in programs:
        program.join()
    given = [id_ for ids in found for id_ in ids]
    assert sorted(given) == sorted(set(given)) == [row.id for row in b4.vnpus()]
    assert len(given) == 4


def test_a_lost_chip_answers_nothing(tmp_path: Path) -> None:
    """The others do, and the card is still listed."""
    fake = FakeDcmi.create(tmp_path / "dcmi", ["910B4", "910B4"])
    fake.lose(0)
    assert run(
        fake,
        """
        answer = [whole(), cut("vir05_1c_8g"), number("dcmi_get_device_health", 1, 0), whole(card=2)[0],
                  number("dcmi_get_all_device_count")]
        """,
    ) == [NOT_EXIST, NOT_EXIST, NOT_EXIST, [], 2]


def test_alarms_come_with_their_code(b4: FakeDcmi) -> None:
    """Grade and code; healed, both are gone."""
    script = """
    codes, count = (c_uint * 128)(), c_int()
    dcmi.dcmi_get_device_errorcode_v2(1, 0, byref(count), codes, 128)
    answer = [number("dcmi_get_device_health", 1, 0), *codes[:count.value]]
    """
    b4.set_health(0, 3)
    assert run(b4, script) == [3, 0x80E01801]
    b4.heal()
    assert run(b4, script) == [0]


def test_a_missing_driver_refuses_the_start(b4: FakeDcmi) -> None:
    """Not ready, which a program waits for."""
    b4.unload()
    run(b4, "", code=1)
    b4.unload(loaded=True)
    run(b4, "")
