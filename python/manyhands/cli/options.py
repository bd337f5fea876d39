"""What the commands' arguments have in common: the parser, the log, known labels, checks of paths."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from manyhands._base.spelling import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands import Annotations

#: Where a command adds its parser.
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"

#: The output that is the process's own.
STDOUT = "-"

#: What the process's own input is called.
STDIN = ("-", "/dev/stdin", "/dev/fd/0")

#: How results may be printed.
SHAPES = ("table", "csv", "json")

#: Choices that an error message lists; more are looked up with `manyhands methods`.
MOST_LISTED = 30

#: More would only be a slip of the keyboard, and starting them takes long.
MAX_THREADS = 1024


class Parser(argparse.ArgumentParser):
    """A parser that raises where argparse prints and exits, suggests spellings, and has two lengths of help.

    ``--help`` shows the options that most runs need, ``--help-all`` also those passed to `rare`.
    """

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        settings.setdefault("allow_abbrev", False)
        self.rare: set[argparse.Action] = set()
        super().__init__(**settings)

    def error(self, message: str) -> NoReturn:
        """Raise `message`; argparse itself would print the usage before it and exit."""
        raise ValueError(f"{message} (see {self.prog} --help)")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; raise for options that do not exist, with the ones that may have been meant."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            hint = self._moved(name) or did_you_mean(name, self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return parsed, unknown

    def _moved(self, name: str) -> str:
        """Point to --columns and --set for the name of a column's role or of a method's parameter."""
        word = name.lstrip("-").replace("-", "_")
        columns = self._option_string_actions.get("--columns")
        if isinstance(columns, Columns) and word in columns.roles:
            return f" (a column: --columns {word}=COLUMN)"
        if "--set" in self._option_string_actions:
            from manyhands.cli.method_names import all_parameters

            if word in all_parameters():
                return f" (a parameter of the method: --set {word}=VALUE)"
        return ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            listed = ", ".join(choices) if len(choices) <= MOST_LISTED else "those that `manyhands methods` lists"
            hint = did_you_mean(str(value), choices)
            raise argparse.ArgumentError(action, f"unknown: {value!r}{hint}; choose from {listed}")

    def format_usage(self) -> str:
        """Return one line: what a run cannot do without."""
        return f"usage: {self._short_usage()}\n"

    def _short_usage(self) -> str:
        if self.usage is not None:
            return self.usage
        required = [a for a in self._actions if a.option_strings and a.required]
        words = [f"{a.option_strings[0]} {a.metavar or a.dest.upper()}" for a in required]
        words += [str(a.metavar or a.dest) + (" …" if a.nargs == "+" else "") for a in self._get_positional_actions()]
        return " ".join([self.prog, *words, "[options]"])

    def format_help(self) -> str:
        """Return the help, without the options that few runs need."""
        help_texts = {action: action.help for action in self.rare}
        groups = [
            group
            for group in self._action_groups
            if group._group_actions and self.rare.issuperset(group._group_actions)
        ]
        described = {group: group.description for group in groups}
        try:
            for action in help_texts:
                action.help = argparse.SUPPRESS
            for group in groups:
                group.description = None
            more = f"\n\n{self.prog} --help-all shows {len(self.rare)} more options" if self.rare else ""
            return self._with_usage(more)
        finally:
            for action, text in help_texts.items():
                action.help = text
            for group, about in described.items():
                group.description = about

    def format_whole_help(self) -> str:
        """Return the help with all options."""
        return self._with_usage()

    def _with_usage(self, more: str = "") -> str:
        usage, epilog = self.usage, self.epilog
        try:
            self.usage, self.epilog = self._short_usage().replace("%", "%%"), (epilog or "") + more
            return super().format_help()
        finally:
            self.usage, self.epilog = usage, epilog


class _HelpAll(argparse.Action):
    """Print the help with all options."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> NoReturn:
        print(parser.format_whole_help() if isinstance(parser, Parser) else parser.format_help(), end="")
        raise SystemExit(0)


