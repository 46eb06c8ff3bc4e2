"""Blocks of code in Markdown. In: files of the repository. Out: each block with its language, and whether a test runs it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = "<!-- run -->"
"""Stands before a block that tests/e2e/test_quickstart.py runs."""
_FENCE = re.compile(r"^( *)```(\S*)(.*)$")
_INDENTED = re.compile(r"^( {4}|\t)\S")


@dataclass(frozen=True, slots=True)
class Block:
    """One block."""

    where: str
    """File and line."""
    language: str
    """Empty for one that does not say it, which `indented` ones cannot."""
    text: str
    is_run: bool = False


def pages() -> list[Path]:
    """Return all Markdown that people read."""
    ours = list(ROOT.glob("*.md"))
    for folder in (".github", "docs", "bench", "examples", "manifests", "testbed"):
        ours += (ROOT / folder).rglob("*.md")
    return sorted(ours)


def blocks(path: Path) -> Iterator[Block]:
    """Yield the blocks of a file, in order."""
    lines = path.read_text().splitlines()
    name = path.relative_to(ROOT).as_posix()
    number = 0
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        if opened:
            margin, language = len(opened[1]), opened[2]
            end = next(at for at in range(number + 1, len(lines)) if lines[at].strip() == "```")
            text = "\n".join(line[margin:] for line in lines[number + 1 : end])
            yield Block(f"{name}:{number + 1}", language, text, lines[number - 1].strip() == RUN)
            number = end
        elif (
            _INDENTED.match(lines[number]) and not lines[number - 1].strip() and lines[number].strip() != RUN
        ):
            yield Block(f"{name}:{number + 1}", "", lines[number].strip())
        number += 1
