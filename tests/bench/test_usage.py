"""What the benchmarks say a program has spent."""

import subprocess

from bench.usage import Usage


def test_what_spends_less_than_a_tick_has_spent_something() -> None:
    """/proc counts CPU time in steps of 10 ms, a few events cost less: a rate by the CPU second would be nothing."""
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert 0 < Usage.of(child.pid).cpu < 1
        finally:
            child.kill()
    assert Usage.of(child.pid) == Usage(0.0, 0, 0)
