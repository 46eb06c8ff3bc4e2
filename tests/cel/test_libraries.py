"""Every library of the environment, by examples from the CEL specification and the Kubernetes documentation."""

import pytest

from apportion.cel import compile_selector
from apportion.errors import SelectorError
from tests.cel.devices import device

TRUE = """
# arithmetic
1 + 2 * 3 == 7
7 / -2 == -3
-7 % 3 == -1
5u - 3u == 2u
1.5 + 1.5 == 3.0
1.0 / 0.0 == double("Infinity")
-(-5) == 5
--5 == 5
0x10 == 16
[1] + [2] == [1, 2]
b"a" + b"b" == b"ab"
'a' + "b" == r'ab'
'''a''' == "a"
# numbers compare across types
dyn(1) == 1.0 && dyn(1.5) != 1
dyn(1) == 1u
1 < 1.5
dyn(2u) > 1
1u in [1u, 2u]
dyn(1) in [1u]
dyn(1.0) in [1, 2]
# beside a double, numbers of more than 53 bits compare as doubles, but for those that a constant list is hashed under
dyn(9007199254740993) == 9007199254740992.0 && 9007199254740992.0 == dyn(9007199254740993)
!(9007199254740993 > 9007199254740992.0) && 9007199254740993 <= 9007199254740992.0
dyn(9223372036854775807) == 9223372036854775808.0 && dyn(18446744073709551615u) == 18446744073709551616.0
dyn(9007199254740993) != 9007199254740992 && dyn(9007199254740993u) != 9007199254740992
[9007199254740993] == [dyn(9007199254740992.0)] && [9007199254740993].indexOf(dyn(9007199254740992.0)) == 0
dyn(9007199254740992.0) in [9007199254740993] && !(dyn(9007199254740993) in [9007199254740992.0])
!(dyn(-9223372036854775808) in [-9223372036854775808.0]) && dyn(-9223372036854775807) in [-9223372036854775807]
!(dyn(9007199254740992.0) in {9007199254740993: 1}) && dyn(9007199254740992.0) in {9007199254740992: 1}
lists.range(9223372036854775807) == [] || true
18446744073709551615u % 1u == 0u && -9223372036854775807 % -1 == 0
# strings and escapes
"\\x41\\u00e9\\U0001F600\\101" == "A\u00e9\U0001f600A"
"\\a\\b\\f\\n\\r\\t\\v\\?\\`\\'\\\"".size() == 11
size("\U0001f600") == 1
b'\\xff' == b"\\377"
string(b"abc") == "abc"
bytes("\u00e9").size() == 2
# conversions
int("42") == 42 && int(3.9) == 3 && int(-3.9) == -3 && int(7u) == 7
uint("7") == 7u && uint(3.9) == 3u
double("1e3") == 1000.0 && double(2) == 2.0
string(1.0) == "1" && string(1.5) == "1.5" && string(1e21) == "1e+21" && string(0.00001) == "1e-05"
string(1e6) == "1e+06" && string(12345678.9) == "1.23456789e+07" && string(123456.0) == "123456"
string(true) == "true" && bool("TRUE") && !bool("f")
string(-5) == "-5" && string(5u) == "5"
type(1) == int && type("a") == string && type(type(1)) == type
type(1u) == uint && type(null) == null_type && type([]) == list && type({}) == map
type(timestamp(0)) == google.protobuf.Timestamp && type(duration("1s")) == google.protobuf.Duration
type(ip("::1")) == net.IP
# macros
[1, 2, 3].all(x, x > 0) && ![1, 2, 3].all(x, x > 1)
[1, 2, 3].exists(x, x == 2) && ![].exists(x, true)
[1, 2, 3].exists_one(x, x > 2) && ![1, 2, 3].existsOne(x, x > 1)
[1, 2, 3].map(x, x * 2) == [2, 4, 6]
[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]
[1, 2, 3].filter(x, x > 1) == [2, 3]
{"a": 1, "b": 2}.all(k, k in ["a", "b"])
{"a": 1}.map(k, k) == ["a"]
[[1], [2]].map(x, x[0]) == [1, 2]
has({"a": 1}.a) && !has({"a": 1}.b)
# two variables
[1, 2].all(i, v, v == i + 1)
["a", "b"].exists(i, v, i == 1 && v == "b")
{"a": 1, "b": 2}.existsOne(k, v, v == 2)
[1, 2].transformList(i, v, i * v) == [0, 2]
[1, 2, 3].transformList(i, v, i > 0, v) == [2, 3]
{"a": 1}.transformMap(k, v, v + 1) == {"a": 2}
{"a": 1, "b": 2}.transformMap(k, v, v > 1, v) == {"b": 2}
["x", "y"].transformMap(i, v, v) == {0: "x", 1: "y"}
{"a": "b"}.transformMapEntry(k, v, {v: k}) == {"b": "a"}
{"a": "b", "c": "d"}.transformMapEntry(k, v, k == "c", {v: k}) == {"d": "c"}
# cel.bind
cel.bind(x, 5, x + x) == 10
cel.bind(x, 1 / 0, true)
cel.bind(x, 1 / 0, x == 1 || true)
cel.bind(x, [1], cel.bind(y, x, y[0] == 1))
# optionals
optional.of(1).hasValue() && !optional.none().hasValue()
optional.of(1).value() == 1 && optional.none().orValue(2) == 2
optional.ofNonZeroValue("").orValue("x") == "x" && optional.ofNonZeroValue(1).value() == 1
optional.none().or(optional.of(3)).value() == 3
optional.of(1).or(optional.of(1 / 0)).value() == 1
optional.of(1).orValue(1 / 0) == 1
{"a": 1}.?a.value() == 1 && !{"a": 1}.?b.hasValue()
{"a": {"b": 2}}.?a.?b == optional.of(2) && {"a": {"b": 2}}.?a.b.orValue(0) == 2
[1, 2][?1].value() == 2 && ![1, 2][?2].hasValue()
[?{"a": 1}.?a, ?{"a": 1}.?b] == [1]
{?"x": optional.none(), ?"y": optional.of(1)} == {"y": 1}
optional.of(2).optMap(x, x * 2).value() == 4 && !optional.none().optMap(x, x).hasValue()
optional.of(2).optFlatMap(x, optional.of(x + 1)).value() == 3
optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.of(1)].unwrapOpt() == [1]
[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue()
# strings library
"hello".charAt(4) == "o" && "hello".charAt(5) == ""
"hello mellow".indexOf("ello") == 1 && "hello mellow".indexOf("jello") == -1
"hello mellow".indexOf("") == 0 && "hello mellow".indexOf("ello", 2) == 7
"hello mellow".lastIndexOf("ello") == 7 && "hello mellow".lastIndexOf("ello", 6) == 1
"hello".lastIndexOf("") == 5
"TacoCat".lowerAscii() == "tacocat" && "Taco\u00c9".lowerAscii() == "taco\u00c9"
"tacoCat".upperAscii() == "TACOCAT"
["hello", "world"].join(" ") == "hello world" && [].join() == "" && ["a", "b"].join() == "ab"
"hello hello".replace("he", "we") == "wello wello" && "hello hello".replace("he", "we", 1) == "wello hello"
"hello hello".replace("he", "we", 0) == "hello hello" && "ab".replace("", "-") == "-a-b-"
"hello hello hello".split(" ") == ["hello", "hello", "hello"] && "abc".split("") == ["a", "b", "c"]
"a b c".split(" ", 2) == ["a", "b c"] && "a b".split(" ", 0) == [] && "a b".split(" ", -1) == ["a", "b"]
"abc".split("", 2) == ["a", "bc"]
"tacocat".substring(4) == "cat" && "tacocat".substring(0, 4) == "taco" && "abc".substring(3) == ""
"  \\ttrim\\n ".trim() == "trim"
strings.quote('a "b"\\n') == "\\"a \\\\\\"b\\\\\\"\\\\n\\""
"abc".contains("b") && "abc".startsWith("ab") && "abc".endsWith("bc") && "abc".contains("")
# format
"%s is %d".format(["x", 3]) == "x is 3"
"%.2f %b %x %X %o %%".format([1.5, 5, 255, 255, 8]) == "1.50 101 ff FF 10 %"
"%s %s".format([[1, "a", 1.5], {"k": true}]) == '[1, "a", 1.500000] {"k":true}'
"%s".format([null]) == "null" && "%s".format([b"xyz"]) == "xyz" && "%s".format([1.0]) == "1"
"%x %X".format(["hi", b"hi"]) == "6869 6869" && "%b".format([true]) == "1"
"%e".format([1052.032911275]) == "1.052033\u202f\u00d7\u202f10\u2070\u00b3"
"%.3e".format([0.00012]) == "1.200\u202f\u00d7\u202f10\u207b\u2070\u2074"
"%s %s".format([duration("90s"), timestamp("2020-01-01T00:00:00Z")]) == "90s 2020-01-01T00:00:00Z"
"%s".format([[duration("1h")]]) == '[duration("3600s")]'
"%s".format([string]) == "string"
# lists
[1, 2, 3].isSorted() && !["b", "a"].isSorted() && [].isSorted()
[1, 2].sum() == 3 && [1.5, 1.5].sum() == 3.0 && [duration("1m"), duration("1s")].sum() == duration("61s")
[1, 3, 2].max() == 3 && [1, 3, 2].min() == 1 && ["a", "b"].max() == "b"
[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [1].indexOf(5) == -1
[1, 2, 3].includes(2) && ![1, 2, 3].includes(4) && "model-a".includes("model-a")
[1, 2, 3, 4].slice(1, 3) == [2, 3]
[[1], [2, 3]].flatten() == [1, 2, 3] && [[[1]]].flatten() == [[1]]
[[[1]], [[2]]].flatten(2) == [1, 2] && [[[1]]].flatten(0) == [[[1]]]
[3, 1, 2].sort() == [1, 2, 3] && ["b", "a"].sort() == ["a", "b"]
["ccc", "a", "bb"].sortBy(x, x.size()) == ["a", "bb", "ccc"] && [1, 2, 3].sortBy(x, -x) == [3, 2, 1]
[1, 2, 2, 3, 3].distinct() == [1, 2, 3] && [1, 2].reverse() == [2, 1]
lists.range(3) == [0, 1, 2] && lists.range(0) == []
# sets
sets.contains([1, 2], [2]) && !sets.contains([1], [2]) && sets.contains([1], [])
sets.equivalent([1, 1, 2], [2, 1]) && !sets.equivalent([1], [1, 2])
sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [])
# regex
"abc 123".find('[0-9]+') == "123" && "abc".find("[0-9]+") == ""
"123 abc 456".findAll('[0-9]+') == ["123", "456"] && "123 abc 456".findAll('[0-9]+', 1) == ["123"]
"123 abc 456".findAll('xyz') == [] && "foobar".matches("^fo+") && matches("foobar", "o{2}")
!"foobar".matches("^bar") && "a\\nb".matches("(?m)^b$") && !"a\\nb".matches("^b$")
"NVIDIA H100".size() <= 64 && "NVIDIA H100".matches("^[\\\\p{L}0-9 ]+$") && "Ä".matches("^[\\\\p{L}0-9 ]{1,16}$")
# quantity
quantity("1Gi") == quantity("1024Mi") && quantity("200M").compareTo(quantity("0.2G")) == 0
quantity("50Mi").isGreaterThan(quantity("50M")) && quantity("50M").isLessThan(quantity("100M"))
isQuantity("1.3G") && !isQuantity("1,3G") && sign(quantity("-5")) == -1 && sign(quantity("0")) == 0
quantity("50k").add(quantity("20k")) == quantity("70k") && quantity("50k").sub(20000) == quantity("30k")
quantity("50k").add(20) == quantity("50020") && quantity("50k").asInteger() == 50000
quantity("50000000G").isInteger() && !quantity("1.5").isInteger() && !quantity("100m").isInteger()
quantity("50.703k").asApproximateFloat() == 50703.0
# semver
semver("1.2.3").major() == 1 && semver("1.2.3").minor() == 2 && semver("1.2.3-rc.1+b").patch() == 3
semver("1.2.3").isGreaterThan(semver("1.2.3-rc.1")) && semver("0.9.0").isLessThan(semver("0.10.0"))
semver("1.2.3").compareTo(semver("0.1.2")) == 1 && semver("1.0.0+a") == semver("1.0.0+b")
isSemver("1.0.0") && !isSemver("v1.0") && isSemver("v1.0", true) && !isSemver("v1.0-rc", true)
semver("v01.01", true) == semver("1.1.0") && semver("1", true).minor() == 0
!isSemver("1.0.0-18446744073709551616") && isSemver("1.0.0-18446744073709551615+18446744073709551616")
semver("18446744073709551615.9223372036854775808.0").major() == -1 && semver("0.0.9223372036854775807").patch() > 0
# durations and timestamps
duration("1h30m") == duration("5400s") && duration("-1.5h").getMinutes() == -90
duration("1500ms").getSeconds() == 1 && duration("1500ms").getMilliseconds() == 1500
string(duration("1.5s")) == "1.5s" && duration("1s") < duration("2s")
timestamp("2023-12-25T12:30:45Z") + duration("1h") == timestamp("2023-12-25T13:30:45Z")
timestamp("2023-12-25T12:00:00+02:00") == timestamp("2023-12-25T10:00:00Z")
timestamp("2023-12-25T00:00:00Z").getFullYear() == 2023 && timestamp("2023-12-25T00:00:00Z").getMonth() == 11
timestamp("2023-12-25T00:00:00Z").getDate() == 25 && timestamp("2023-12-25T00:00:00Z").getDayOfMonth() == 24
timestamp("2023-12-25T00:00:00Z").getDayOfWeek() == 1 && timestamp("2023-12-25T00:00:00Z").getDayOfYear() == 358
timestamp("2023-12-25T12:00:00Z").getHours("+02:00") == 14 && timestamp("2023-12-25T00:00:00.5Z").getMilliseconds() == 500
string(timestamp(0)) == "1970-01-01T00:00:00Z" && int(timestamp("1970-01-01T00:01:00Z")) == 60
timestamp("2020-01-01T00:00:02Z") - timestamp("2020-01-01T00:00:00Z") == duration("2s")
# network
ip("127.0.0.1").family() == 4 && ip("::1").family() == 6 && ip("::1").isLoopback()
isIP("192.168.0.1") && !isIP("192.168.0.256") && !isIP("::ffff:1.2.3.4") && !isIP("fe80::1%eth0") && !isIP("01.2.3.4")
ip.isCanonical("2001:db8::abcd") && !ip.isCanonical("2001:DB8::ABCD")
ip("0.0.0.0").isUnspecified() && ip("224.0.0.1").isLinkLocalMulticast() && !ip("224.0.1.1").isLinkLocalMulticast()
ip("169.254.1.1").isLinkLocalUnicast() && ip("fe80::1").isLinkLocalUnicast() && ip("ff02::1").isLinkLocalMulticast()
ip("192.168.0.1").isGlobalUnicast() && !ip("255.255.255.255").isGlobalUnicast() && !ip("ff00::1").isGlobalUnicast()
ip("10.0.0.1") == ip("10.0.0.1") && string(ip("::1")) == "::1"
cidr("192.168.0.0/24").containsIP("192.168.0.1") && !cidr("192.168.0.0/24").containsIP(ip("192.168.1.1"))
cidr("192.168.0.0/16").containsCIDR("192.168.10.0/24") && !cidr("192.168.10.0/24").containsCIDR(cidr("192.168.0.0/16"))
cidr("192.168.0.1/24").masked() == cidr("192.168.0.0/24") && cidr("::1/128").prefixLength() == 128
cidr("192.168.0.1/24").ip() == ip("192.168.0.1") && isCIDR("10.0.0.0/8") && !isCIDR("10.0.0.0/33")
string(cidr("10.0.0.0/8")) == "10.0.0.0/8" && cidr("192.168.0.1/24") != cidr("192.168.0.0/24")
# url
url("https://example.com:80/path?k=v").getScheme() == "https" && url("/path").getScheme() == ""
url("https://example.com:80/").getHost() == "example.com:80" && url("https://example.com:80/").getPort() == "80"
url("https://[::1]:80/").getHostname() == "::1" && url("https://example.com/").getHostname() == "example.com"
url("https://example.com/path with spaces/").getEscapedPath() == "/path%20with%20spaces/"
url("https://example.com").getEscapedPath() == "" && url("https://example.com").getPort() == ""
url("https://e.com/p?k1=a&k2=b&k2=c").getQuery() == {"k1": ["a"], "k2": ["b", "c"]}
url("https://e.com/p?key with spaces=value with spaces").getQuery() == {"key with spaces": ["value with spaces"]}
isURL("https://user:pass@example.com:80/path?query=val#fragment") && isURL("/absolute-path")
!isURL("https://a:b:c/") && !isURL("../relative-path") && !isURL("") && !isURL("https://example.com/%zz")
# named formats
!format.dns1123Label().validate("my-label").hasValue() && format.dns1123Label().validate("My_Label").hasValue()
format.named("dns1123Label").hasValue() && !format.named("unknown").hasValue()
!format.named("uuid").value().validate("123e4567-e89b-12d3-a456-426614174000").hasValue()
!format.qualifiedName().validate("apiextensions.k8s.io/v1beta1").hasValue()
format.qualifiedName().validate("/x").hasValue() && !format.labelValue().validate("").hasValue()
!format.dns1123SubdomainPrefix().validate("mysubdomain.prefix.-").hasValue()
!format.date().validate("2021-01-01").hasValue() && format.date().validate("2021-02-30").hasValue()
!format.datetime().validate("2021-01-01T00:00:00Z").hasValue() && format.datetime().validate("2021-01-01").hasValue()
!format.byte().validate("aGVsbG8=").hasValue() && format.byte().validate("hello!").hasValue()
!format.uri().validate("http://example.com").hasValue() && format.uri().validate("x").hasValue()
format.dns1035Label().validate("1a").value().size() == 1
"""

