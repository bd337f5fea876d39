"""Check the language of docs, docstrings, comments, messages, names and commit subjects: part of ``make lint``.

Contemporary American technical English: a subject, a verb, an object, and the field's own words. Each rule below is a
pattern and what to write in its place. Only prose is searched: code, inline code, links and doctests are left out.

Run ``python scripts/prose.py [PATH ...]`` to list every hit as ``file:line``, ``--changed main`` for those on lines
changed since a commit, and ``--count`` for a table per rule. ``--check`` is what ``make lint`` runs: it fails where a
top-level folder has more hits than ``scripts/prose.json`` allows. ``--tighten`` lowers that allowance to today's count.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ALLOWED = Path(__file__).with_name("prose.json")
#: Subjects of commits are checked after this one.
BASE = "4978aac"

#: Stands for code inside prose: neither a word nor a blank, so that no pattern reaches across it.
CODE = "\x01"
NUMBER = (
    r"(?:\d[\d.,]*|\x01+|one|two|three|four|five|six|seven|eight|nine|ten|a hundred|a thousand|a million|a billion"
    r"|several|many|few|ns|ms|bytes?)"
)
#: What a quantity is counted over, with calendar units left out: "once a day" is plain English.
DENOMINATOR = (
    r"(?:annotation|annotator|answer|batch|billion|bin|block|box|bucket|case|cell|chain|class|code|column|comparison"
    r"|core|crowd|document|draw|element|entry|epoch|estimator|example|expert|feature|field|file|fold|folder|frame|game"
    r"|group|head|id|image|instance|item|iteration|judge|kind|label|layer|length|line|list|log|mask|method|million"
    r"|minute|model|network|node|object|option|page|pair|partition|pass|person|picture|piece|pixel|point|process"
    r"|question|rater|record|region|round|row|rule|run|sample|second|seed|sentence|sequence|set|shard|side|slot|span"
    r"|start|step|string|table|tag|task|test|text|thousand|thread|token|topic|unit|value|vote|vector|word|worker)"
)
#: Words that never are the noun before "a": verbs, prepositions, conjunctions.
NOT_A_NOUN = (
    r"(?!(?:about|after|against|allows?|among|and|are|as|asks?|at|be|because|become|becomes|been|before|being|between"
    r"|but|by|calls?|can|chooses?|compares?|contains?|costs?|counts?|covers?|describes?|draws?|ends?|expects?|fits?"
    r"|for|from|gave|gets?|gives?|given|had|has|have|holds?|if|in|indicates?|into|is|keeps?|labels? is|lets?|like|made"
    r"|makes?|matches|means?|meets|misses|names?|needs?|not|of|offers?|on|only|opens?|or|over|per|predicts?|prints?"
    r"|puts?|raises?|reads?|replaces?|returns?|runs?|say|says|see|sees|sets?|shares?|shows?|simulates?|starts?|such|take"
    r"|takes?|tells?|than|that|then|there|through|to|took|trains?|under|until|use|used|uses|wants?|was|were|when"
    r"|where|which|while|who|wins?|with|within|without|writes?|half|quite|rather|what|times?|just|how|so|makes"
    r"|equals?|estimates?|plus|minus|like)\b)"
)


class Rule(NamedTuple):
    """A pattern, the words near which it is looked for, and what to write instead.

    Without a pattern each of the words is a hit. ``here`` must match where a word begins.
    """

    name: str
    words: str
    instead: str
    pattern: str = ""
    here: str = ""


RULES = [
    Rule(
        "P1 a for per",
        "a an",
        "per: 'one label per task', '5 bytes per annotation'",
        rf"\b{NUMBER}\s+(?:(?!of\b|in\b|to\b|is\b)[a-z-]+\s+)?{NOT_A_NOUN}[a-z][a-z-]*\s+an?\s+{DENOMINATOR}\b"
        rf"(?!\s+(?:that|which|who|is|was|has|does|had)\b)"
        rf"|\b(?:ns|ms|seconds|bytes|kB|MB|GB)\s+an?\s+{DENOMINATOR}\b"
        r"|(?<!give )(?<!gives )(?<!make )(?<!makes )(?<!gave )(?<!costs )(?<!show )(?<!call )(?<!calls )(?<!for )"
        r"\b(?:an?|how many|how much|as many|so many)\s+(?:row|column|line|file|folder|label|labels|answer|answers"
        rf"|number|value|values|entry|process|score|weight|vector|call|look-up|lookup|draw|byte|bytes|network"
        rf"|coin|record|annotations)\s+an?\s+{DENOMINATOR}\b(?!\s+(?:that|which|who|is|was|has|does|had|gave|sees)\b)",
        rf"an?\s+{DENOMINATOR}\b",
    ),
    Rule("P2 foretell", "foretell foretells foretelling foretold", "predict"),
    Rule(
        "P3 told, says",
        "told tells telling untold said says tell",
        "report, indicate, infer, show, estimate; of a caller: pass, specify",
        r"\b(?:told|tells|telling|untold|said|says)\b|\btell\b(?!\s+(?:\w+\s+){0,3}apart\b)",
    ),
    Rule(
        "P4 nobody",
        "nobody somebody whoever everybody anybody whomever",
        "no worker, a user, the caller, any object that",
    ),
    Rule("P6 mend", "mend mends mended mending", "fix"),
    Rule(
        "P7 archaic words",
        "shall anew whom kin beside whence hitherto thereof whereof lest nought aright amiss many",
        "must, again, who, related, next to / in addition to, that many",
        r"\b(?:shall|anew|whom|kin|beside|whence|hitherto|thereof|whereof|lest|nought|aright|amiss)\b"
        r"|\bso many\b(?!\s+that\b)",
    ),
    Rule(
        "P8 is no X",
        "no none not",
        "is not an X, is invalid, is missing",
        r"(?<!there )(?<!there\n)(?<!There )\b(?:is|are|was|were)\s+no\s+(?!longer\b|more\b|fewer\b|less\b|better\b"
        r"|worse\b|slower\b|faster\b|larger\b|smaller\b|different\b|higher\b|lower\b|need\b|such\b|one\b|way\b)[a-z]\w*"
        r"|(?<!there )(?<!There )\b(?:is|are|was|were)\s+(?-i:none)\b"
        r"|\bthat\s+there\s+(?:is|are)\s+not\b|\bthere\s+(?:is|are)\s+not\s*[.,;:)]",
    ),
    Rule(
        "P9 inverted sentence",
        "of",
        "subject first",
        r"(?:^|(?<=[.;:] ))Of (?!the\b|these\b|those\b|all\b)[a-z]+,",
        "of [a-z]+,",
    ),
    Rule(
        "P9 riddle as heading",
        "what where who whoever as that which nothing whose not",
        "a heading that names the topic: 'Edge cases', 'Streaming data'",
        r"(?m)^#+ (?:What|Where|Who|Whoever|As|That|Which|Nothing|Whose|Not)\b.*[^?\n]$",
    ),
    Rule(
        "P10 house words",
        "start camp camps twin twins sureness remark remarks remarked reading readings gate gates members strength"
        " worth",
        "the field's word: faction, constrained initialization, reference implementation, confidence, warning, "
        "annotation, router, ensemble members, prior strength, information",
        r"\b(?:protected start|camps?|twins?|sureness|remarks?|remarked|readings)\b"
        r"|\b(?:a|one|each|every|per|two|three|no|another|second) reading\b"
        r"|\b(?:the|a|its|their|no|one|of|each|soft|hard) gates?\b"
        r"|\b(?:its|their|the|three|two|four|both|of)\s+members\b"
        r"(?!\s+of\s+(?:a|the|this|that|each)\s+(?:group|community|faction|ring))"
        r"|(?<!prior )(?<!smoothing )(?<!regularization )(?<!signal )\bstrength\b"
        r"|\b(?:is|are|its|their|of|a|the|workers) worth\b(?!\s+(?:it\b|a\b|the\b|\w+ing\b))",
    ),
    Rule(
        "P11 folk words",
        "bend bends bending climb climbs climbed climbing leap leaps leapt imaginary still",
        "curvature, ascent, extrapolation, pseudo-counts, converged",
        r"\b(?:bends?|bending|climbs?|climbed|climbing|leaps?|leapt|imaginary|(?:stands?|stood) still)\b",
    ),
    Rule("P12 refuse", "refuse refuses refused refusing refusal refusals", "raise, reject"),
    Rule(
        "P13 who of a thing",
        "who whose",
        "which, that; the worker who, the annotator who",
        r"\b(?:class|classes|label|labels|value|values|method|methods|task|tasks|object|objects|estimator|column|one"
        r"|ones|file|item|items) (?:who|whose owner)\b|\bwho wins\b",
    ),
]
_BRITISH = re.compile(
    r"[a-z]*(?:labell(?:ed|ing|er|ers)|modell(?:ed|ing)|colour\w*|behaviour\w*|favour\w*|neighbour\w*|honour\w*"
    r"|centre[ds]?|centring|grey|judgement\w*|catalogue\w*|analys(?:e|ed|es|ing)|catalys\w+|signall\w+|travell\w+"
    r"|cancell(?:ed|ing)|totall(?:ed|ing)|spelt|learnt|burnt|whilst|amongst|artefacts?|programmes?"
    r"|(?:normal|optim|general|initial|minim|maxim|regular|recogn|organ|summar|real|categor|discret|parallel"
    r"|standard|penal|random|vector|serial|token|factor|symmetr|synchron|local|custom|util|emphas|character"
    r"|special|visual|author|apolog|critic|binar|linear|marginal|orthogonal|stabil|memor|prior|capital|central"
    r"|formal|harmon|ideal|mobil|neutral|polar|popular|quant|rational|scrutin|symbol|legal|winsor|final|anonym"
    r"|material|equal|crystall|itemi|sensit|external|internal|pluralis|civil|immun|bottom)is(?:e|es|ed|er|ers|ing"
    r"|ation|ations))"
)
AMERICAN = Rule(
    "P14 British spelling",
    "",
    "American spelling: labeled, color, behavior, center, normalize, analyze, learned",
)
HIDDEN_OBJECT = Rule(
    "P15 hidden object",
    "",
    "the part and the change: 'Wrap docs lines at 120 columns'",
    r"^(?:Say|Tell|Let|Keep to|See to|Give back|Leave to|Be|Make sure|Take what|Hold)\b",
)
PARTICIPLES = (
    "found known given made said told settled kept wanted shown chosen asked named drawn seen done held moved met taken"
    " gone tried judged believed stated called agreed needed written spoken spelt carried caught bought decided turned"
    " placed foretold refused noticed weighed parted sent meant aligned begun brought cast broken worn led charged tied"
    " joined opened mended learnt granted spared thought unsaid untold"
)
FOLK_NAMES = "bend climb leap remark camp twin sureness whoever somebody nobody kin foretell mend"
_BARE = rf"_?(?:{PARTICIPLES.replace(' ', '|')})"
NAMES = [
    Rule(
        "P5 participle as a name",
        PARTICIPLES,
        "the content: posterior, worker_codes, candidate_rows, matches",
        rf"(?m)^[ \t]*(?:[\w.]+, )*{_BARE}(?:, [\w.]+)*(?:: [^=\n]+)? = "
        rf"|\b(?:for|as) (?:\w+, )*\(?{_BARE}\b(?=(?:, \w+)*\)? in |:|,)"
        rf"|\b{_BARE} := "
        rf"|\blet (?:mut )?\(?(?:\w+, )*{_BARE}\b(?=[^=\n]*=)"
        rf"|\|{_BARE}\|",
    ),
    Rule(
        "P5 participle as a function",
        "def fn",
        "a verb, or the noun it returns: align_rows(), solve()",
        r"(?m)^(?:async )?(?:pub(?:\([a-z]+\))? )?(?:def|fn) "
        r"(?!_?(?:embed|need|feed|seed|speed|exceed|proceed|succeed|shed)\b)"
        rf"_?(?:[a-z]{{2,}}[^aeo\W_]ed|[a-z]{{2,}}[ao]ed|[a-z]{{3,}}eed|{PARTICIPLES.replace(' ', '|')})(?=[(<\[])",
    ),
    Rule(
        "P10 house words in names",
        FOLK_NAMES + "".join(f" {word}s" for word in FOLK_NAMES.split()),
        "the field's word: curvature, ascent, warning, faction, reference",
        rf"(?i)\b(?:def|class|fn|struct|enum|trait|let|let mut|mod) _?(?:{FOLK_NAMES.replace(' ', '|')})s?\b",
    ),
]
#: In the order of the table of counts.
ALL_RULES = [*RULES, AMERICAN, *NAMES, HIDDEN_OBJECT]

#: What may stay, and why: (glob of paths or "*", rule, text in the line or "", reason).
EXCEPTIONS: list[tuple[str, str, str, str]] = [
    ("scripts/prose.py", "*", "", "it quotes the patterns"),
    ("tests/project/test_prose.py", "*", "", "it quotes the patterns"),
    ("*", "P14*", "LabelModell", "a name as its library spells it"),
    ("*", "P14*", "matplotlib", "names of colors and arguments as matplotlib spells them"),
    ("*", "P10*", "strength of a prior", "the statistical term"),
    ("python/manyhands/*", "P10*", "strength", "a public parameter and attribute, which its documentation must name"),
    ("python/manyhands/*", "P10*", "def remarks", "a public attribute of results"),
    ("python/manyhands/audit/*", "P10*", "remarks", "a public attribute of results"),
    (
        "python/manyhands/categorical/*group*",
        "P10*",
        "members",
        "the workers of a group, not the models of an ensemble",
    ),
    ("python/manyhands/learn/mixture.py", "P10*", "members", "the workers of a group, not the models of an ensemble"),
    ("python/manyhands/sequences/*", "P10*", "eading", "a defined term: the tags of one worker for one sequence"),
    ("python/manyhands/*", "P14*", "unlabelled", "a public attribute and a stored column"),
    ("python/manyhands/learn/*", "P14*", "learnt", "the value of a public parameter"),
    ("python/manyhands/ordinal/simulate.py", "P14*", "neighbours", "the name of a public crowd"),
    ("python/manyhands/io/exports/unsupported.py", "P10*", "GATE", "the name of a program"),
    ("python/manyhands/learn/doctor_net.py", "P3*", "Who said what", "the title of a paper"),
]
#: Not ours, or data.
SKIPPED = ("LICENSE", "*.lock", "requirements/*", "tests/data/*", "fuzz/corpus/*", "benches/reproduction/*.json")
SUFFIXES = (".md", ".py", ".pyi", ".rs", ".ipynb", ".toml", ".yml", "Makefile")


class Hit(NamedTuple):
    """Where a rule applies."""

    path: str
    line: int
    rule: Rule
    text: str

    def __str__(self) -> str:
        words = " ".join(self.text.replace(CODE, "…").split())
        return f"{self.path}:{self.line}: {self.rule.name}: '{words}' (write {self.rule.instead})"


_CODE = re.compile(r"\S+(?:[ \t]+\S+)*")


def _blank(text: str) -> str:
    """Replace code by one ``CODE`` per line, keeping line breaks and blanks around it."""
    return _CODE.sub(CODE, text)


_INLINE = re.compile(r"(`+)[^`]+?\1|\]\([^)\s]*\)|https?://\S+|<[a-zA-Z/][^>\n]*>")
_FENCE = re.compile(r"(?ms)^([ \t]*)(```+|~~~+|:::+)([^\n]*)\n(.*?)^\1\2[ \t]*$")
_DOCTEST = re.compile(r"(?m)^[ \t]*>>> .*(?:\n[ \t]*\S.*)*")
_COMMENT_IN_FENCE = re.compile(r"(?m)(?:^|(?<=\s))#(?: .*)$")


def _inline(text: str) -> str:
    return _INLINE.sub(lambda match: _blank(match[0]), text)


def _comments_only(text: str) -> str:
    kept = []
    at = 0
    for match in _COMMENT_IN_FENCE.finditer(text):
        kept += [_blank(text[at : match.start()]), " ", match[0][1:]]
        at = match.end()
    return "".join([*kept, _blank(text[at:])])


def markdown_prose(text: str) -> str:
    """Return Markdown with code as ``CODE``; the comments of its code blocks stay."""

    def fence(match: re.Match[str]) -> str:
        if match[2].startswith(":"):
            return match[0]
        whole = match[0]
        if match[3].strip() in ("text", ""):
            return _blank(whole)
        start = match.start(4) - match.start()
        body = whole[start : start + len(match[4])]
        return _blank(whole[:start]) + _comments_only(body) + _blank(whole[start + len(body) :])

    return _inline(_FENCE.sub(fence, text))


_PYTHON = re.compile(
    r"(?P<comment>#[^\n]*)"
    r"|(?P<prefix>\b[rRbBfFuU]{1,2})?(?P<quote>\"\"\"|'''|\"|')(?P<body>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)",
    re.DOTALL,
)
_RUST = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<prefix>\bb?r(?P<hash>#*))\"(?P<raw>.*?)\"(?P=hash)"
    r"|\"(?P<body>(?:\\.|[^\"\\])*)\""
    r"|'(?:\\.|[^'\\])'",
    re.DOTALL,
)
_FIELD = re.compile(r"\{[^{}\n]*\}|\\[nt\"']")


def _string_prose(body: str, fields: bool) -> str:
    if not re.search(r"[A-Za-z]\w*[ \n]+\S", body):
        return _blank(body)
    body = _DOCTEST.sub(lambda match: _blank(match[0]), body)
    body = _inline(body)
    return _FIELD.sub(lambda match: CODE * len(match[0]), body) if fields else body


def split_code(text: str, lexer: re.Pattern[str]) -> tuple[str, str]:
    """Return the prose of comments and strings, and the code without them; offsets are those of ``text``."""
    prose: list[str] = []
    code: list[str] = []
    at = 0
    for match in lexer.finditer(text):
        between = text[at : match.start()]
        prose.append(_blank(between))
        code.append(between)
        whole = match[0]
        code.append(re.sub(r"[^\n]", " ", whole))
        body = match["body"]
        if match["comment"] is not None:
            marker = re.match(r"#+:?|//[/!]?|/\*+", whole)
            width = marker.end() if marker else 0
            prose.append(" " * width + _inline(whole[width:]))
        elif body is None or (lexer is _PYTHON and len(match["quote"]) == 1 and "r" in (match["prefix"] or "").lower()):
            prose.append(_blank(whole))
        else:
            start = match.start("body") - match.start()
            fields = lexer is _RUST or "f" in (match["prefix"] or "").lower() or "{" in body
            tail = len(whole) - start - len(body)
            prose.append(" " * start + _string_prose(body, fields) + " " * tail)
        at = match.end()
    prose.append(_blank(text[at:]))
    code.append(text[at:])
    return "".join(prose), "".join(code)


class _Compiled(NamedTuple):
    rule: Rule
    here: re.Pattern[str]
    pattern: re.Pattern[str]


def _by_word(rules: Iterable[Rule], flags: int) -> dict[str, list[_Compiled]]:
    """Return the rules that each word calls for."""
    index: dict[str, list[_Compiled]] = {}
    for rule in rules:
        pattern = rule.pattern or rf"\b(?:{rule.words.replace(' ', '|')})\b"
        compiled = _Compiled(rule, re.compile(rule.here, flags), re.compile(pattern, flags))
        for word in rule.words.split():
            index.setdefault(word, []).append(compiled)
    return index


_WORD = re.compile(r"[a-z]+")
_PROSE_RULES = _by_word(RULES, re.IGNORECASE)
_NAME_RULES = _by_word(NAMES, 0)


@cache
def _is_british(word: str) -> bool:
    return _BRITISH.fullmatch(word) is not None


def _matches(text: str, rules: dict[str, list[_Compiled]]) -> Iterator[tuple[int, Rule, str]]:
    """Find the offset, the rule and the words of each hit."""
    seen = set()
    for word in _WORD.finditer(text.lower()):
        if rules is _PROSE_RULES and _is_british(word[0]):
            yield word.start(), AMERICAN, word[0]
        for rule, here, pattern in rules.get(word[0], ()):
            if not here.match(text, word.start()):
                continue
            start = text.rfind("\n", 0, max(text.rfind("\n", 0, word.start()), 0)) + 1
            end = text.find("\n", text.find("\n", word.start()) + 1)
            for match in pattern.finditer(text, start, end if end > word.start() else len(text)):
                if match.start() <= word.start() < match.end() and (rule.name, match.start()) not in seen:
                    seen.add((rule.name, match.start()))
                    yield match.start() + len(match[0]) - len(match[0].lstrip()), rule, match[0]


def _is_excused(path: str, rule: str, line: str) -> bool:
    return any(fnmatch(path, where) and fnmatch(rule, which) and text in line for where, which, text, _ in EXCEPTIONS)


def _file_hits(path: str, text: str) -> Iterator[Hit]:
    lines = text.split("\n")
    if path.endswith(".md"):
        parts = [(markdown_prose(text), _PROSE_RULES)]
    else:
        prose, code = split_code(text, _RUST if path.endswith(".rs") else _PYTHON)
        parts = [(prose, _PROSE_RULES), (code, _NAME_RULES)]
    for searched, rules in parts:
        for offset, rule, words in _matches(searched, rules):
            line = searched.count("\n", 0, offset) + 1
            if not _is_excused(path, rule.name, lines[line - 1]):
                yield Hit(path, line, rule, words)


def hits_in(path: str, text: str) -> Iterator[Hit]:
    """Find what the rules name in a file; in a notebook, the number is that of the cell."""
    if not path.endswith(".ipynb"):
        yield from _file_hits(path, text)
        return
    for number, cell in enumerate(json.loads(text)["cells"], 1):
        ending = ".md" if cell["cell_type"] == "markdown" else ".py"
        for hit in _file_hits(path + ending, "".join(cell["source"])):
            yield Hit(path, number, hit.rule, hit.text)


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True).stdout


def sources(paths: Iterable[str] = ()) -> list[str]:
    """List the tracked and new files to check, under ``paths`` if any are named."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths).split("\0")
    return sorted(
        name
        for name in set(filter(None, listed))
        if name.endswith(SUFFIXES) and not any(fnmatch(name, pattern) for pattern in SKIPPED)
    )


