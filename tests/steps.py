"""Counts the steps of a piece of work: a bound on work is shown by counting, not by the clock."""

import gc
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Self


class Steps:
    """Counts the functions, our own and built-in ones, that are called within a `with` block.

    Garbage is not collected meanwhile: what it ends, and those who listen to the collector, would be counted too.
    """

    count = 0

    def __init__(self, only: Callable[..., object] | None = None) -> None:
        """`only`: count the calls of this Python function alone."""
        self._only: CodeType | None = None
        if only is not None:
            assert isinstance(only, FunctionType), only
            self._only = only.__code__

    def __enter__(self) -> Self:
        self._collects = gc.isenabled()
        gc.disable()
        self._before = sys.getprofile()
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)
        if self._collects:
            gc.enable()

    def _called(self, frame: FrameType, event: str, _argument: object) -> None:
        if self._only is None:
            self.count += event in ("call", "c_call")
        else:
            self.count += event == "call" and frame.f_code is self._only


def steps(work: Callable[[], object]) -> int:
    """Return how many functions were called during the work."""
    with Steps() as counted:
        work()
    return counted.count
