"""Selectors at random for the comparison with cel-go: every library of the environment, and devices of all kinds."""

import re
from random import Random
from typing import Any, Final

from tests.cel.generate import GRAMMAR, QUANTITIES, STRINGS, VERSIONS, quoted

_MORE: Final[dict[str, tuple[str, ...]]] = {
    # S: a string. D: a double. N: a uint. L, LI, L2: lists. M: a map. The others are texts that a library reads.
    "B": (
        "({S}.size() {order} {I})",
        "({D} {order} {D})",
        "({N} {order} {N})",
        "({L}.isSorted())",
        "({L}.size() > {int})",
        "{L}.exists(e, e == {U})",
        "{S}.contains({S})",
        "{S}.startsWith({S})",
        "{S}.endsWith({S})",
        "{S}.matches({pattern})",
        "({S} == {S})",
        "({S} {order} {S})",
        "({S} in {L})",
        "isQuantity({S})",
        "isSemver({S})",
        "isIP({S})",
        "isCIDR({S})",
        "isURL({S})",
        "ip.isCanonical({IPS})",
        "(ip({IPS}).family() == {I})",
        "ip({IPS}).isLoopback()",
        "cidr({CIDRS}).containsIP({IPS})",
        "cidr({CIDRS}).containsCIDR({CIDRS})",
        "(cidr({CIDRS}).prefixLength() {order} {I})",
        "(cidr({CIDRS}).masked() == cidr({CIDRS}))",
        "(url({URLS}).getHost() == {S})",
        "(url({URLS}).getPort() == {S})",
        "(url({URLS}).getQuery() == {S})",
        "(url({URLS}).getEscapedPath() == {S})",
        "(url({URLS}).getScheme() == {S})",
        "(url({URLS}).getHostname() == {S})",
        "sets.contains({L}, {L})",
        "sets.intersects({L}, {L})",
        "sets.equivalent({L}, {L})",
        "({L} == {L})",
        "({L} != {L})",
        "({M} == {M})",
        "({S} in {M})",
        "format.dns1123Label().validate({S}).hasValue()",
        "!format.named('uuid').value().validate({S}).hasValue()",
        "!format.dns1123Subdomain().validate({S}).hasValue()",
        "!format.qualifiedName().validate({S}).hasValue()",
        "!format.date().validate({S}).hasValue()",
        "!format.byte().validate({S}).hasValue()",
        "!format.uri().validate({S}).hasValue()",
        "!format.datetime().validate({S}).hasValue()",
        "!format.labelValue().validate({S}).hasValue()",
        "{M}.exists(k, k == {S})",
        "{M}.all(k, v, v == {U})",
        "{L}.all(i, v, i < 3)",
        "{L}.exists(i, v, v == {U})",
        "{L}.existsOne(i, v, v == {U})",
        "({L}.transformList(i, v, i) == {L})",
        "({M}.transformMap(k, v, v) == {M})",
        "({M}.transformMap(k, v, k != {S}, v) == {M})",
        "(type({U}) == {TY})",
        "(timestamp({TS}) {order} timestamp({TS}))",
        "(duration({DU}) {order} duration({DU}))",
        "(timestamp({TS}).getFullYear() {order} {I})",
        "(timestamp({TS}).getDayOfWeek({TZ}) == {I})",
        "((timestamp({TS}) - timestamp({TS})) {order} duration({DU}))",
        "((timestamp({TS}) + duration({DU})) {order} timestamp({TS}))",
        "(duration({DU}).getSeconds() {order} {I})",
        "optional.none().hasValue()",
        "({L}[?{int}].hasValue())",
        "({M}[?{S}].hasValue())",
        "({L}[?{int}].orValue({U}) == {U})",
        "(optional.ofNonZeroValue({U}).hasValue())",
        "({M}.?a.or(optional.of({U})).hasValue())",
        "(optional.of({S}) == optional.of({S}))",
        "(quantity({QS}) {same} quantity({QS}))",
        "(quantity({QS}).compareTo(quantity({QS})) {order} 0)",
        "quantity({QS}).isInteger()",
        "(quantity({QS}).asInteger() {order} {I})",
        "(quantity({QS}).asApproximateFloat() {order} {D})",
        "(quantity({QS}).sign() == {I})",
        "(quantity({QS}).add({I}) {same} quantity({QS}).sub({I}))",
        "(semver({VS}).compareTo(semver({VS})) {order} 0)",
        "semver({VS}).isLessThan(semver({VS}))",
        "(semver({VS}, true).major() == {I})",
        "isSemver({VS}, true)",
        "(semver({VS}).patch() {order} {I})",
        "(bool({S}))",
        "(string({I}) == {S})",
        "(bytes({S}) == b'a')",
        "(bytes({S}) {order} bytes({S}))",
        "(bytes({S}).size() {order} {I})",
    ),
    "I": (
        "{S}.size()",
        "{L}.size()",
        "{S}.indexOf({S2})",
        "{S}.lastIndexOf({S2})",
        "{S}.indexOf({S2}, {int})",
        "int({D})",
        "int({S})",
        "int({N})",
        "({I} * {I})",
        "({I} - {I})",
        "({I} / {I})",
        "({I} % {I})",
        "-{I}",
        "{LI}.sum()",
        "{LI}.min()",
        "{LI}.max()",
        "{LI}.indexOf({I})",
        "math.greatest({I}, {I})",
        "({B} ? {I} : {I})",
        "int(timestamp({TS}))",
    ),
    "S": (
        "{text}",
        "{S2}",
        "device.driver",
        "'abc'",
        "'a,b,c'",
        "{S}.lowerAscii()",
        "{S}.upperAscii()",
        "{S}.replace({S2}, {S2})",
        "{S}.replace('a', 'b', {int})",
        "{S}.substring({int})",
        "{S}.substring({int}, {int})",
        "{S}.trim()",
        "{S}.charAt({int})",
        "{L2}.join('-')",
        "{L2}.join()",
        "{S}.find({pattern})",
        "string({U})",
        "'%s %d'.format([{S}, {I}])",
        "'%s'.format([{U}])",
        "({S} + {S})",
        "{S}.split(',')[0]",
        "string({D})",
        "string(quantity({QS}).asInteger())",
        "string(duration({DU}))",
        "'%.2f %e %x %o %b'.format([{D}, {D}, {I}, {I}, {I}])",
        "string(ip({IPS}))",
        "({B} ? {S} : {S})",
        "strings.quote({S})",
        "{S}.reverse()",
        "device.attributes[{domain}].{name}",
    ),
    "S2": (
        "'a'",
        "''",
        "'1'",
        "'A100'",
        "' x '",
        "'é'",
    ),
    "D": (
        "1.5",
        "0.0",
        "-2.0",
        "1e10",
        "double({I})",
        "double({S})",
        "({D} + {D})",
        "({D} * {D})",
        "({D} / {D})",
        "double('NaN')",
        "[1.5, 2.5].sum()",
        "device.attributes[{domain}].{name}",
    ),
    "N": (
        "1u",
        "0u",
        "18446744073709551615u",
        "uint({I})",
        "uint({D})",
        "({N} + {N})",
        "({N} - {N})",
        "({N} / {N})",
    ),
    "L": (
        "{LI}",
        "{L2}",
        "[]",
        "[{U}, {U}]",
        "{L}.map(e, e)",
        "{L}.filter(e, e != {U})",
        "({L} + {L})",
        "{S}.split(',')",
        "{S}.split(',', {int})",
        "{S}.findAll({pattern})",
        "{S}.findAll({pattern}, {int})",
        "lists.range(3)",
        "{L}.slice(0, {int})",
        "{L}.distinct()",
        "{L}.sort()",
        "{L}.reverse()",
        "{L}.flatten()",
        "device.attributes[{domain}].{name}",
        "[?optional.of({U})]",
        "{LI}.map(e, e > 0, e * 2)",
        "{LI}.sortBy(e, -e)",
    ),
    "LI": (
        "[1, 2, 3]",
        "[3, 1, 2]",
        "[1]",
        "[{I}, {I}]",
    ),
    "L2": (
        "['a', 'b']",
        "['a']",
        "[{S}]",
        "[{S}, {S2}]",
        "['b', 'a']",
    ),
    "M": (
        "{{}}",
        "{{'a': 1}}",
        "{{'a': {U}, 'b': {U}}}",
        "{{{S2}: {U}}}",
        "{{?'a': optional.of({U})}}",
    ),
    "TY": (
        "string",
        "int",
        "bool",
        "double",
        "list",
        "map",
        "type(1)",
        "uint",
        "bytes",
        "null_type",
        "dyn",
        "type({U})",
        "google.protobuf.Timestamp",
    ),
    "IPS": (
        "'127.0.0.1'",
        "'::1'",
        "'10.0.0.1'",
        "'fe80::1'",
        "'bad'",
        "'::ffff:1.2.3.4'",
        "{S}",
    ),
    "CIDRS": (
        "'10.0.0.0/8'",
        "'10.0.0.1/8'",
        "'2001:db8::/32'",
        "'10.0.0.0/33'",
        "{S}",
    ),
    "URLS": (
        "'https://example.com:80/a/b?x=1&y=2'",
        "'/path'",
        "'http://[::1]:443/'",
        "'bad url'",
        "'https://user@host/%20x'",
        "{S}",
    ),
    "TS": (
        "'2024-02-29T12:00:00Z'",
        "'2009-02-13T23:31:30.5+02:00'",
        "'bad'",
        "'0001-01-01T00:00:00Z'",
        "'9999-12-31T23:59:59Z'",
    ),
    "DU": (
        "'1h'",
        "'90s'",
        "'-1.5s'",
        "'1h30m'",
        "'bad'",
        "'100ms'",
        "'1d'",
    ),
    "TZ": (
        "'UTC'",
        "'+02:00'",
        "'America/New_York'",
        "'bad'",
    ),
    "QS": (
        "'bad'",
        "'1e3'",
        "'1E'",
        "'0.5'",
        "'1Gi'",
        "'1024Mi'",
        "'-1'",
        "'999999999999999999999'",
        "'1n'",
        "''",
        "' 1'",
        "'+5'",
        "'.5'",
        "'5.'",
    ),
    "VS": (
        "'bad'",
        "'v1.0.0'",
        "'1'",
        "'1.2'",
        "'01.0.0'",
        "'1.0.0-alpha.1'",
        "'1.0.0-alpha'",
        "'1.0.0+b'",
        "''",
    ),
}
_SHORT: Final = {
    "B": "true",
    "U": 'device.attributes["gpu.example.com"].x',
    "T": '"A100"',
    "I": "1",
    "S": "'a'",
    "D": "1.5",
    "N": "1u",
    "L": "[1]",
    "LI": "[1]",
    "L2": "['a']",
    "M": "{'a': 1}",
}
"""What a symbol becomes when the expression is long enough."""
_TEXTS: Final = {"QS": tuple(map(quoted, QUANTITIES)), "VS": tuple(map(quoted, VERSIONS))}
_SYMBOLS: Final = {
    name: (*GRAMMAR.get(name, ()), *_MORE.get(name, ()), *_TEXTS.get(name, ())) for name in (*GRAMMAR, *_MORE)
}
_PLACE: Final = re.compile(r"\{(\w+)\}")
_DOMAINS: Final = ("gpu.example.com", "other.example.com")
_NAMES: Final = ("model", "x", "class")


def question(seed: int) -> dict[str, Any]:
    """Return a selector and the device that it is asked about; the same seed gives the same."""
    random = Random(seed)  # noqa: S311 - a test's seed
    return {"expression": _expression(random), **_device(random)}


def _expression(random: Random) -> str:
    left = random.choice([1, 2, 3, 4, 6, 8, 12])

    def expand(symbol: str) -> str:
        nonlocal left
        left -= 1
        if left < 0 and symbol in _SHORT:
            return _SHORT[symbol]
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
        "int": lambda: random.choice([-2, 0, 1, 3, 2**63 - 1, -(2**63)]),
        "string": lambda: random.choice(STRINGS),
        "version": lambda: random.choice(VERSIONS),
        "ints": lambda: [random.randrange(4) for _ in range(random.randrange(1, 4))],
        "strings": lambda: [random.choice(STRINGS) for _ in range(random.randrange(1, 4))],
    }
    return {kind: one[kind]()}
