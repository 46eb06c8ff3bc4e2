"""Macros: calls that bind variables or depend on the syntax of their arguments.

In: a call as parsed. Out: the macro's node, None for a call of a function.
"""

from typing import Final

from apportion.cel.syntax.tree import BadSyntax, Ident, Macro, Node, Select

_RECEIVER: Final = {
    # (name, number of arguments): (kind, how many of the arguments are variables)
    ("all", 2): ("all", 1),
    ("exists", 2): ("exists", 1),
    ("exists_one", 2): ("exists_one", 1),
    ("existsOne", 2): ("exists_one", 1),
    ("map", 2): ("map", 1),
    ("map", 3): ("map_if", 1),
    ("filter", 2): ("filter", 1),
    ("all", 3): ("all", 2),
    ("exists", 3): ("exists", 2),
    ("exists_one", 3): ("exists_one", 2),
    ("existsOne", 3): ("exists_one", 2),
    ("transformList", 3): ("transform_list", 2),
    ("transformList", 4): ("transform_list_if", 2),
    ("transformMap", 3): ("transform_map", 2),
    ("transformMap", 4): ("transform_map_if", 2),
    ("transformMapEntry", 3): ("transform_entry", 2),
    ("transformMapEntry", 4): ("transform_entry_if", 2),
    ("optMap", 2): ("opt_map", 1),
    ("optFlatMap", 2): ("opt_flat_map", 1),
    ("sortBy", 2): ("sort_by", 1),
}


def expand(at: int, depth: int, name: str, target: Node | None, args: tuple[Node, ...]) -> Node | None:
    """Return the macro that this call stands for, None for a call of a function; raises BadSyntax."""
    if target is None:
        return _has(args[0]) if name == "has" and len(args) == 1 else None
    if name == "bind" and len(args) == 3 and isinstance(target, Ident) and target.name == "cel":
        variable, init, body = args
        return Macro(at, depth, "bind", init, (_name(variable, "cel.bind() variable names"),), (body,))
    found = _RECEIVER.get((name, len(args)))
    if found is None:
        return None
    kind, variables = found
    names = tuple(_name(arg, "argument") for arg in args[:variables])
    if len(set(names)) != len(names):
        raise BadSyntax(args[1].at, f"duplicate variable name: {names[1]}")
    return Macro(at, depth, kind, target, names, args[variables:])


def _has(arg: Node) -> Node:
    if isinstance(arg, Select) and not arg.test and not arg.optional:
        return Select(arg.at, arg.depth, arg.operand, arg.field, test=True)
    raise BadSyntax(arg.at, "invalid argument to has() macro")


def _name(arg: Node, what: str) -> str:
    if not isinstance(arg, Ident):
        raise BadSyntax(
            arg.at, f"{what} must be a simple name" if what == "argument" else f"{what} must be simple names"
        )
    if arg.name in ("__result__", "@result"):
        raise BadSyntax(arg.at, f"iteration variable overwrites accumulator variable: {arg.name}")
    return arg.name
