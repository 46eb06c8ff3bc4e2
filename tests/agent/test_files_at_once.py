"""Files that two write at once, as the agents of a rolling update or two threads of one do: each is whole, and nobody fails."""

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from apportion.agent import files
from apportion.agent.devices.stickyerrors import ContainedErrors, StickyErrors


def beside_the_first(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> ThreadPoolExecutor:
    """Have the first file that is put on the disk wait a moment there for what another one does."""
    threads, sync, first = ThreadPoolExecutor(1), os.fsync, threading.Event()

    def synced(file: int) -> None:
        sync(file)
        if not first.is_set():
            first.set()
            wait([threads.submit(act)], 0.2)

    monkeypatch.setattr(os, "fsync", synced)
    return threads


@pytest.mark.parametrize(
    "texts", [("long" * 1000, "short"), ("short", "long" * 1000)], ids=["longer first", "shorter first"]
)
def test_of_two_that_write_a_file_at_once_each_leaves_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: tuple[str, str]
) -> None:
    """Both had one unfinished file: the second cut it off under the first, whose claim could not be prepared then."""
    path = tmp_path / "claim.json"
    with beside_the_first(monkeypatch, lambda: files.write(path, texts[1])):
        assert files.write(path, texts[0])
        assert path.read_text(encoding="utf-8") in texts
    assert path.read_text(encoding="utf-8") == texts[1]
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_an_unfinished_file_that_a_kill_left_is_taken_over(tmp_path: Path) -> None:
    """Whatever stands in it."""
    (tmp_path / "claim.new").write_text("unfinished" * 10, encoding="utf-8")
    assert files.write(tmp_path / "claim.json", "{}")
    assert {each.name: each.read_text(encoding="utf-8") for each in tmp_path.iterdir()} == {
        "claim.json": "{}"
    }


def test_what_is_kept_of_a_cards_errors_is_not_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread notes an XID error of a GPU while another one counts those that were contained; the names differ in their endings only."""
    errors = StickyErrors(tmp_path, "boot")
    with beside_the_first(monkeypatch, lambda: errors.note_contained("GPU-1", ContainedErrors(2, 2))):
        errors.add("GPU-1", "XID 79")
    later = StickyErrors(tmp_path, "boot")
    assert later.all() == {"GPU-1": "XID 79"}
    assert later.contained("GPU-1") == ContainedErrors(2, 2)
    assert {path.name: "reason" in json.loads(path.read_text()) for path in tmp_path.iterdir()} == {
        "GPU-1.json": True,
        "GPU-1.contained": False,
    }
