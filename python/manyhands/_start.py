"""The start of the command line: until it is up, Ctrl-C ends the process without a traceback."""

import os
import signal
import sys
import threading


def _is_command() -> bool:
    """Whether the process is the program ``manyhands``, or ``python -m manyhands``."""
    if sys.argv[:1] == ["-m"]:
        asked = sys.orig_argv
        return "-m" in asked and asked[asked.index("-m") + 1 :][:1] == ["manyhands"]
    return os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0] == "manyhands"


def _is_ours() -> bool:
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


_quiet = _is_command() and _is_ours()
if _quiet:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_interrupts() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` again, which the command line reports in a line."""
    global _quiet
    if _quiet:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _quiet = False
