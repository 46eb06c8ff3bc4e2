"""Each reader of a journal sees what was written last, whichever process wrote it."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.agent.journal import Journal
from apportion.agent.rows import (
    ClaimDevice,
    ClaimRow,
    ClaimStep,
    NetworkRow,
    NetworkStep,
    SharedDevice,
    SharingRow,
    Step,
)
from tests.agent.journal.journalrow import ROW

DRIVER = "gpu.apportion.dev"
STEPS: tuple[tuple[Step, ClaimStep, NetworkStep], ...] = (
    (Step.INTENT, ClaimStep.PREPARING, NetworkStep.WAITING),
    (Step.READY, ClaimStep.PREPARED, NetworkStep.MOVED),
)


def claim(uid: str, step: ClaimStep) -> ClaimRow:
    """Return a claim of a partition."""
    return ClaimRow(
        uid, DRIVER, "team", uid, step, (ClaimDevice(f"x-{uid}", "gpu-0", "node-a", ("r",), "x"),)
    )


def network(uid: str, step: NetworkStep = NetworkStep.WAITING) -> NetworkRow:
    """Return the interface of a claim."""
    return NetworkRow(uid, DRIVER, f"nic-{uid}", f"nic-{uid}", "pod", "eth1", "{}", step)


def sharing(uid: str, *, done: bool) -> SharingRow:
    """Return what a claim has had set up."""
    return SharingRow(uid, DRIVER, (SharedDevice(f"gpu-{uid}", uid, uid, mps=True),), done=done)


WRITES: Mapping[str, Callable[[Journal, str, int], object]] = {
    "put partition": lambda journal, uid, n: journal.put_partition(
        replace(ROW, uid=uid, name=uid, step=STEPS[n][0])
    ),
    "drop partition": lambda journal, uid, _: journal.drop_partition(uid),
    "put claim": lambda journal, uid, n: journal.put_claim(claim(uid, STEPS[n][1])),
    "drop claim": lambda journal, uid, _: journal.drop_claim(uid, DRIVER),
    "put sharing": lambda journal, uid, n: journal.put_sharing(sharing(uid, done=bool(n))),
    "drop sharing": lambda journal, uid, _: journal.drop_sharing(uid, DRIVER),
    "put network": lambda journal, uid, n: journal.put_network(network(uid, STEPS[n][2])),
    "drop network": lambda journal, uid, _: journal.drop_network(network(uid)),
    "name": lambda journal, uid, n: journal.name("gpu", uid, n),
    "note cards": lambda journal, uid, _: journal.note_cards({"gpu-0": f"GPU-{uid}"}, {}),
}


def read(journal: Journal) -> Any:
    """Return all that can be read."""
    return (
        journal.partitions(),
        [journal.partition(uid) for uid in "abc"],
        journal.partitions_of("gpu-0"),
        journal.claims(),
        [journal.claim(uid, DRIVER) for uid in "abc"],
        journal.sharing(),
        [journal.sharing_of(uid, DRIVER) for uid in "abc"],
        journal.networks(),
        dict(journal.known()),
    )


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(WRITES)), st.sampled_from("abc"), st.integers(0, 1), st.booleans()),
        max_size=20,
    )
)
def test_what_one_agent_writes_both_read(writes: list[tuple[str, str, int, bool]]) -> None:
    """Also two agents of a rolling update: after each write both read what a third one reads, who has never read before."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        journals = [Journal(path, "boot"), Journal(path, "boot")]
        for name, uid, number, second in writes:
            WRITES[name](journals[second], uid, number)
            fresh = Journal(path, "boot")
            expected = read(fresh)
            fresh.close()
            assert [read(journal) for journal in journals] == [expected, expected]
        for journal in journals:
            journal.close()
