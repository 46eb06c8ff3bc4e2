"""Dockerfile and Tiltfile as instructions and calls."""

import ast
from typing import Any

from tests.install.rendered import ROOT


class Dockerfile:
    """The instructions of the Dockerfile."""

    def __init__(self) -> None:
        text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
        self.lines = [
            line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")
        ]

    def all(self, instruction: str) -> list[str]:
        """Return the arguments of all instructions of this name."""
        return [rest for name, rest in self.lines if name == instruction]


class Tiltfile:
    """The calls in the Tiltfile. Starlark's syntax is Python's."""

    def __init__(self) -> None:
        tree = ast.parse((ROOT / "Tiltfile").read_text(encoding="utf-8"))
        self._calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]

    def all(self, function: str) -> list[tuple[list[Any], dict[str, Any]]]:
        """Return the arguments of all calls of a function; nested calls are left out."""
        return [
            (
                [ast.literal_eval(value) for value in call.args if plain(value)],
                {
                    word.arg: ast.literal_eval(word.value)
                    for word in call.keywords
                    if word.arg and plain(word.value)
                },
            )
            for call in self._calls
            if isinstance(call.func, ast.Name) and call.func.id == function
        ]


def plain(node: ast.expr) -> bool:
    """Say whether an argument is a value and not a call."""
    return not any(isinstance(inner, ast.Call) for inner in ast.walk(node))
