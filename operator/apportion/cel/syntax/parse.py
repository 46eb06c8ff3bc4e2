"""Text to syntax tree. In: a selector's text. Out: a Node; raises SelectorError with line and column."""

from typing import Final

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, VisitError

from apportion.cel.syntax.builder import parser
from apportion.cel.syntax.grammar import grammar_text
from apportion.cel.syntax.tree import BadSyntax, Node
from apportion.errors import SelectorError

LONGEST: Final = 100_000
"""Characters of an expression (cel-go's limit; the API server allows 10,240)."""

grammar_text()  # Fails here, on import, when the patches do not fit the installed grammar.


def parse(text: str) -> Node:
    """Read a selector; raises SelectorError naming line and column."""
    if len(text) > LONGEST:
        raise SelectorError(f"compilation failed: the expression has more than {LONGEST} characters")
    try:
        found: Node = parser().parse(text)  # type: ignore[assignment]  # the builder returns nodes, not trees
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