def subject_hits(base: str = BASE) -> Iterator[Hit]:
    """Find what the rules name in the subjects of commits after ``base``."""
    for line in _git("log", "--no-merges", "--format=%h %s", f"{base}..HEAD").splitlines():
        commit, _, subject = line.partition(" ")
        hidden = re.match(HIDDEN_OBJECT.pattern, subject)
        hits = [(HIDDEN_OBJECT, hidden[0])] if hidden else []
        hits += [(rule, words) for _, rule, words in _matches(_inline(subject), _PROSE_RULES)]
        for rule, words in hits:
            yield Hit(f"commits/{commit}", 1, rule, words)


def changed_lines(base: str) -> dict[str, set[int]]:
    """Return the numbers of the lines changed since ``base``, by file."""
    lines: dict[str, set[int]] = {}
    path = ""
    for line in _git("diff", "-U0", "--no-color", base).splitlines():
        if line.startswith("+++ "):
            path = line[6:]
        elif line.startswith("@@"):
            start, _, length = line.split(" ")[2][1:].partition(",")
            lines.setdefault(path, set()).update(range(int(start), int(start) + int(length or 1)))
    return lines


def area(path: str) -> str:
    """Return the top-level folder that a hit counts for; "." for files at the top."""
    folder, slash, _ = path.partition("/")
    return folder if slash else "."


