"""CEL for devices: a selector's text becomes a program; a program says match, no match or error."""
