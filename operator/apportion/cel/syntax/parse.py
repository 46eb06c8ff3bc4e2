"""Text to syntax tree. In: a selector's text. Out: a Node; raises SelectorError with line and column.

The builder's methods run while the parser reduces rules, so the depth of an expression costs no recursion here.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, VisitError

from apportion.cel.syntax import literals, tree
from apportion.cel.syntax.grammar import grammar_text, make_parser
from apportion.cel.syntax.macros import expand
from apportion.cel.syntax.tree import BadSyntax, Node
from apportion.errors import SelectorError

LONGEST: Final = 100_000
"""Characters of an expression (cel-go's limit; the API server allows 10,240)."""
DEEPEST: Final = 250
"""Levels of nested expressions (cel-go's parser refuses more)."""
_RESERVED: Final = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while in".split()  # noqa: SIM905
)


class _Builder(Transformer[Token, Node]):
    """One method a rule of the grammar; `children` holds the nodes and tokens of the rule in the order of the text."""

    def expr(self, children: list[Any]) -> Any:
        if len(children) == 1:
            return children[0]
        condition, mark, yes, _, no = children
        at = mark.start_pos
        return tree.Conditional(at, _depth(at, condition, yes, no), condition, yes, no)

    def conditionalor(self, children: list[Any]) -> Any:
        return _logic(children, conjunction=False)

    def conditionaland(self, children: list[Any]) -> Any:
        return _logic(children, conjunction=True)

    def relation(self, children: list[Any]) -> Any:
        if len(children) == 1:
            return children[0]
        (left, token), right = children
        at = token.start_pos
        name = "@in" if token.value == "in" else f"_{token.value}_"
        return tree.Call(at, _depth(at, left, right), name, None, (left, right))

    addition = relation
    multiplication = relation

    def _pair(self, children: list[Any]) -> tuple[Node, Token]:
        return children[0], children[1]

    relation_lt = relation_le = relation_gt = relation_ge = relation_eq = relation_ne = relation_in = _pair
    addition_add = addition_sub = _pair
    multiplication_mul = multiplication_div = multiplication_mod = _pair

    def unary(self, children: list[Any]) -> Any:
        if len(children) == 1:
            return children[0]
        token, operand = children
        at = token.start_pos
        if isinstance(operand, tree.Repeated) and operand.operator == token.value:
            return tree.Repeated(at, operand.depth, token.value, operand.times + 1, operand.operand)
        return tree.Repeated(at, _depth(at, operand), token.value, 1, operand)

    def _first(self, children: list[Any]) -> Any:
        return children[0]

    unary_not = unary_neg = member = primary = item = _first

    def member_dot(self, children: list[Any], *, optional: bool = False) -> Node:
        operand, dot, name = children
        at = dot.start_pos
        return tree.Select(at, _depth(at, operand), operand, _field(name), optional=optional)

    def member_opt_dot(self, children: list[Any]) -> Node:
        return self.member_dot(children, optional=True)

    def member_dot_arg(self, children: list[Any]) -> Node:
        target, _, name, bracket, *rest = children
        args = rest[0] if len(rest) == 2 else ()
        return _call(bracket.start_pos, name.value, target, args)

    def member_index(self, children: list[Any]) -> Node:
        return _index(children, "_[_]")

    def member_opt_index(self, children: list[Any]) -> Node:
        return _index(children, "_[?_]")

    def member_object(self, children: list[Any]) -> Node:
        raise BadSyntax(
            children[1].start_pos, "undeclared reference: message types cannot be constructed here"
        )

    def ident(self, children: list[Any]) -> Node:
        return _ident(children[0])

    def dot_ident(self, children: list[Any]) -> Node:
        return _ident(children[1])

    def ident_arg(self, children: list[Any]) -> Node:
        name, bracket, *rest = children
        args = rest[0] if len(rest) == 2 else ()
        return _call(bracket.start_pos, _ident(name).name, None, args)

    def dot_ident_arg(self, children: list[Any]) -> Node:
        return self.ident_arg(children[1:])

    def paren_expr(self, children: list[Any]) -> Any:
        return children[1]

    def _nodes(self, children: list[Any]) -> tuple[Any, ...]:
        return tuple(child for child in children if not isinstance(child, Token))

    exprlist = items = mapinits = _nodes

    def opt_item(self, children: list[Any]) -> tuple[Node]:
        return (children[1],)

    def opt_list_lit(self, children: list[Any]) -> Node:
        first, *rest = (child for child in children[1:] if not isinstance(child, Token))
        return _list(children[0].start_pos, ((first,), *rest))

    def list_lit(self, children: list[Any]) -> Any:
        if not isinstance(children[0], Token):
            return children[0]
        return _list(_at(children[0]), children[1] if len(children) == 3 else ())

    def entry(self, children: list[Any]) -> Any:
        if len(children) == 1:
            return children[0]
        return children[0], children[2], False

    def opt_entry(self, children: list[Any]) -> tuple[Node, Node, bool]:
        return children[1], children[3], True

    def map_lit(self, children: list[Any]) -> Node:
        at = children[0].start_pos
        entries = children[1] if len(children) == 3 else ()
        return tree.MapLiteral(at, _depth(at, *(node for row in entries for node in row[:2])), entries)

    def literal(self, children: list[Any]) -> Node:
        token = children[0]
        try:
            value = _LITERALS[token.type](token.value)
        except ValueError as error:
            raise BadSyntax(token.start_pos, f"Syntax error: {error}") from None
        return tree.Const(token.start_pos, 1, value)


