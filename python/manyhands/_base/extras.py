"""How to install what only parts of the library need."""

#: manyhands is not on PyPI yet.
SOURCE = "git+https://github.com/manyhands/manyhands"


def install_command(extra: str) -> str:
    """Return the command that installs manyhands with an extra, for messages.

    >>> install_command("torch")
    'pip install "manyhands[torch] @ git+https://github.com/manyhands/manyhands"'
    """
    return f'pip install "manyhands[{extra}] @ {SOURCE}"'