FAILS = """
1 / 0 == 1                                                     | division by zero
1 % 0 == 1                                                     | modulus by zero
(-9223372036854775807 - 1) % -1 == 0                           | integer overflow
9223372036854775807 + 1 == 0                                   | overflow
-(-9223372036854775807 - 1) == 0                               | overflow
0u - 1u == 0u                                                  | overflow
int(1e30 + 0.0) == 1                                                 | overflow
int("x" + "") == 1                                             | type conversion error
[1][1] == 1                                                    | index out of bounds: 1
[1][-1] == 1                                                   | index out of bounds: -1
{"a": 1}["b"] == 1                                             | no such key: b
dyn(1) + dyn("a") == 1                                         | no such overload
dyn(1) < dyn("a")                                              | no such overload
!dyn(1)                                                        | no such overload
dyn(1) ? true : false                                          | no such overload
dyn("ab").exists(x, true)                                      | expected iterable type
[1, 2].filter(x, dyn(x)) == []                                 | no such overload
optional.none().value() == 1                                   | optional.none() dereference
[0].min() == 1 / 0                                             | division by zero
[].max() == dyn(1)                                             | max called on empty list
"abc".charAt(4) == ""                                          | index out of range: 4
"abc".substring(2, 1) == ""                                    | invalid substring range
[1].slice(0, 2) == []                                          | cannot slice
quantity("bad") == quantity("1")                               | is not a quantity
quantity("1.5").asInteger() == 1                               | cannot convert value to integer
quantity("1") == quantity("1").add(0)                          | no such overload
quantity("1") == dyn(1)                                        | no such overload
semver("v1.0") == semver("1.0.0")                              | is not a semantic version
semver("1-rc", true) == semver("1.0.0")                        | short version
dyn(semver("1.0.0")) in ["1.0.0"]                              | unhashable
ip("1.2.3") == ip("1.2.3.4")                                   | parse error
url("../x") == url("/x")                                       | URL parse error
"x".matches(dyn("("))                                          | error parsing regexp
{"a": 1, "a": 2} == {}                                         | already exists
["a"].transformMapEntry(i, v, {"k": v}) == {"k": "b"} && ["a", "b"].transformMapEntry(i, v, {"k": v}) == {} || 1 / 0 > 1 | \
division by zero
lists.range(1000000) == []                                     | actual cost limit exceeded
lists.range(1000001) == []                                     | exceeds maximum allowed (1000000)
lists.range(-1) == []                                          | size must be non-negative, got -1
"""


def lines(table: str) -> list[str]:
    """Return a table's rows."""
    return [line for line in table.replace("\\\n", "").splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("text", lines(TRUE))
def test_what_the_documents_say_holds(text: str) -> None:
    """Both evaluators say true."""
    program = compile_selector(text)
    assert program.match(device()) is True
    assert program.match_precisely(device()) is True


@pytest.mark.parametrize("row", lines(FAILS))
def test_what_fails_fails_with_a_reason(row: str) -> None:
    """A run-time failure is neither match nor no match; the error has a reason."""
    text, reason = (part.strip() for part in row.rsplit("|", 1))
    program = compile_selector(text)
    with pytest.raises(SelectorError, match="CEL runtime error") as caught:
        program.match(device())
    assert reason in str(caught.value)