def language(path: str) -> str:
    """Return the column of the table of counts that a file belongs to."""
    if path.startswith("commits/"):
        return "commits"
    if path.startswith("tests/"):
        return "tests"
    if path.startswith("python/"):
        return "Python"
    if path.startswith("rust/"):
        return "Rust"
    return "docs" if path.endswith((".md", ".ipynb")) else "tools"


def _table(hits: list[Hit]) -> str:
    columns = ["docs", "Python", "Rust", "tests", "tools", "commits"]
    counts = Counter((hit.rule.name, language(hit.path)) for hit in hits)
    names = list(dict.fromkeys(rule.name for rule in ALL_RULES))
    rows = [[name, *(counts[name, column] for column in columns)] for name in names]
    rows.append(["all", *(sum(row[at] for row in rows) for at in range(1, len(columns) + 1))])
    lines = [f"{'pattern':28}" + "".join(f"{column:>9}" for column in [*columns, "all"])]
    lines += [f"{row[0]:28}" + "".join(f"{value:9,}" for value in [*row[1:], sum(row[1:])]) for row in rows]
    return "\n".join(lines)


def check(hits: list[Hit]) -> list[str]:
    """Compare the counts of all files with what is allowed; return what exceeds it."""
    allowed = json.loads(ALLOWED.read_text(encoding="utf-8"))
    wrong = [f"{hit}" for hit in hits if any(hit.path.startswith(path) for path in allowed["clean"])]
    counts = Counter(area(hit.path) for hit in hits)
    for folder, count in sorted(counts.items()):
        most = allowed["counts"].get(folder, 0)
        if count > most:
            wrong.append(
                f"{folder} has {count} hits of the patterns in scripts/prose.py, more than {most}: "
                "'python scripts/prose.py --changed main' lists yours"
            )
    return wrong


