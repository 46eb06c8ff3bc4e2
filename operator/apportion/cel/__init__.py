"""CEL for devices: a selector's text becomes a program; a program says match, no match or error."""

from apportion.cel.program import Program, compile_selector
from apportion.cel.programs import Programs

__all__ = ["Program", "Programs", "compile_selector"]