class Columns(argparse.Action):
    """``--columns role=name,…``: a dictionary of columns by role; a role of several has commas between them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        #: The roles that there are.
        self.roles: set[str] = set()
        #: Roles that are always a list of columns.
        self.lists: set[str] = set()

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Add the columns of all roles that are named."""
        columns: dict[str, Any] = dict(namespace.columns)
        names_by_role: dict[str, list[str]] = {}
        last = None
        for part in str(values).split(","):
            role, equals, column = part.partition("=")
            if not equals and last is not None:
                names_by_role[last].append(part)
                continue
            role = role.strip()
            if not equals or not column:
                raise argparse.ArgumentError(self, f"must be such as worker=rater,weight=w, not {part!r}")
            if role not in self.roles:
                hint = did_you_mean(role, self.roles)
                raise argparse.ArgumentError(
                    self, f"unknown role {role!r}{hint}; roles are {', '.join(sorted(self.roles))}"
                )
            if role in names_by_role or role in columns:
                raise argparse.ArgumentError(self, f"the column of the role {role!r} is named twice")
            names_by_role[role], last = [column], role
        for role, names in names_by_role.items():
            columns[role] = names if len(names) > 1 or role in self.lists else names[0]
        namespace.columns = columns


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    *,
    about: str,
    examples: str,
    json_file: bool = False,
) -> Parser:
    """Add a command: what it does in a sentence, and examples for its help, one a line.

    With `json_file`, ``--json`` takes the name of a file, stored as ``json_file``, or none for stdout.
    """
    lines = "\n".join(f"  manyhands {name} {line.strip()}".rstrip() for line in examples.strip().splitlines())
    many = "examples" if "\n" in lines else "example"
    parser = commands.add_parser(name, help=about, description=about, epilog=f"{many}:\n{lines}")
    parser.set_defaults(run=run, command=name)
    parser.add_argument("--help-all", action=_HelpAll, nargs=0, help="show all options and exit")
    display = parser.add_mutually_exclusive_group()
    display.add_argument(
        "--format",
        dest="shown",
        type=_shape,
        metavar="table|csv|json",
        help="print a table, CSV or one JSON object",
    )
    if json_file:
        display.add_argument(
            "--json", nargs="?", const=STDOUT, dest="json_file", metavar="FILE", help="write JSON to a file"
        )
    else:
        display.add_argument("--json", dest="shown", action="store_const", const="json", help="short for --format json")
    escape = parser.add_argument(
        "--escape-formulas",
        action="store_true",
        help="put an apostrophe before text in CSV that a spreadsheet would take for a formula (= + - @)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar and no summary")
    limit = parser.add_argument("--threads", type=threads, metavar="N", help="threads to use (default: one per core)")
    parser.rare |= {escape, limit}
    return parser


def _shape(text: str) -> str:
    """Return how results are printed."""
    if text in SHAPES:
        return text
    from manyhands.io.exports import FORMATS

    hint = f"; to name the format, pass --from {text}" if text in FORMATS else ""
    raise argparse.ArgumentTypeError(f"must be table, csv or json, not {text!r}{hint}")


def check_printed(args: argparse.Namespace, what: str, *, printed: bool = False) -> None:
    """Raise where rows would go to stdout together with JSON, or both to stdout and to a file.

    Parameters
    ----------
    args
        The arguments, ``-o`` among them.
    what : str
        What the rows are.
    printed : bool, default False
        Whether they go to stdout where no file is named, also with JSON.
    """
    if args.json and args.output in ((None, STDOUT) if printed else (STDOUT,)):
        raise ValueError(f"{what} as CSV and --json cannot both go to stdout; name a file with -o")
    if args.shown == "csv" and args.output not in (None, STDOUT):
        raise ValueError(f"--format csv prints the {what}, and -o writes them to a file; choose one of them")


def use_threads(args: argparse.Namespace) -> None:
    """Use as many threads as were asked for."""
    if args.threads is not None:
        import manyhands as mh

        mh.set_num_threads(args.threads)


# ---------------------------------------------------------------------------------------------------- the log