_LITERALS: Final[dict[str, Callable[[str], Any]]] = {
    "INT_LIT": literals.integer,
    "UINT_LIT": literals.unsigned,
    "FLOAT_LIT": float,
    "STRING_LIT": literals.string,
    "MLSTRING_LIT": literals.string,
    "BYTES_LIT": literals.data,
    "BOOL_LIT": lambda text: text == "true",
    "NULL_LIT": lambda _: None,
}


grammar_text()  # Fails here, on import, when the patches do not fit the installed grammar.


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return make_parser(_Builder())


def parse(text: str) -> Node:
    """Read a selector; raises SelectorError naming line and column."""
    if len(text) > LONGEST:
        raise SelectorError(f"compilation failed: the expression has more than {LONGEST} characters")
    try:
        found: Node = _parser().parse(text)  # type: ignore[assignment]  # the builder returns nodes, not trees
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    except VisitError as error:  # pragma: no cover - lark wraps only when it walks trees
        raise SelectorError(f"compilation failed: {error.orig_exc}") from None
    except BadSyntax as error:
        raise error_at(text, error.at, error.reason) from None
    return found


def error_at(text: str, at: int, reason: str) -> SelectorError:
    """Return the compile error for a place in the text."""
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return SelectorError(f"compilation failed: <input>:{line}:{column}: {reason}")


def _syntax_error(text: str, error: UnexpectedInput) -> SelectorError:
    place: int | None = getattr(error, "pos_in_stream", None)
    at = place if place is not None and place >= 0 and text.strip() else len(text)
    if isinstance(error, UnexpectedCharacters):
        what = f"token recognition error at: {text[at : at + 1]!r}"
    else:
        token = getattr(error, "token", None)
        seen = "<EOF>" if token is None or token.type == "$END" else str(token)[:40]
        at = len(text) if seen == "<EOF>" else at
        what = f"mismatched input {seen!r}"
    return error_at(text, at, f"Syntax error: {what}")


def _at(token: Token) -> int:
    return token.start_pos or 0


def _depth(at: int, *inner: Node) -> int:
    depth = 1 + max((node.depth for node in inner), default=0)
    if depth > DEEPEST:
        raise BadSyntax(at, f"expression recursion limit exceeded: {DEEPEST}")
    return depth


def _logic(children: list[Any], *, conjunction: bool) -> Any:
    if len(children) == 1:
        return children[0]
    left, token, right = children
    args: list[Node] = []
    for side in (left, right):
        args.extend(
            side.args if isinstance(side, tree.Logic) and side.conjunction is conjunction else (side,)
        )
    return tree.Logic(token.start_pos, _depth(token.start_pos, *args), conjunction, tuple(args))


def _list(at: int, items: tuple[Any, ...]) -> Node:
    nodes = tuple(item[0] if isinstance(item, tuple) else item for item in items)
    optional = frozenset(index for index, item in enumerate(items) if isinstance(item, tuple))
    return tree.ListLiteral(at, _depth(at, *nodes), nodes, optional)


def _index(children: list[Any], name: str) -> Node:
    operand, bracket, index, _ = children
    at = bracket.start_pos
    return tree.Call(at, _depth(at, operand, index), name, None, (operand, index))


def _field(token: Token) -> str:
    return token.value[1:-1] if token.type == "QUOTED_IDENT" else str(token.value)


def _ident(token: Token) -> tree.Ident:
    if token.value in _RESERVED:
        raise BadSyntax(_at(token), f"Syntax error: reserved identifier: {token.value}")
    return tree.Ident(_at(token), 1, str(token.value))


def _call(at: int, name: str, target: Node | None, args: tuple[Node, ...]) -> Node:
    nodes = args if target is None else (target, *args)
    depth = _depth(at, *nodes)
    return expand(at, depth, name, target, args) or tree.Call(at, depth, name, target, args)
