"""Reduced grammar rules to nodes. In: what lark's parser has read of a rule. Out: a Node; raises BadSyntax.

The methods run while the parser reduces rules, so the depth of an expression costs no recursion here.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from lark import Lark, Token, Transformer

from apportion.cel.syntax import literals, tree
from apportion.cel.syntax.grammar import make_parser
from apportion.cel.syntax.macros import expand
from apportion.cel.syntax.tree import BadSyntax, Node

DEEPEST: Final = 250
"""Levels of nested expressions (cel-go's parser refuses more)."""
_RESERVED: Final = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while in".split()  # noqa: SIM905
)


class _Builder(Transformer[Token, Node]):
    """One method a rule of the grammar; `children` holds the nodes and tokens of the rule in the order of the text."""

    def expr(self, children: list[Any]) -> Node:
        if len(children) == 1:
            node: Node = children[0]
            return node
        condition, mark, yes, _, no = children
        return tree.Conditional(
            mark.start_pos, _depth(mark.start_pos, condition, yes, no), condition, yes, no
        )

    def conditionalor(self, children: list[Any]) -> Node:
        return _logic(children, conjunction=False)

    def conditionaland(self, children: list[Any]) -> Node:
        return _logic(children, conjunction=True)

    def relation(self, children: list[Any]) -> Node:
        if len(children) == 1:
            node: Node = children[0]
            return node
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

    def unary(self, children: list[Any]) -> Node:
        if len(children) == 1:
            node: Node = children[0]
            return node
        token, operand = children
        at = token.start_pos
        if isinstance(operand, tree.Repeated) and operand.operator == token.value:
            return tree.Repeated(at, operand.depth, token.value, operand.times + 1, operand.operand)
        return tree.Repeated(at, _depth(at, operand), token.value, 1, operand)

    def _first(self, children: list[Any]) -> Any:
        return children[0]

    unary_not = unary_neg = member = primary = item = _first

    def member_dot(self, children: list[Any]) -> Node:
        operand, dot, name = children
        return tree.Select(dot.start_pos, _depth(dot.start_pos, operand), operand, _field(name))

    def member_opt_dot(self, children: list[Any]) -> Node:
        operand, dot, name = children
        return tree.Select(
            dot.start_pos, _depth(dot.start_pos, operand), operand, _field(name), optional=True
        )

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

    def paren_expr(self, children: list[Any]) -> Node:
        node: Node = children[1]
        return node

    def _nodes(self, children: list[Any]) -> tuple[Any, ...]:
        return tuple(child for child in children if not isinstance(child, Token))

    exprlist = items = mapinits = _nodes

    def opt_item(self, children: list[Any]) -> tuple[Node]:
        return (children[1],)

    def opt_list_lit(self, children: list[Any]) -> Node:
        first, *rest = (child for child in children[1:] if not isinstance(child, Token))
        return _list(children[0].start_pos, ((first,), *rest))

    def list_lit(self, children: list[Any]) -> Node:
        if not isinstance(children[0], Token):
            node: Node = children[0]
            return node
        return _list(_at(children[0]), children[1] if len(children) == 3 else ())

    def entry(self, children: list[Any]) -> tuple[Node, Node, bool]:
        if len(children) == 1:
            found: tuple[Node, Node, bool] = children[0]
            return found
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


@lru_cache(maxsize=1)
def parser() -> Lark:
    """Return the parser of selectors; it returns nodes instead of lark's trees."""
    return make_parser(_Builder())


def _at(token: Token) -> int:
    return token.start_pos or 0


def _depth(at: int, *inner: Node) -> int:
    depth = 1 + max((node.depth for node in inner), default=0)
    if depth > DEEPEST:
        raise BadSyntax(at, f"expression recursion limit exceeded: {DEEPEST}")
    return depth


def _logic(children: list[Any], *, conjunction: bool) -> Node:
    if len(children) == 1:
        node: Node = children[0]
        return node
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