def add_log(parser: Parser) -> None:
    """Add the arguments that say where the log is and how it is to be read."""
    group = add_files(parser)
    layout = group.add_argument(
        "--layout",
        choices=("long", "wide", "by-worker", "by-task"),
        default="long",
        help="one answer per row (long, the default), one task per row and one worker per column (wide), or a JSON "
        "object {worker: {task: label}} (by-worker) or {task: {worker: label}} (by-task)",
    )
    predictions = group.add_argument(
        "--predictions", action="store_true", help="count predictions of models in an export as workers' answers"
    )
    for role in ("task", "worker", "label"):
        group.add_argument(
            f"--{role}",
            dest=role,
            type=str if role == "label" else columns,
            metavar="COLUMN",
            help=f"column of {role}s, if its name is not a well-known one",
        )
    columns_option: Columns = group.add_argument(
        "--columns",
        action=Columns,
        dest="columns",
        default={},
        metavar="ROLE=COLUMN,…",
        help="other columns: weight=w,confidence=sure; two for one role: task=page,line",
    )
    columns_option.roles |= {"task", "worker", "label", "weight", "confidence", "probabilities"}
    columns_option.lists.add("probabilities")
    rare = [layout, predictions]
    rare.append(
        group.add_argument(
            "--abstain",
            action="append",
            metavar="LABEL",
            help='a label that is never true, such as "don\'t know"; may be given several times',
        )
    )
    group.add_argument(
        "--classes",
        type=lambda text: text.split(","),
        metavar="LABELS",
        help="all classes, comma-separated, in their order",
    )
    group.add_argument(
        "--ordered",
        action="store_true",
        help="treat classes as ordered: by --classes or as numbers",
    )
    rare.append(
        group.add_argument(
            "--labels-as-text",
            action="store_true",
            help="take labels for names even if they look like scores, such as 2.5",
        )
    )
    rare.append(
        group.add_argument(
            "--fold-labels",
            action="store_true",
            help="merge labels that differ by case or blanks only: Yes, yes, 'YES '",
        )
    )
    group.add_argument(
        "--repeats",
        choices=("keep", "first", "last", "error"),
        default="keep",
        metavar="WHICH",
        help="repeated answers: keep (default), first, last, error",
    )
    rare.append(
        group.add_argument(
            "--missing",
            choices=("drop", "error"),
            default="drop",
            help="what to do with rows without a label (default: drop, with a warning)",
        )
    )
    parser.rare |= set(rare)


def add_files(parser: Parser) -> Any:
    """Add the arguments that name files and say what they are; returns their group."""
    from manyhands.io.exports import FORMATS

    group = parser.add_argument_group("the log")
    group.add_argument(
        "log",
        nargs="+",
        metavar="LOG",
        help="CSV, Parquet, JSON, a platform's export; several, a glob, a folder, a zip archive, - for stdin",
    )
    group.add_argument(
        "--from",
        dest="format",
        choices=FORMATS,
        default="auto",
        metavar="NAME",
        help=f"what it is: {', '.join(FORMATS)}",
    )
    group.add_argument("--question", metavar="NAME", help="which question of an export, where it has several")
    group.add_argument(
        "--show",
        metavar="COLUMN",
        help="column or field with what a task shows to workers, a text or an address, to be written next to the task; "
        "auto for the one that an export's platform shows",
    )
    group.add_argument(
        "--worker-from-file", action="store_true", help="each file is one worker's, called by the name of the file"
    )
    group.add_argument(
        "--delimiter",
        type=delimiter,
        metavar="C",
        help="what separates the fields of CSV files, such as ';' or '\\t' (default: what the first line shows)",
    )
    group.add_argument("--encoding", metavar="NAME", help="encoding of CSV files, such as latin-1 (default: UTF-8)")
    group.add_argument(
        "--no-header",
        dest="header",
        action="store_false",
        help="CSV files have no line of names; columns are called 1, 2, 3, …",
    )
    parser.rare |= {action for action in group._group_actions if action.dest != "log"}
    return group


def add_out_of_core(parser: Parser) -> None:
    """Add the arguments for a log that does not fit in memory."""
    group = parser.add_argument_group(
        "large logs",
        "one that will not fit in memory is encoded on disk first, and a run that is killed goes on from there",
    )
    group.add_argument(
        "--out-of-core", action="store_true", help="encode the log on disk even if it would fit in memory"
    )
    group.add_argument(
        "--shards",
        metavar="DIR",
        help="directory for the encoded log (default: that of the log, with .shards after its name)",
    )
    group.add_argument(
        "--memory",
        type=memory,
        metavar="SIZE",
        help="memory to use, such as 4GB (default: what is free, 4GB out of core)",
    )
    parser.rare |= set(group._group_actions)


def memory(text: str) -> int:
    """Return an amount of memory in bytes."""
    from manyhands.categorical.shards.encoder import memory_of

    try:
        return memory_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


#: How CSV files are written, the log and known labels alike.
LAYOUT = ("delimiter", "encoding", "header")


_HOLD_FIXED = "known labels, which correct the default's answers"


def add_truth(parser: Parser, *, evaluate: bool = True, gold: str | None = _HOLD_FIXED) -> None:
    """Add the arguments that name files of known labels; `gold` describes their use, None for none."""
    group = parser.add_argument_group(
        "known labels", "CSV or Parquet files (- for stdin) with a row for each task that is known"
    )
    if gold is not None:
        group.add_argument("--gold", metavar="FILE", help=gold)
    if evaluate:
        group.add_argument(
            "--evaluate", metavar="FILE", help="known answers to measure by, in the columns that answers are written in"
        )
    group.add_argument("--truth-task", metavar="COLUMN", help="column of tasks in these files")
    group.add_argument("--truth-label", metavar="COLUMN", help="column of labels in these files")
    parser.rare |= set(group._group_actions[-2:])


