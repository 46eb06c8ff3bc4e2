"""What is kept of a soak that found something."""

from pathlib import Path

from testbed.soak.keeping import keep


def test_logs_and_times_are_kept(tmp_path: Path) -> None:
    """Also those that were rotated; what is known only at the end says so."""
    source, folder = tmp_path / "source", tmp_path / "new" / "kept"
    source.mkdir()
    for name in ("operator-0.log", "audit.log", "audit-1.log", "admin.kubeconfig"):
        (source / name).write_text(name)
    keep(source, folder, ["one", "two"], {"one": 0.0})
    assert {each.name for each in folder.iterdir()} == {
        "operator-0.log",
        "audit.log",
        "audit-1.log",
        "problems.txt",
    }
    assert (folder / "problems.txt").read_text() == "1970-01-01T00:00:00+00:00 one\nat the end two\n"
