"""SelectorResults: results of one CEL selector, keyed by the attributes and capacities that it reads.

In: compiled selectors by text, and a device. Out: match, no match, or the error. Devices with equal values of what the
selector reads share one evaluation.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from apportion.allocator.memo import Memo, keep
from apportion.dra.device import Device, qualify
from apportion.errors import SelectorError

MOST = 8192
"""Results kept per selector; a selector that reads a UUID has one per device."""
MOST_ERRORS = 64
"""Different errors kept per selector, each once for all devices; an error can have a value of the device in its text."""
CHEAP = 2000
"""Cost units of one evaluation up to which nobody counts: some ten microseconds, on every device of a large cluster."""
HEAVY = 300_000
"""Cost units from which on one evaluation may take longer than a slice of work: about 50 ms."""

Reads: TypeAlias = frozenset[tuple[str, str]] | None


Measured: TypeAlias = tuple[bool | SelectorError, int]
"""A result, and the cost units that it took."""


class Selector(Protocol):
    """A compiled selector."""

    @property
    def reads(self) -> Reads:
        """Return the (`attribute`, `capacity` or other; full name) pairs that it can read; None: it may read everything."""
        ...

    @property
    def bound(self) -> int:
        """Return an upper bound of the cost units of one evaluation."""
        ...

    def match(self, device: Device) -> bool:
        """Say whether the device matches; raises SelectorError."""
        ...

    def measure(self, device: Device) -> "Measured":
        """Return the result or the error, and the cost units spent."""
        ...


class Selectors(Protocol):
    """Compiled selectors by text."""

    def get(self, text: str) -> Selector | SelectorError:
        """Return the program, or the compile error."""
        ...


class SelectorResults:
    """Results of one selector text, by the values that it reads."""

    __slots__ = (
        "__weakref__",
        "_errors",
        "_kept",
        "_measured",
        "_names",
        "_program",
        "_text",
        "costly",
        "heavy",
    )

    def __init__(self, selectors: Selectors, text: str) -> None:
        self._text = text
        self._program = selectors.get(text)
        reads = None if isinstance(self._program, SelectorError) else self._program.reads
        self._names = None if reads is None else tuple(sorted(reads))
        self._kept: dict[tuple[object, ...], bool | SelectorError] = {}
        self._measured: Memo[object, tuple[Device, Measured]] = Memo(MOST)
        """By what is read, or by the device's parts where everything may be; the device keeps the ids of its parts in use."""
        self._errors: dict[str, SelectorError] = {}
        """By text, and as the last one that which stands for all others."""
        bound = 0 if isinstance(self._program, SelectorError) else self._program.bound
        self.costly = bound > CHEAP
        """Whether an evaluation may cost so much that it is counted."""
        self.heavy = bound > HEAVY
        """Whether one evaluation may take longer than a slice of work."""

    @property
    def size(self) -> int:
        """How many results are kept."""
        return len(self._kept) + len(self._measured)

    @property
    def broken(self) -> bool:
        """Whether the text does not compile."""
        return isinstance(self._program, SelectorError)

    @property
    def reads(self) -> Reads:
        """Return what the selector can read; None: it may read everything. A text that does not compile reads nothing."""
        return frozenset() if isinstance(self._program, SelectorError) else self._program.reads

    def evaluate(self, device: Device) -> bool | SelectorError:
        """Return match, no match or the error for a device."""
        if isinstance(self._program, SelectorError):
            return self._program
        if device.unsupported:
            # Upstream's conversion of a device to CEL fails as a whole (compile.go `DeviceMatches`).
            return self._same(SelectorError(f"CEL runtime error: attribute {device.unsupported[0]}"))
        if self._names is None:
            measured = self.measured(device) if self.costly else None
            return measured[0] if measured is not None else self._run(self._program, device)
        key = self._key(self._names, device)
        found = self._kept.get(key)
        if found is None:
            found = keep(self._kept, key, self._run(self._program, device), MOST)
        return found

    def known(self, device: Device) -> bool | SelectorError | None:
        """Return what `evaluate` would, as long as that costs little or was measured before; None otherwise."""
        if not self.costly:
            return self.evaluate(device)
        found = self.measured(device)
        return None if found is None else found[0]

    def read_of(self, device: Device) -> object:
        """Return a key of what the selector reads of the device."""
        if self._names is not None:
            return self._key(self._names, device)
        return id(device.attributes), id(device.capacity), device.driver, device.shareable

    def measured(self, device: Device) -> Measured | None:
        """Return what was measured on a device with equal values; None where nothing was."""
        if device.unsupported:
            # Its error is its own: others with equal values of what the selector reads have their attributes whole.
            return self.evaluate(device), 0
        found = self._measured.get(self.read_of(device))
        return None if found is None else found[1]

    def measure(self, device: Device) -> Measured:
        """Evaluate and count the cost; changes nothing here, so that it may run in another thread."""
        if isinstance(self._program, SelectorError):
            return self._program, 0
        return self._program.measure(device)

    def keep(self, device: Device, measured: Measured) -> Measured:
        """Keep what was measured, and return it as it is kept."""
        if isinstance(measured[0], SelectorError):
            measured = self._same(measured[0]), measured[1]
        self._measured[self.read_of(device)] = device, measured
        if self._names is not None:
            keep(self._kept, self._key(self._names, device), measured[0], MOST)
        return measured

    def _run(self, program: Selector, device: Device) -> bool | SelectorError:
        try:
            return program.match(device)
        except SelectorError as error:
            return self._same(error.bare())

    def _same(self, error: SelectorError) -> SelectorError:
        """Return the kept error with this text; slices keep one for each device."""
        text = str(error)
        found = self._errors.get(text)
        if found is None and len(self._errors) >= MOST_ERRORS:
            text, first = "", next(iter(self._errors))
            found = self._errors.get(text)
            error = SelectorError(f"{first} (one of more than {MOST_ERRORS} errors, by device)")
        if found is None:
            found = self._errors[text] = error
        return found

    def _key(self, names: tuple[tuple[str, str], ...], device: Device) -> tuple[object, ...]:
        key: list[object] = []
        for kind, name in names:
            if kind == "attribute":
                value: object = device.attributes.get(name)
            elif kind == "capacity":
                value = _capacity(device, name)
            else:
                value = device.driver, device.shareable
            # 1, true and a version with equal text are different values.
            key.append(value if value.__class__ is str else (value.__class__, str(value)))
        return tuple(key)


def _capacity(device: Device, name: str) -> object:
    """Return what a selector reads of the device's capacity of a full name: of two with that name the qualified one, which comes last."""
    amount = None
    for own in device.capacity:
        found, its_amount = capacity_of(device, own)
        if found == name:
            amount = its_amount
    return amount


def capacity_of(device: Device, own: str) -> tuple[str, tuple[int, bool]]:
    """Return the full name of one of the device's capacities, and all that a selector can read of its amount."""
    value = device.capacity[own].value
    return qualify(own, device.driver), (value.nano, value.integer)


SelectorLookup: TypeAlias = Callable[[str], SelectorResults]
"""Returns the results of a selector by its text."""
