"""What a selector can read of a device, found without running it.

In: a checked tree. Out: the set of (kind, full name) that constant look-ups can touch; None when the selector
uses `device`, a whole map or a computed name, and so may read anything. A cache may key its results by these.
"""

from typing import TypeAlias

from apportion.cel.checked import Checked
from apportion.cel.paths import Path, entry_of, path_of
from apportion.cel.syntax import Ident, Macro, Node, children

Reads: TypeAlias = frozenset[tuple[str, str]] | None


def reads(checked: Checked) -> Reads:
    """Return what the selector can read; kinds are "attribute", "capacity" and "field" (driver and the like)."""
    found: set[tuple[str, str]] = set()
    waiting: list[tuple[Node, dict[str, Path | None]]] = [(checked.root, {})]
    while waiting:
        node, bound = waiting.pop()
        entry = entry_of(node, bound)
        if entry is not None:
            found.add(entry)
            continue
        path = path_of(node, bound)
        if path is not None:
            if path[:1] in ((), ("attributes",), ("capacity",)):
                return None
            found.add(("field", path[0]))
        elif isinstance(node, Macro):
            start = path_of(node.source, bound) if node.kind == "bind" else None
            if start is None or len(start) != 2:
                waiting.append((node.source, bound))
                start = None
            inner = {**bound, **dict.fromkeys(node.names, start)}
            waiting.extend((body, inner) for body in node.bodies)
        elif not isinstance(node, Ident):
            waiting.extend((child, bound) for child in children(node))
    return frozenset(found)
