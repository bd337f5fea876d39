"""Drop-in replacements for other libraries' classes: change an import, keep the rest of the program."""
