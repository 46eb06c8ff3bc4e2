"""Random selectors from every library of the environment, and random devices, for the comparison with cel-go."""

import re
from random import Random
from typing import Any, Final

from tests.cel.randomselectors import GRAMMAR, QUANTITIES, STRINGS, VERSIONS
from tests.upstream.phrases import MORE, SHORT
from tests.upstream.texts import TEXTS

_SYMBOLS: Final = {name: (*GRAMMAR.get(name, ()), *MORE.get(name, ())) for name in (*GRAMMAR, *MORE)} | TEXTS
_PLACE: Final = re.compile(r"\{(\w+)\}")
_DOMAINS: Final = ("gpu.example.com", "other.example.com")
_NAMES: Final = ("model", "x", "class")


def selector_and_device(seed: int) -> dict[str, Any]:
    """Return a selector and the device on which it is evaluated; the same seed gives the same."""
    random = Random(seed)  # noqa: S311 - a test's seed
    return {"expression": _expression(random), **_device(random)}


def _expression(random: Random) -> str:
    left = random.choice([1, 2, 3, 4, 6, 8, 12])

    def expand(symbol: str) -> str:
        nonlocal left
        left -= 1
        if left < 0 and symbol in SHORT:
            return SHORT[symbol]
        # Doubled braces are braces of CEL, single ones are symbols.
        template = random.choice(_SYMBOLS[symbol]).replace("{{", "\1").replace("}}", "\2")
        filled = _PLACE.sub(lambda found: expand(found[1]) if found[1] in _SYMBOLS else found[0], template)
        return filled.replace("\1", "{").replace("\2", "}")

    return expand("B")


def _device(random: Random) -> dict[str, Any]:
    attributes = {"gpu.example.com/x": _value(random)}
    for _ in range(random.randrange(5)):
        attributes[f"{random.choice(_DOMAINS)}/{random.choice(_NAMES)}"] = _value(random)
    driver = random.choice(_DOMAINS)
    if random.randrange(3) == 0:
        driver = "gpu.example.com"
        attributes.pop("gpu.example.com/model", None)
        attributes["model"] = _value(random)
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": {
            f"{random.choice(_DOMAINS)}/{random.choice(_NAMES)}": {"value": random.choice(QUANTITIES)}
            for _ in range(random.randrange(4))
        },
        "allowMultipleAllocations": random.choice([True, False, None]),
    }


def _value(random: Random) -> dict[str, Any]:
    kind = random.choice(["bool", "int", "int", "string", "string", "version", "ints", "strings"])
    one: dict[str, Any] = {
        "bool": lambda: random.random() < 0.5,
        "int": lambda: random.choice([-2, 0, 1, 3, 2**53 + 1, 2**63 - 1, -(2**63)]),
        "string": lambda: random.choice(STRINGS),
        "version": lambda: random.choice(VERSIONS),
        "ints": lambda: [random.randrange(4) for _ in range(random.randrange(1, 4))],
        "strings": lambda: [random.choice(STRINGS) for _ in range(random.randrange(1, 4))],
    }
    return {kind: one[kind]()}
