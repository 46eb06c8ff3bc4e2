"""CEL selectors of devices: a selector's text becomes a program, which returns match, no match or an error for a device.

The steps, in the order in which a text takes them, and the package of each:

1. parse: `syntax` turns the text into a tree (`grammar` patches cel-python's grammar, `parse` makes the nodes of `tree` and
   reports syntax errors with line and column, `literals` reads constants, `macros` expands macros).
2. check: `check.checker` gives every node a type and every call its possible overloads, out of the functions that `library`
   declares (`library.environment` lists the libraries of DRA); `check.checked` folds constants; `check.reads` finds which
   attributes and capacities the selector can read.
3. program: `evaluate.precise` compiles the checked tree to closures, with CEL's exact semantics and costs. Where the bound of
   `fast.cost` is below CEL's cost limit, `fast.compiler` also writes the selector as one Python expression: `fast.writer`
   writes nodes, `fast.calls` the operators and functions with a fast form, `fast.fragments` holds the names they use.
4. evaluate: `Program.match` runs the fast form; where there is none, or it raises, the precise form decides.

`values` and `types` are CEL's values and static types. `program` also holds the cache of programs by text, which `kept` bounds. Imports point from the end of this
list to its start.
"""

from apportion.cel.program import Program, Programs, compile_selector

__all__ = ["Program", "Programs", "compile_selector"]
