"""Pods that come steadily, and what becomes of them while replicas or releases change."""

from collections.abc import Iterator

import pytest

from testbed.installation import Installation

_TAIL = 60
"""Lines of each log that a failed test shows."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show what operators and agents said last, when a test failed."""
    report = yield
    for installed in getattr(item, "funcargs", {}).values():
        if isinstance(installed, Installation) and report.failed:
            for program in (*installed.operators, *installed.agents.values()):
                lines = program.log.read_text(errors="replace").splitlines() if program.log.exists() else []
                report.sections.append((f"log of {program.name}", "\n".join(lines[-_TAIL:])))
    return report
