"""Base class of the fake driver libraries: builds the library, reads and writes its state file, injects faults.

In: C sources, the layout of the state file. Out: `FakeDriver`. What a library does is in its C sources.
"""

import ctypes
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

from testbed.fakes import compile as compiler
from testbed.fakes.statefile.layout import Rule
from testbed.fakes.statefile.locked import changing

_STATEFILE = Path(__file__).parent / "statefile"
_FAIL, _DELAY, _KILL_BEFORE, _KILL_AFTER, _HANG = 1, 2, 3, 4, 5
_FOR_EVER = -1

S = TypeVar("S", bound=ctypes.Structure)


class FakeDriver(Generic[S]):
    """One fake node's driver: a state file, shared by every process that has `environment`."""

    layout: type[S]
    """Of the state file; its first field is a `Header` called `header`."""
    variable: ClassVar[str]
    """Environment variable that names the state file."""
    sources: ClassVar[Path]
    """Folder of the library's C files."""
    soname: ClassVar[str]
    """File name of the library, by which a program loads it."""

    def __init__(self, path: Path) -> None:
        """Open an existing state file; `create` of a subclass makes one. Raises Unavailable without a C compiler."""
        self.path = path
        self.library = self.build()

    @classmethod
    def build(cls, cache: Path | None = None) -> Path:
        """Return the path of the library, built if need be. Raises Unavailable without a C compiler."""
        built = compiler.library(cls.sources, cls.soname, shared=_STATEFILE, cache=cache)
        size = ctypes.CDLL(str(built)).fake_state_size()
        if size != ctypes.sizeof(cls.layout):
            raise AssertionError(
                f"{cls.soname}: layout.py has {ctypes.sizeof(cls.layout)} bytes, state.h {size}"
            )
        return built

    @classmethod
    def _write(cls, path: Path, state: S) -> Self:
        fresh = path.with_suffix(".new")
        fresh.write_bytes(bytes(state))
        fresh.replace(path)
        return cls(path)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment, from its start on."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), self.variable: str(self.path)}

    @contextmanager
    def changing(self) -> Iterator[S]:
        """Yield the state under its lock and write it back; all processes see the changes at once."""
        with changing(self.path, self.layout) as state:
            yield state

    def read(self) -> S:
        """Return a copy of the state."""
        with self.path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            return self.layout.from_buffer_copy(file.read())

    def calls(self) -> dict[str, int]:
        """Return how often each function was called since the file was made, by all processes."""
        rows = self.read().header.count
        return {row.symbol.decode(): row.calls for row in rows if row.symbol}

    def fail(self, symbol: str, code: int, *, times: int = 1, skip: int = 0, card: int = -1) -> None:
        """Make the next calls of a function fail with an error code of the driver's; `times` -1: for ever."""
        self._rule(symbol, _FAIL, code=code, times=times, skip=skip, card=card)

    def delay(self, symbol: str, seconds: float, *, times: int = _FOR_EVER, card: int = -1) -> None:
        """Make calls of a function take longer; the lock is not held meanwhile."""
        self._rule(symbol, _DELAY, microseconds=int(seconds * 1e6), times=times, card=card)

    def hang(self, symbol: str, *, skip: int = 0, card: int = -1) -> None:
        """Let calls of a function not return until `drop_rules`, after the first `skip`; the lock is not held meanwhile, so other calls go on.

        Drivers do so: an answer may take seconds while others use the GPU, or never come (real drivers; source: none).
        """
        self._rule(symbol, _HANG, times=_FOR_EVER, skip=skip, card=card)

    def kill(self, symbol: str, *, after: bool, skip: int = 0, card: int = -1) -> None:
        """End the next process that calls this function with SIGKILL, before or after it took effect."""
        self._rule(symbol, _KILL_AFTER if after else _KILL_BEFORE, times=1, skip=skip, card=card)

    def drop_rules(self) -> None:
        """Remove every fault that did not happen yet."""
        with self.changing() as state:
            for rule in state.header.rule:
                rule.action = 0

    def unload(self, *, loaded: bool = False) -> None:
        """Take the driver away (or bring it back): new sessions fail."""
        with self.changing() as state:
            state.header.driver_loaded = int(loaded)

    def preload(self) -> None:
        """Let this very process use the fake from its next session on.

        The loader matches a library that is already there by its soname, so code that opens it by name needs no change.
        For tests that need many short sessions; a process of its own with `environment` proves the same without this.
        """
        ctypes.CDLL(str(self.library), mode=ctypes.RTLD_GLOBAL)
        os.environ[self.variable] = str(self.path)

    def _rule(
        self,
        symbol: str,
        action: int,
        *,
        card: int,
        times: int,
        code: int = 0,
        skip: int = 0,
        microseconds: int = 0,
    ) -> None:
        with self.changing() as state:
            rules = state.header.rule
            for index, rule in enumerate(rules):
                if rule.action == 0 or rule.times == 0:
                    rules[index] = Rule(action, card, code, times, skip, microseconds, symbol.encode())
                    return
        raise RuntimeError("the state file has no room for another fault")
