"""The journal keeps what was written, and lets nobody have what somebody else holds."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.journal import Journal
from apportion.agent.rows import ClaimRow, ClaimStep, Share, Step
from apportion.errors import NotReady
from tests.agent.journal.journalrow import ROW, claim, die


def test_every_step_is_read_back_by_the_next_process(tmp_path: Path) -> None:
    """The last step counts; a dropped row is gone."""
    path = tmp_path / "journal.db"
    first = Journal(path, "boot-1")
    ready = replace(ROW, step=Step.READY, instance={"gpuInstance": "7"}, uuid="MIG-1")
    first.put_partition(ROW)
    first.put_partition(ready)
    first.put_partition(replace(ROW, uid="p2"))
    first.drop_partition("p2")
    first.reserve(claim("c1", "gpu-0"))
    first.put_claim(replace(claim("c1", "gpu-0"), step=ClaimStep.PREPARED))
    first.close()
    reopened = Journal(path, "boot-1")
    assert reopened.partitions() == {"p1": ready}
    assert reopened.claims() == (replace(claim("c1", "gpu-0"), step=ClaimStep.PREPARED),)
    assert not reopened.rebooted
    reopened.close()


@pytest.mark.slow
def test_a_write_that_returned_survives_a_kill(tmp_path: Path) -> None:
    """The process dies right after the call; nothing was flushed by hand."""
    path = tmp_path / "journal.db"
    code = (
        "import os, signal, sys; from pathlib import Path; from tests.agent.journal.journalrow import ROW;"
        "from apportion.agent.journal import Journal;"
        f"Journal(Path({str(path)!r}), 'b').put_partition(ROW); os.kill(os.getpid(), signal.SIGKILL)"
    )
    die(code)
    journal = Journal(path, "b")
    assert journal.partitions() == {"p1": ROW}
    journal.close()


def test_after_a_reboot_nothing_is_prepared_and_partitions_are_still_known(tmp_path: Path) -> None:
    """No container survived; what became of the partitions only the hardware knows."""
    path = tmp_path / "journal.db"
    journal = Journal(path, "boot-1")
    journal.put_partition(ROW)
    journal.reserve(claim("c1", "gpu-0"))
    journal.close()
    journal = Journal(path, "boot-2")
    assert journal.rebooted
    assert journal.claims() == ()
    assert journal.partitions() == {"p1": ROW}
    journal.close()


@pytest.mark.parametrize(
    ("held", "wanted"),
    [("gpu-0", "gpu-0"), ("gpu-0", "gpu-0-mig-x"), ("gpu-0-mig-x", "gpu-0"), ("gpu-0-mig-x", "gpu-0-mig-x")],
)
def test_what_one_claim_holds_another_does_not_get(tmp_path: Path, held: str, wanted: str) -> None:
    """The refusal names the holder; after it let go, the other one may."""
    journal = Journal(tmp_path / "journal.db", "b")
    journal.reserve(claim("one", held))
    with pytest.raises(NotReady, match=r"held by ResourceClaim team/claim-one \(uid one\)"):
        journal.reserve(claim("two", "gpu-0-mig-free", wanted))
    assert [row.uid for row in journal.claims()] == ["one"]
    journal.drop_claim("one", "gpu.apportion.dev")
    journal.reserve(claim("two", wanted))
    journal.close()


def test_neighbours_and_administrators_do_not_exclude_each_other(tmp_path: Path) -> None:
    """Claims for two partitions of one card and a claim with admin access are all reserved."""
    journal = Journal(tmp_path / "journal.db", "b")
    journal.reserve(claim("one", "gpu-0-mig-x"))
    journal.reserve(claim("two", "gpu-0-mig-y"))
    journal.reserve(claim("admin", "gpu-0", admin=True))
    assert len(journal.claims()) == 3
    journal.close()


def test_two_agents_of_a_rolling_update_exclude_each_other(tmp_path: Path) -> None:
    """The check and the write are one transaction, across processes."""
    old, new = (Journal(tmp_path / "journal.db", "b") for _ in range(2))
    old.reserve(claim("one", "gpu-0"))
    with pytest.raises(NotReady):
        new.reserve(claim("two", "gpu-0"))
    old.close()
    new.close()


def test_a_broken_file_is_set_aside(tmp_path: Path) -> None:
    """The agent starts; the hardware and the API hold the rest."""
    path = tmp_path / "journal.db"
    path.write_bytes(b"no database " * 1000)
    journal = Journal(path, "b")
    journal.put_partition(ROW)
    assert path.with_suffix(".broken").read_bytes().startswith(b"no database")
    journal.close()


def shares(uid: str, *parts: Share) -> ClaimRow:
    """Return a claim row with shares of gpu-0."""
    row = claim(uid, *("gpu-0" for _ in parts))
    return replace(
        row, devices=tuple(replace(one, share=part) for one, part in zip(row.devices, parts, strict=True))
    )


def test_claims_that_share_a_device_are_read_back_with_their_parts(tmp_path: Path) -> None:
    """Two parts of one device in one claim too; who is gone leaves nothing."""
    path = tmp_path / "journal.db"
    first, second = shares("c1", Share("a", 10), Share("b", 20)), shares("c2", Share("c", 30))
    with closing(Journal(path, "b")) as journal:
        journal.reserve(first)
        journal.reserve(second)
        journal.put_claim(replace(first, step=ClaimStep.PREPARED))
    with closing(Journal(path, "b")) as journal:
        assert journal.claims() == (replace(first, step=ClaimStep.PREPARED), second)
        assert journal.claim("c2", second.driver) == second
        journal.drop_claim("c1", first.driver)
        # Of a claim that had shares another one of that UID, on the device as a whole, has none.
        journal.drop_claim("c2", second.driver)
        journal.reserve(claim("c1", "gpu-0"))
        assert journal.claims() == (claim("c1", "gpu-0"),)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM shares").fetchone() == (0,)


def test_a_claim_that_a_check_refuses_leaves_no_row_and_is_asked_about_with_the_others(
    tmp_path: Path,
) -> None:
    """The check sees the other claims, and nothing of it is written."""
    seen: list[str] = []

    def refuse(others: Sequence[ClaimRow]) -> None:
        seen.extend(row.uid for row in others)
        raise NotReady("no room")

    with closing(Journal(tmp_path / "journal.db", "b")) as journal:
        journal.reserve(claim("one", "gpu-0-mig-x"))
        with pytest.raises(NotReady, match="no room"):
            journal.reserve(claim("two", "gpu-0-mig-y"), refuse)
        assert seen == ["one"]
        assert [row.uid for row in journal.claims()] == ["one"]


def test_a_card_is_held_by_a_claim_of_the_driver_that_it_had_before(tmp_path: Path) -> None:
    """An administrator gave the GPUs' driver another name (overlay nvidia-names) while a container ran: nobody else gets its card."""
    with closing(Journal(tmp_path / "journal.db", "b")) as journal:
        journal.reserve(claim("one", "gpu-0"))
        with pytest.raises(NotReady, match="held by ResourceClaim team/claim-one"):
            journal.reserve(replace(claim("two", "gpu-0"), driver="gpu.nvidia.com"))


def test_two_agents_give_a_card_one_name(tmp_path: Path) -> None:
    """In a rolling update both may see a new card first."""
    old, new = (Journal(tmp_path / "journal.db", "b") for _ in range(2))
    assert old.name("gpu", "GPU-a", 0) == "gpu-0"
    assert new.name("gpu", "GPU-b", 0) == "gpu-1"
    assert old.name("gpu", "GPU-b", 1) == "gpu-1"
    assert new.name("gpu", "GPU-a", 5) == "gpu-0"
    assert new.known() == {"gpu-0": "GPU-a", "gpu-1": "GPU-b"}
    old.close()
    new.close()