def _tighten(hits: list[Hit]) -> None:
    allowed = json.loads(ALLOWED.read_text(encoding="utf-8")) if ALLOWED.exists() else {"clean": [], "counts": {}}
    counts = Counter(area(hit.path) for hit in hits)
    old = allowed["counts"]
    allowed["counts"] = {folder: min(count, old.get(folder, count)) for folder, count in sorted(counts.items())}
    ALLOWED.write_text(json.dumps(allowed, indent=2) + "\n", encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """Print what the rules find; 1 where that fails the check, or where anything is listed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: all)")
    parser.add_argument("--changed", metavar="COMMIT", help="only lines changed since this commit")
    parser.add_argument("--count", action="store_true", help="print a table of counts per rule")
    parser.add_argument("--check", action="store_true", help="fail where a folder has more hits than allowed")
    parser.add_argument("--tighten", action="store_true", help="lower what is allowed to what there is")
    options = parser.parse_args(argv)
    hits: list[Hit] = []
    try:
        names = sources(options.paths)
    except (OSError, subprocess.CalledProcessError):
        print("prose is not checked: there is no git, or no repository", file=sys.stderr)
        return 0
    for name in names:
        path = ROOT / name
        if path.is_file():
            hits += hits_in(name, path.read_text(encoding="utf-8"))
    if not options.paths:
        try:
            hits += subject_hits()
        except (OSError, subprocess.CalledProcessError):
            print(f"subjects of commits are not checked: no history back to {BASE}", file=sys.stderr)
    if options.changed:
        lines = changed_lines(options.changed)
        hits = [hit for hit in hits if hit.path.startswith("commits/") or hit.line in lines.get(hit.path, ())]
    if options.tighten:
        _tighten(hits)
        return 0
    if options.count:
        print(_table(hits))
        return 0
    if options.check:
        problems = check(hits)
        print("\n".join(problems) if problems else "prose is as scripts/prose.py asks")
        return bool(problems)
    print("\n".join(map(str, sorted(hits, key=lambda hit: (hit.path, hit.line)))))
    return bool(hits)


if __name__ == "__main__":
    sys.exit(main())
