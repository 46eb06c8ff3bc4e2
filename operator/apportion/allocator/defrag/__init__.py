"""Defragmentation: which claims would have to move so that a demand fits, or whole cards are free. Pure; nothing is moved here."""
