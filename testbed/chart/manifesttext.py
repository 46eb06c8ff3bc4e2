"""The text of a manifest file, changed at paths; comments and everything else stay as people wrote them.

In: a file with YAML documents, lines to put at paths of one document. Out: the changed file. Of what is put before the same line, the deeper is
first, items of a list before keys; else the order is that in which it was put.
"""

from collections import defaultdict
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import yaml

from testbed.chart.changes import Path
from testbed.errors import TestbedError


class ManifestText:
    """One file. What is put somewhere is indented as what is there already."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._nodes = list(yaml.compose_all(text, yaml.SafeLoader))
        self.objects: list[dict[str, Any]] = list(yaml.safe_load_all(text))
        """The documents as values, in the order of the file."""
        self._put: defaultdict[int, list[tuple[tuple[int, bool], list[str]]]] = defaultdict(list)
        self._replaced: dict[int, tuple[int, list[str]]] = {}

    def add_key(self, document: int, path: Path, block: str, *, after: str | None = None) -> None:
        """Put lines of a mapping after one of its keys; the last one if none is named."""
        node = self._mapping(document, path)
        key, value = node.value[-1] if after is None else self._entry(node, after)
        column = key.start_mark.column
        self._put[_last(value) + 1].append(((-column, True), _indented(block, column)))

    def add_item(self, document: int, path: Path, before: int, block: str) -> None:
        """Put lines of a list before an item; its length: at the end."""
        node = self._at(document, path)
        if not isinstance(node, yaml.SequenceNode) or node.flow_style:
            raise TestbedError(f"{path}: a list with one item a line is needed here")
        column = node.start_mark.column
        line = node.value[before].start_mark.line if before < len(node.value) else _last(node) + 1
        self._put[line].append(((-column, False), _indented(block, column)))

    def replace(self, document: int, path: Path, block: str) -> None:
        """Put lines in the place of a mapping's entry, key and value; or of a list's item."""
        *parent, last = path
        container = self._at(document, tuple(parent))
        if isinstance(container, yaml.MappingNode):
            key, value = self._entry(container, str(last))
            column, first = key.start_mark.column, key.start_mark.line
        else:
            value = container.value[int(last)]
            column, first = container.start_mark.column, value.start_mark.line
        if isinstance(container, yaml.MappingNode) and first == self._item_line(document, tuple(parent)):
            raise TestbedError(f"{path}: the entry begins an item of a list, and cannot be replaced")
        if first in self._replaced:
            raise TestbedError(f"{path}: two things replace it")
        self._replaced[first] = (_last(value), _indented(block, column))

    def guard(self, document: int, condition: str) -> None:
        """Make a document conditional."""
        node = self._nodes[document]
        self._put[node.start_mark.line].append(((0, True), [f"{{{{- if {condition} }}}}"]))
        self._put[_last(node) + 1].append(((0, True), ["{{- end }}"]))

    def text(self) -> str:
        """Return the changed file."""
        lines: list[str] = []
        skipped = -1
        for number in range(len(self._lines) + 1):
            for _, block in sorted(self._put[number], key=itemgetter(0)):
                lines += block
            if number in self._replaced:
                skipped, block = self._replaced[number]
                lines += block
            if number > skipped and number < len(self._lines):
                lines.append(self._lines[number])
        return "\n".join(lines) + "\n"

    def _item_line(self, document: int, path: Path) -> int:
        """Return the line of the list item that this path is, or -1."""
        return self._at(document, path).start_mark.line if path and isinstance(path[-1], int) else -1

    def _mapping(self, document: int, path: Path) -> yaml.MappingNode:
        node = self._at(document, path)
        if not isinstance(node, yaml.MappingNode) or node.flow_style:
            raise TestbedError(f"{path}: a mapping with one entry a line is needed here")
        return node

    def _at(self, document: int, path: Path) -> yaml.Node:
        node = self._nodes[document]
        for step in path:
            node = node.value[step] if isinstance(step, int) else self._entry(node, step)[1]
        return node

    @staticmethod
    def _entry(node: yaml.Node, key: str) -> tuple[yaml.Node, yaml.Node]:
        for name, value in node.value:
            if name.value == key:
                return name, value
        raise TestbedError(f"{node.start_mark}: there is no key {key}")


def block_of(value: object, replacements: Mapping[str, str] | None = None) -> str:
    """Return a value as lines of YAML; `replacements` puts template actions in the place of parts of them."""
    text = yaml.safe_dump(value, sort_keys=False, width=10_000).rstrip("\n")
    for old, new in (replacements or {}).items():
        text = text.replace(old, new)
    return text


def _last(node: yaml.Node) -> int:
    """Return the last line of a node; marks of collections lie behind the comments that follow."""
    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        return _last(last[1] if isinstance(last, tuple) else last)
    block = isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}
    return int(node.end_mark.line) - int(block)


def _indented(block: str, column: int) -> list[str]:
    return [" " * column + line for line in block.splitlines()]
