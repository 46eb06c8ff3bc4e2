"""Bit masks: sets of devices as integers, one bit per position."""

from collections.abc import Iterator


def bits(mask: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
