"""A page for each example. In: examples/*.yaml. Out: pages: what the file's first comment says, then the manifest.

Raises ValueError for a file that does not begin with a comment: such a page would explain nothing.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from docsite.page import Page

EXPECT = "expect:"
"""Line of the first comment from which on it is YAML: what the demo and its tests compare with the cluster."""


def pages(root: Path) -> Iterator[Page]:
    """Yield the pages of all examples, the list first."""
    listed = root / "examples/README.md"
    yield Page("examples/index.md", "All examples", listed.read_text(), "examples/README.md")
    for path in sorted((root / "examples").glob("*.yaml")):
        source = f"examples/{path.name}"
        yield Page(f"examples/{path.stem}.md", title(path.stem), _page(path), source)


def title(stem: str) -> str:
    """Return a file's name as words."""
    words = stem.replace("-", " ").split()
    known = {"gpu": "GPU", "nic": "NIC", "mig": "MIG", "npus": "NPUs", "vnpu": "vNPU", "fpga": "FPGA"}
    named = " ".join(known.get(word, word) for word in words)
    return named[0].upper() + named[1:] if not named.startswith("vNPU") else named


def said(text: str) -> tuple[str, str]:
    """Return what the first comment of an example says to people, and the expectations behind it (YAML, or empty)."""
    lines = re.match(r"(?:#.*\n)*", text)
    comment = "".join(
        line.removeprefix("#").removeprefix(" ")
        for line in (lines[0] if lines else "").splitlines(keepends=True)
    )
    words, _, expected = comment.partition(EXPECT)
    return words.strip(), expected


def _page(path: Path) -> str:
    text = path.read_text()
    words, expected = said(text)
    if not words:
        raise ValueError(f"{path.name}: no comment says what the example is for")
    manifest = re.sub(r"\A(?:#.*\n)*", "", text)
    parts = [f"# {title(path.stem)}", words]
    if expected:
        parts.append(_expected(expected))
    parts += [f'```yaml title="examples/{path.name}"\n{manifest}```']
    return "\n\n".join(parts) + "\n"


def _expected(text: str) -> str:
    """Return in words which end a test waits for."""
    ends = yaml.safe_load(text)
    rows = []
    for pod, end in (ends.get("pods") or {}).items():
        phase = end.get("phase", "Running")
        where = f" on a node `{end['node']}`" if "node" in end else ""
        rows.append(f"- Pod `{pod}`: {phase}{where}.")
    for name, devices in (ends.get("devices") or {}).items():
        kinds = ", ".join(" ".join(str(value) for value in device.values()) for device in devices) or "none"
        rows.append(f"- Devices of `{name}`: {kinds}.")
    for name, texts in (ends.get("events") or {}).items():
        rows.append(f"- An Event about `{name}` says: {', '.join(f'`{each}`' for each in texts)}.")
    return "How it ends on the simulated nodes of `make demo`, as a test compares:\n\n" + "\n".join(rows)
