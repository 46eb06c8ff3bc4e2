"""How people ask for the version: as other programs are asked, or by the command."""

import pytest
from typer.testing import CliRunner

from apportion import __version__
from apportion.__main__ import app


@pytest.mark.parametrize("words", ["version", "--version"])
def test_it_is_printed(words: str) -> None:
    """Nothing else is."""
    found = CliRunner().invoke(app, [words])
    assert (found.exit_code, found.stdout) == (0, f"{__version__}\n")
