"""Fragments of Python source, and the names that they may use.

The user's text never becomes Python code: constants are written as literals or get a name, and names of CEL are never used
as Python names.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from apportion.cel.evaluate.comprehensions import items_of, pairs_of
from apportion.cel.evaluate.device import cel_device
from apportion.cel.library.equality import equal, unequal
from apportion.cel.library.lookup import find, find_field, find_optional, has
from apportion.cel.values import Value, no_overload

_MISSING: Final = object()


class Unsupported(Exception):  # noqa: N818 - private to the fast form
    """This part of CEL has no fast form."""


class Fragment(NamedTuple):
    """Source of an expression, and the class of its value where that is certain."""

    text: str
    cls: type | None = None


def _refuse() -> Value:
    raise no_overload()


class Namespace:
    """The names that the source of one selector uses. `values` holds the global ones."""

    def __init__(self) -> None:
        self._count = 0
        self._uses: set[str] = set()
        self.values: dict[str, Any] = {
            "__builtins__": {"type": type, "len": len, "any": any, "all": all, "sum": sum, "tuple": tuple},
            "bool": bool,
            "CEL": cel_device,
            "MISSING": _MISSING,
            "NSO": _refuse,
            "EQ": equal,
            "NE": unequal,
            "FIND": find,
            "FIELD": find_field,
            "HAS": has,
            "OPT": find_optional,
            "ITEMS": items_of,
            "PAIRS": pairs_of,
        }

    def prologue(self) -> str:
        """Return the statements that set the local names which the expression uses."""
        lines = {
            "FA": "    FA = d.attributes\n",
            "FC": "    FC = (d.cel or CEL(d)).capacity\n",
            "V": "    V = (d.cel or CEL(d)).value\n",
            # Loops multiply what a device holds, so the bound on the cost must hold for this device.
            "LOOP": "    if not (d.cel or CEL(d)).within_limits: NSO()\n",
        }
        return "".join(line for name, line in lines.items() if name in self._uses)

    def constant(self, value: Value) -> Fragment:
        """Write a constant."""
        if type(value) in (bool, int, str, bytes) or value is None:
            return Fragment(ascii(value), type(value))
        return Fragment(self.keep("K", value), type(value))

    def keep(self, prefix: str, value: Any) -> str:
        """Give a value a name that the source may refer to."""
        name = self.name(prefix)
        self.values[name] = value
        return name

    def name(self, prefix: str) -> str:
        """Return a name that is not in use."""
        self._count += 1
        return f"{prefix}{self._count}"

    def use(self, name: str) -> str:
        """Return a local name, which `prologue` then sets."""
        self._uses.add(name)
        return name

    def flat(self, kind: str) -> str:
        """Return the dict of all attributes or all capacities by qualified name."""
        return self.use("FA" if kind == "attribute" else "FC")

    def guarded(
        self, fragment: Fragment, cls: type, test: Callable[[str], str], otherwise: Callable[[str], str]
    ) -> str:
        """Write `test` of a fragment for values of the class, `otherwise` for others; tests the class if need be."""
        if fragment.cls is cls:
            return test(fragment.text)
        name = self.name("t")
        return (
            f"({test(name)} if type({name} := {fragment.text}) is {self._class(cls)} else {otherwise(name)})"
        )

    def _class(self, cls: type) -> str:
        name = f"C{cls.__name__}"
        self.values[name] = cls
        return name
