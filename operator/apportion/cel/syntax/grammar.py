"""The grammar of selectors: cel-python's, with the additions that DRA selectors need. Out: a lark parser.

Every replaced rule is compared with the text that it had when the replacement was written; when a release of cel-python
changes one of them, the import fails.
"""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from lark import Lark, Token

_THEIRS: Final = r'''
member         : member_dot | member_dot_arg | member_index | member_object | primary
member_dot     : member "." IDENT
list_lit       : "[" [exprlist] "]"
mapinits       : expr ":" expr ("," expr ":" expr)*
FLOAT_LIT      : /-?/ DIGIT+ "." DIGIT* EXPONENT? | /-?/ DIGIT* "." DIGIT+ EXPONENT? | /-?/ DIGIT+ EXPONENT
STRING_LIT     : /[rR]?"(?:\\[abfnrtv"'\\]|\\\d{3}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4-8}|.)*?"/
               | /[rR]?'(?:\\[abfnrtv"'\\]|\\\d{3}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|.)*?'/
MLSTRING_LIT   : /[rR]?"""(?:\\[abfnrtv"'\\]|\\\d{3}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4-8}|\r\n|\r|\n|.)*?"""/
               | /[rR]?\'\'\'(?:\\[abfnrtv"'\\]|\\\d{3}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\r\n|\r|\n|.)*?\'\'\'/
BYTES_LIT      : /[bB]/ MLSTRING_LIT | /[bB]/ STRING_LIT
'''.replace(r"\'", "'")  # fmt: skip

# Added: optional look-ups and entries, field names in backticks, trailing commas in literals. Required: digits after a
# point. Strings are only delimited here; `literals` reads their escapes.
_OURS: Final = r'''
member         : member_dot | member_dot_arg | member_index | member_object | primary
               | member_opt_dot | member_opt_index
member_dot     : member "." (IDENT | QUOTED_IDENT)
list_lit       : "[" [items] "]" | opt_list_lit
mapinits       : entry ("," entry)* ","?
FLOAT_LIT      : /-?/ DIGIT+ "." DIGIT+ EXPONENT? | /-?/ DIGIT* "." DIGIT+ EXPONENT? | /-?/ DIGIT+ EXPONENT
STRING_LIT.5   : /[rR]"[^"\r\n]*"/ | /[rR]'[^'\r\n]*'/
               | /"(?:[^"\\\r\n]|\\.)*"/ | /'(?:[^'\\\r\n]|\\.)*'/
MLSTRING_LIT.6 : /[rR]"""[\s\S]*?"""/ | /[rR]\'\'\'[\s\S]*?\'\'\'/
               | /"""(?:[^\\]|\\[\s\S])*?"""/ | /\'\'\'(?:[^\\]|\\[\s\S])*?\'\'\'/
BYTES_LIT.7    : /[bB]/ MLSTRING_LIT | /[bB]/ STRING_LIT
'''.replace(r"\'", "'")  # fmt: skip

_NEW: Final = r"""
member_opt_dot : member OPT_DOT (IDENT | QUOTED_IDENT)
member_opt_index : member OPT_BRACKET expr "]"
opt_list_lit   : OPT_BRACKET expr ("," item)* ","? "]"
items          : expr ("," item)* ","?
item           : expr | opt_item
opt_item       : "?" expr
entry          : expr ":" expr | opt_entry
opt_entry      : "?" expr ":" expr
OPT_DOT        : /\.(?:[ \t\r\n\f]|\/\/[^\n]*\n)*\?/
OPT_BRACKET    : /\[(?:[ \t\r\n\f]|\/\/[^\n]*\n)*\?/
QUOTED_IDENT   : /`[a-zA-Z0-9_.\-\/ ]+`/
"""


def grammar_text() -> str:
    """Return the patched grammar; raises RuntimeError when a patch no longer applies."""
    # Found without an import, which would load an evaluator that is not used.
    spec = find_spec("celpy")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("cel-python is not installed")
    text = (Path(spec.submodule_search_locations[0]) / "cel.lark").read_text(encoding="utf-8")
    for theirs, ours in zip(_rules(_THEIRS), _rules(_OURS), strict=True):
        if text.count(theirs) != 1:
            raise RuntimeError(f"cel-python's grammar has changed, this rule is not in it: {theirs[:60]!r}")
        text = text.replace(theirs, ours)
    return text + _NEW


def _rules(block: str) -> list[str]:
    """Split a block into rules; a continuation line begins with white space."""
    return [f"{rule}\n" for rule in re.split(r"\n(?=\w)", block.strip())]


def make_parser(builder: Any) -> Lark:
    """Return a parser that calls the methods of `builder` while it reduces rules, without recursion."""
    return Lark(
        grammar_text(),
        parser="lalr",
        start="expr",
        lexer_callbacks={"IDENT": _literal_or_name},
        maybe_placeholders=False,
        transformer=builder,
        keep_all_tokens=True,
    )


def _literal_or_name(token: Token) -> Token:
    if token.value in ("true", "false"):
        return Token.new_borrow_pos("BOOL_LIT", token.value, token)
    if token.value == "null":
        return Token.new_borrow_pos("NULL_LIT", token.value, token)
    return token
