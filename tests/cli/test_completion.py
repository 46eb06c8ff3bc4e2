"""Completion as shells and kubectl ask for it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from testbed.binaries import Binaries

PROGRAMS = Path(sys.executable).parent


def ran(
    command: Sequence[str | Path], *, folders: Sequence[Path] = (), given: str = "", **variables: str
) -> str:
    """Run a program that has to succeed, with the installed commands on its PATH; returns what it prints."""
    path = ":".join(map(str, (*folders, PROGRAMS, "/usr/bin", "/bin")))
    done = subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": path, "HOME": os.environ["HOME"], **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def script(shell: str) -> str:
    return ran(["apportion", "--show-completion", shell])


def completed_by_bash(*words: str) -> list[str]:
    """Source the script and complete the last word, as bash does at a TAB."""
    quoted = " ".join(f"'{word}'" for word in words)
    asks = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _apportion_completion apportion\n"
    says = "printf '%s\\n' \"${COMPREPLY[@]}\"\n"
    return ran(["bash", "--norc"], given=f"{script('bash')}\n{asks}{says}").split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("apportion", "st"), ["status"]),
        (("apportion", "w"), ["why", "who", "web"]),
        (("apportion", "node", "reco"), ["recover"]),
        (("apportion", "free", "--without"), ["--without-node"]),
        (("apportion", "operator", "--log-format", "c"), ["console"]),
        (("apportion", "--show-completion", "z"), ["zsh"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bash_completes_commands_options_and_values(words: tuple[str, ...], found: list[str]) -> None:
    """From the script that the command line prints, in a real bash."""
    assert completed_by_bash(*words) == found


@pytest.mark.slow
@pytest.mark.parametrize(("shell", "answer"), [("zsh", '"status"'), ("fish", "status\t")])
def test_scripts_of_other_shells_ask_what_the_command_line_answers(shell: str, answer: str) -> None:
    """The variables are those of the script; its syntax is checked where the shell is installed."""
    text = script(shell)
    assert f"_APPORTION_COMPLETE=complete_{shell}" in text
    asked = {
        "_APPORTION_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "apportion sta",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    assert all(name in text for name in asked if shell == "fish" or "FISH" not in name)
    assert answer in ran(["apportion"], **asked)
    if shutil.which(shell):
        ran([shell, "-n"], given=text)


def test_kubectl_completes_the_plugin(binaries: Binaries, tmp_path: Path) -> None:
    """A real kubectl finds the printed program on the PATH and asks it; files may follow only where nothing else does."""
    program = tmp_path / "kubectl_complete-apportion"
    program.write_text(script("kubectl"))
    program.chmod(0o755)

    def said(*words: str) -> list[str]:
        return ran([binaries["kubectl"], "__complete", "apportion", *words], folders=[tmp_path]).splitlines()

    (candidate, directive) = said("stat")
    assert candidate.startswith("status\t")
    assert directive == ":4"
    assert said("free", "--world", "wor") == [":0"]


@pytest.mark.slow
def test_an_unknown_shell_is_refused_by_name() -> None:
    """With those that there are."""
    done = subprocess.run(
        [sys.executable, "-m", "apportion", "--show-completion", "tcsh"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish', 'kubectl'" in done.stderr
