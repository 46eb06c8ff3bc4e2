"""Commands are imported when they are asked for."""

import subprocess
import sys

import pytest
import typer

from apportion.__main__ import app
from apportion.cli.deferred import Deferred, DeferringGroup

GROUP = typer.main.get_command(app)
assert isinstance(GROUP, DeferringGroup)
DEFERRED = [each for each in GROUP.commands.values() if isinstance(each, Deferred)]


@pytest.mark.parametrize("command", DEFERRED, ids=lambda each: each.name)
def test_the_list_says_what_each_command_says_of_itself(command: Deferred) -> None:
    """The list is written by hand, so that it needs no imports."""
    found = command.load()
    assert str(found.help).partition("\n")[0] == command.help


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("--help",), ("version",), ("--show-completion", "bash"), ("nothing",)]
)
def test_what_needs_no_cluster_imports_no_client(arguments: tuple[str, ...]) -> None:
    """Nor the allocator: these took longer than everything else that was done."""
    code = (
        "import sys\n"
        "from apportion.__main__ import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print([name for name in sys.modules if name in ('kubernetes_asyncio', 'apportion.allocator.allocate')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