def read_truth(args: argparse.Namespace, path: str | None, votes: Annotations) -> tuple[Any, Any] | None:
    """Read known labels, in the types of the log's ids."""
    if path is None:
        return None
    from manyhands.categorical.gold import read_gold
    from manyhands.cli.kinds import as_option
    from manyhands.errors import spelling

    columns = {"task": args.truth_task, "label": args.truth_label}
    layout = {name: getattr(args, name) for name in LAYOUT}
    task = args.task if isinstance(args.task, str) else None
    with spelling(lambda name, value: f"--truth-{name}" if name in columns else as_option(name, value)):
        return read_gold(path, votes, **columns, like=(task, args.label), **layout)


def read_team(path: str, votes: Any, *more: str) -> pa.Table:
    """Read who can be asked: worker, capacity, cost and more columns of numbers; names in the types of the log."""
    import pyarrow as pa

    from manyhands._base.names import sequence
    from manyhands.io.side_tables import read_beside

    numbers = ("capacity", "cost", *more)
    names, columns = read_beside(path, "worker", votes._workers, numbers=numbers)
    team: dict[str, Any] = {name: columns[name] for name in numbers if name in columns}
    team["worker"] = sequence(names.tolist(), "workers").arrow()
    return pa.table(team)


# ------------------------------------------------------------------------------------------------------ files


def check_inputs(args: argparse.Namespace, *paths: str | None) -> None:
    """Open the log and look for other files, none of which is overwritten; raise unless all can be read."""
    from manyhands._base.archives import archive_of
    from manyhands._base.atomic import protect
    from manyhands._base.sources import expand, is_stream, kind_of
    from manyhands.cli.kinds import open_log_of

    open_log_of(args)
    others = expand([path for path in paths if path is not None]) if any(paths) else []
    for path in others:
        if not is_stream(path) and archive_of(path) is None:
            kind_of(path)
    streams = set()
    inputs = [*(one.path for one in args.opened.sources), *others]
    for path in filter(is_stream, inputs):
        name = "stdin" if str(path) in STDIN else str(path)
        if name in streams:
            raise ValueError(f"{name} is named twice, and a stream can be read only once; write it to a file first")
        streams.add(name)
    protect(archive_of(path) or path for path in inputs if not is_stream(path))


def check_outputs(tables: Iterable[str | None], *, others: Iterable[str | None] = ()) -> None:
    """Raise if a file to be written could not be, or would overwrite an input or another output.

    Parameters
    ----------
    tables : sequence of str or None
        Files whose format is that of their extension; None for none, "-" for stdout.
    others : sequence of str or None, default ()
        Files whose ending does not matter.
    """
    from manyhands._base.atomic import check_output, same_file
    from manyhands._base.sources import kind_of

    paths = [Path(name) for name in tables if name not in (None, STDOUT)]
    for path in paths:
        kind_of(path)
    outputs: list[Path] = []
    for path in (*paths, *(Path(name) for name in others if name is not None)):
        check_output(path)
        if any(same_file(path, other) for other in outputs):
            raise ValueError(f"cannot write {str(path)!r}: it is written in the same run")
        outputs.append(path)


# ----------------------------------------------------------------------------------------- types of arguments


def count(text: str) -> int:
    """Return a whole number of at least 1, also in the form 1e6 or 1_000_000."""
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return number


def natural(text: str) -> int:
    """Return a whole number from 0 to 2⁶⁴ - 1, such as a seed."""
    number = _whole(text)
    if not 0 <= number < 2**64:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 2**64 - 1, not {text}")
    return number


def threads(text: str) -> int:
    """Return a number of threads."""
    number = count(text)
    if number > MAX_THREADS:
        raise argparse.ArgumentTypeError(f"must be at most {MAX_THREADS}, not {text}")
    return number


def amount(text: str) -> float:
    """Return a finite number of at least 0."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {text!r}") from None
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a finite number of at least 0, not {text}")
    return number


def columns(text: str) -> str | list[str]:
    """Return the name of a column, or several that have commas between them."""
    return text.split(",") if "," in text else text


def delimiter(text: str) -> str:
    """Return a single character; a tab may be written as in Python."""
    return "\t" if text == "\\t" else text


def names_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """Return a type of argument: some of the known names, with commas between them."""

    def parse(text: str) -> list[str]:
        names = list(dict.fromkeys(text.split(",")))
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"must be some of {', '.join(known)}, not {name!r}")
        return names

    return parse


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number.is_integer():
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    return int(number)
