"""What every benchmark says of input that is not there: one sentence that names it, exit status 2, no traceback."""

import gzip
from pathlib import Path

import pytest

from apportion.errors import BrokenInput
from bench.openb.rows import PODS, read_rows
from tests.bench.running import ROOT, program

READ_SHARED = (
    *("bench", "bench.backfill", "bench.churn", "bench.cycle", "bench.defrag", "bench.defragtimes"),
    *("bench.defragtrace", "bench.endgame", "bench.million", "bench.schedperf"),
)
"""Those that read the shared data."""


@pytest.mark.slow
@pytest.mark.parametrize("module", READ_SHARED)
def test_without_the_shared_data_one_sentence_says_what_to_set(module: str, tmp_path: Path) -> None:
    """Wherever it is first looked for."""
    own = {"APPORTION_SHARED": str(tmp_path / "nowhere"), "XDG_CACHE_HOME": str(tmp_path)}
    done = program(module, **own)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert str(tmp_path / "nowhere") in lines[0]
    assert "set APPORTION_SHARED to the folder" in lines[0]
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_shared_data_of_another_kind_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    """A folder that has the files' names, and not their columns."""
    data = tmp_path / "data/openb"
    data.mkdir(parents=True)
    (data / "openb_node_list_gpu_node.csv").write_text("sn,cpu_milli,memory_mib\n")
    done = program("bench.backfill", APPORTION_SHARED=str(tmp_path))
    assert (done.returncode, done.stderr) == (
        2,
        f"error: {data}: openb_node_list_gpu_node.csv: it has no column gpu\n",
    )


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"a,b\n", id="not gzipped"),
        pytest.param(gzip.compress(b"a,b\n")[:-9], id="torn"),
        pytest.param(gzip.compress(b"\xff"), id="no text"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_named(content: bytes, tmp_path: Path) -> None:
    """The error says the file's name whatever is wrong with its bytes."""
    (tmp_path / f"{PODS}.gz").write_bytes(content)
    with pytest.raises(BrokenInput, match=f"{PODS}.gz: "):
        read_rows(tmp_path, PODS)


def test_every_benchmark_refuses_alike() -> None:
    """Each module that can be run is run by the same function."""
    runnable = [path for path in ROOT.glob("bench/**/*.py") if "__main__" in path.read_text()]
    assert len(runnable) > len(READ_SHARED)
    assert [path for path in runnable if "run_command(main)" not in path.read_text()] == []
