"""Look-ups: what `a.b`, `a[b]`, `a[?b]`, `has(a.b)` and `b in a` give for values of any type.

Upstream's rule for DRA: in the maps of domains (`Domains`) an unknown domain is an empty map.
"""

from collections.abc import Callable

from apportion.cel.library.equality import contains, same
from apportion.cel.values import (
    EMPTY_DOMAIN,
    INT_MIN,
    NONE,
    CelFailure,
    Domains,
    Optional,
    Uint,
    Value,
    key_of,
    name_of,
    no_overload,
    shown,
)
from apportion.dra.semver import Semver


def find(container: Value, key: Value) -> Value:
    """Return `container[key]`; raises CelFailure when there is none."""
    cls = type(container)
    if cls is Domains:
        if type(key) is not str:
            raise no_overload()
        return container.get(key, EMPTY_DOMAIN)
    if cls is dict:
        try:
            return container[key_of(key)]
        except (KeyError, TypeError):
            raise CelFailure(f"no such key: {shown(key)}") from None
    if cls is tuple:
        position = _position(key)
        if 0 <= position < len(container):
            return container[position]
        raise CelFailure(f"index out of bounds: {position}")
    if cls is Optional:
        return find_optional(container, key)
    raise no_overload()


def find_field(container: Value, name: str) -> Value:
    """Return `container.name`; raises CelFailure when there is none."""
    if type(container) is dict:
        try:
            return container[name]
        except KeyError:
            raise CelFailure(f"no such key: {name[:64]}") from None
    if type(container) is tuple:
        raise no_overload()
    return find(container, name)


def find_optional(container: Value, key: Value) -> Optional:
    """Return what `container[?key]` gives: the value if there is one."""
    cls = type(container)
    if cls is Optional:
        return find_optional(container.value, key) if container.present else container
    if cls is Domains:
        return Optional(find(container, key))
    if cls is dict:
        name = key_of(key)
        try:
            return Optional(container[name]) if name in container else NONE
        except TypeError:
            return NONE
    if cls is tuple:
        position = _position(key)
        if 0 <= position < len(container):
            return Optional(container[position])
        return NONE
    # A value without parts has no such part.
    return NONE


def has(container: Value, name: str) -> bool:
    """Return what `has(container.name)` gives. A map of domains always has every name (DRA's rule)."""
    cls = type(container)
    if cls is dict:
        return name in container
    if cls is Domains:
        return True
    if cls is Optional:
        return container.present and has(container.value, name)
    if cls is tuple:
        raise no_overload()
    return False


def inside(needle: Value, container: Value) -> bool:
    """Return what `needle in container` gives."""
    cls = type(container)
    if cls is tuple:
        return contains(needle, container)
    if cls is dict or cls is Domains:
        try:
            return key_of(needle) in container
        except TypeError:
            return False
    raise no_overload()


def member_of(known: tuple[Value, ...]) -> Callable[[Value], bool]:
    """Return the test of `x in [...]` for a list of constants."""
    if not hashed(known):
        return lambda found: contains(found, known)

    def member(found: Value) -> bool:
        if type(found) in (Semver, bytes):
            # The reference implementation hashes the needle here; these two have no hash there.
            raise CelFailure(f"hash of unhashable type {name_of(found)}")
        return any(_has_key(item, found) for item in known)

    return member


def _has_key(item: Value, found: Value) -> bool:
    """Say whether a constant is hashed under a value: under itself, and as the other numbers that it is (decorators.go `maybeOptimizeSetMembership`)."""
    if type(item) is float and type(found) in (int, Uint):
        # Under the whole number itself, if it is one: no other that is the same double. The least int is out of range there.
        return bool(item == found) and found > INT_MIN
    return same(item, found)


def hashed(known: tuple[Value, ...]) -> bool:
    """Say whether the reference implementation hashes the items of this list of constants."""
    return all(type(item) in (bool, int, Uint, float, str) for item in known)


def _position(key: Value) -> int:
    if type(key) in (int, Uint) or (type(key) is float and key.is_integer()):
        return int(key)
    raise CelFailure(f"unsupported index type '{name_of(key)}' in list")
