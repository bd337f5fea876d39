"""Twins of other libraries' classes: change an import, keep the rest of the program."""
