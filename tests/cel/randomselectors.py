"""Random selectors and devices: well typed, badly typed and hostile."""

import re

from hypothesis import strategies as st

from apportion.dra.capacity import Capacity
from apportion.dra.device import Device
from apportion.dra.quantity import Quantity
from apportion.dra.semver import Semver

DOMAINS = ("gpu.example.com", "gpu.example.com", "gpu.example.com", "other.example.com", "absent.example.com")
NAMES = ("model", "x", "class")
STRINGS = ("", "A100", "H100 80GB", "1.2.3", "a'b\"c", "\\", "\n", "{t1}", "__class__", "é", "x]")
VERSIONS = ("1.0.0", "1.2.3-rc.1", "1.2.3", "10.0.0+build")
QUANTITIES = ("0", "1Ki", "40Gi", "1.5Gi", "100m", "2e3", "-5")

scalars = st.one_of(
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([2**63 - 1, -(2**63)]),
    st.sampled_from(STRINGS),
    st.sampled_from(VERSIONS).map(Semver.parse),
)
lists = st.one_of(
    st.lists(st.integers(-1, 3), max_size=3).map(tuple),
    st.lists(st.sampled_from(STRINGS), max_size=3).map(tuple),
    st.lists(st.booleans(), max_size=2).map(tuple),
    st.lists(st.sampled_from(VERSIONS).map(Semver.parse), max_size=2).map(tuple),
)
full_names = st.builds("{}/{}".format, st.sampled_from(DOMAINS[2:4]), st.sampled_from(NAMES))
devices = st.builds(
    Device,
    driver=st.sampled_from([*DOMAINS[2:4], "", "A100"]),
    pool=st.just("pool"),
    name=st.just("device"),
    attributes=st.builds(
        lambda others, value: {**others, "gpu.example.com/x": value},
        st.dictionaries(full_names, st.one_of(scalars, scalars, lists), max_size=5),
        st.one_of(scalars, scalars, scalars, lists),
    ),
    capacity=st.dictionaries(
        st.one_of(full_names, st.sampled_from(NAMES)),
        st.sampled_from(QUANTITIES).map(Quantity.parse).map(Capacity),
        max_size=4,
    ),
    shareable=st.booleans(),
)


def quoted(text: str) -> str:
    """Return a CEL string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


GRAMMAR: dict[str, tuple[str, ...]] = {
    # B: a bool. U: unknown until a device is seen. T, I, V, Q: may stand for a string, int, version, quantity.
    "B": (
        "({B} && {B})",
        "({B} || {B})",
        "({B} || {B} || {B})",
        "!{B}",
        "({B} ? {B} : {B})",
        "({T} {order} {T})",
        "({I} {order} {I})",
        "({U} {order} {U})",
        "({Q} {same} {Q})",
        "({V} {same} {U})",
        "({U} {same} {V})",
        "({A} {order} {int})",
        "({A} {order} {text})",
        "({int} {order} {A})",
        "({A} in [{int}, 2])",
        "({A} {same} {text} && {A} {same} {int})",
        "({A} == true || {A} {same} {V})",
        "{A}",
        "{Q}.isGreaterThan({Q})",
        "{Q}.isLessThan({Q})",
        "({Q}.compareTo({Q}) {order} 0)",
        "{V}.isGreaterThan({V})",
        "({V}.compareTo({V}) {order} 0)",
        "{U}.isLessThan({U})",
        "{T}.startsWith({T})",
        "{T}.contains({text})",
        "{T}.matches({pattern})",
        "{T}.matches({U})",
        "{U}.includes({T})",
        "{U}.includes({I})",
        '({T} in ["A100", "1.2.3", {text}])',
        "({I} in [1, 2])",
        "({U} in [])",
        "({T} in {U})",
        "({I} in {U})",
        "has(device.attributes[{domain}].{name})",
        "has(device.capacity[{domain}].{name})",
        '("{name}" in device.capacity[{domain}])',
        '("{name}" in device.attributes[{domain}])',
        "({domain} in device.attributes)",
        "{U}.exists(e, e == {U} || {B})",
        "{U}.all(e, e != {U} && {B})",
        "device.attributes[{domain}].exists_one(k, k == {text})",
        "device.attributes.all(d, v, v.exists(k, w, w == {U}))",
        "[{U}, {U}].exists(device, device == {U})",
        "cel.bind(v, {B}, {B} && v)",
        "cel.bind(v, {U}, {B} || v == {U})",
        "device.attributes[{domain}][?{text}].hasValue()",
        "sets.intersects({U}, {U})",
        "{Q}.isInteger()",
        "device.allowMultipleAllocations",
        "true",
        "{U}",
    ),
    "U": (
        "device.attributes[{domain}].{name}",
        "device.attributes[{domain}].{name}",
        'device.attributes[{domain}]["{name}"]',
        "device.attributes[{domain}].?{name}.orValue({text})",
        "device.attributes[{domain}].?{name}.orValue({U})",
        "device.attributes[?{domain}].{name}.orValue({text})",
        "device.?attributes.?x.orValue({text})",
        "cel.bind(b, device.attributes[{domain}], b.{name})",
        'cel.bind(b, "{name}", device.attributes[{domain}][b])',
        "({B} ? {U} : {U})",
        "optional.of({U}).optMap(o, o).orValue({U})",
        "{U}.filter(e, e == {U})",
        "{U}.map(e, e)[0]",
        "({U} {arithmetic} {U})",
        "dyn({text})",
        "{constant}",
    ),
    # A: an attribute that every device has, of any type.
    "A": (
        'device.attributes["gpu.example.com"].x',
        'device.attributes["gpu.example.com"]["x"]',
        'device.attributes["gpu.example.com"].?x.orValue(true)',
        'cel.bind(gpu, device.attributes["gpu.example.com"], gpu.x)',
    ),
    "T": ("{text}", "device.driver", "{U}", "{U}.lowerAscii()"),
    "I": ("{int}", "{U}", "{U}.size()", "({U} + {int})", "{U}.major()"),
    "V": ('semver("{version}")', 'semver("bad")', "{U}"),
    "Q": (
        'quantity("{quantity}")',
        'quantity("bad")',
        "device.capacity[{domain}].{name}",
        "device.capacity[{domain}].{name}",
        'device.capacity[{domain}].{name}.add(quantity("{quantity}"))',
        "{U}",
    ),
    "order": ("<", "<=", ">", ">=", "==", "!="),
    "same": ("==", "!="),
    "arithmetic": ("+", "-", "*", "%", "/"),
    "text": tuple(map(quoted, STRINGS)),
    "int": ("-1", "0", "1", "2", "9223372036854775807"),
    "pattern": ('"A1.0"', '"^A"', '"0$"', '".*1.*"', '"^$"', '"^.*0"', '"1"'),
    "domain": tuple(map(quoted, DOMAINS)),
    "name": NAMES,
    "version": VERSIONS,
    "quantity": QUANTITIES,
    "constant": (
        "dyn(1u)",
        "dyn(1.0)",
        "dyn(null)",
        "dyn([1, 2])",
        'dyn({"model": 1})',
        'dyn(b"x")',
        "dyn(device)",
        'dyn("A100").split("1")',
    ),
}
_SHORT = {"B": "true", "U": 'device.attributes["gpu.example.com"].x', "T": '"A100"', "I": "1"}
_PLACE = re.compile(r"\{(\w+)\}")


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Return a selector; nearly all compile, and the attributes that they read may be of any type."""
    left = draw(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 24]))

    def expand(symbol: str) -> str:
        nonlocal left
        left -= 1
        if left < 0 and symbol in _SHORT:
            return _SHORT[symbol]
        template = draw(st.sampled_from(GRAMMAR[symbol]))
        return _PLACE.sub(lambda found: expand(found[1]) if found[1] in GRAMMAR else found[0], template)

    return expand("B")
