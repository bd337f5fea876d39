"""Build many changes of the compiled core into one program, each behind a switch that is off.

A switch costs a look at a number; the environment variable ``MUTANT`` says which one is on, and where ``MUTANT_LOG``
names a file, the number of each switch is written there when it is first reached.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tree_sitter import Node

SWITCH = "crate::switches::on({})"

#: What every program with switches holds.
MODULE = """//! Which change is in force, and which switches were reached.
#![allow(unsafe_code, missing_docs)]

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};

static CHOSEN: LazyLock<usize> =
    LazyLock::new(|| std::env::var("MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0));
static LOG: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
    let path = std::env::var("MUTANT_LOG").ok()?;
    Some(Mutex::new(File::options().append(true).create(true).open(path).unwrap()))
});
static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

#[inline(never)]
pub fn on(number: usize) -> bool {
    if LOG.is_some() {
        note(number);
    }
    number == *CHOSEN
}

#[cold]
fn note(number: usize) {
    if !REACHED[number].swap(true, Relaxed) {
        writeln!(LOG.as_ref().unwrap().lock().unwrap(), "{number}").unwrap();
    }
}

/// Called before each test, so that switches are noted again.
#[unsafe(no_mangle)]
pub extern "C" fn forget_switches() {
    REACHED.iter().for_each(|reached| reached.store(false, Relaxed));
}
"""


@dataclass(frozen=True)
class Change:
    """A change as cargo-mutants lists it: the text between two bytes of a file becomes another."""

    number: int
    area: str
    path: str
    line: int
    name: str
    genre: str
    start: int
    end: int
    replacement: str
    #: The change without the number of its line, as `RUST_EQUIVALENTS` names it.
    key: str


def listed(root: Path) -> list[Change]:
    """Ask cargo-mutants for every change of the crate; the numbers, from 1 on, are its order, the areas are empty."""
    command = ["cargo", "mutants", "--list", "--json"]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    lines: dict[str, list[str]] = {}
    found = []
    for number, item in enumerate(json.loads(said), 1):
        path = item["file"]
        if path not in lines:
            lines[path] = (root / path).read_text(encoding="utf-8").splitlines(keepends=True)
        start, end = (_offset(lines[path], item["span"][side]) for side in ("start", "end"))
        line = item["span"]["start"]["line"]
        key = _key(item, lines[path][line - 1])
        found.append(Change(number, "", path, line, item["name"], item["genre"], start, end, item["replacement"], key))
    return found


def _key(item: dict[str, Any], code: str) -> str:
    """Name a change by its line before and after it, or where it takes more than one line, by what it does."""
    start, end = item["span"]["start"], item["span"]["end"]
    if item["genre"] == "FnValue" or start["line"] != end["line"]:
        what = f": {item['name'].split(': ', 1)[1]}"
    else:
        changed = code[: start["column"] - 1] + item["replacement"] + code[end["column"] - 1 :]
        what = f" → {changed.strip()}"
    return f"{item['file'].removeprefix('rust/')}: {code.strip()}{what}"


def _offset(lines: list[str], place: dict[str, int]) -> int:
    before = sum(len(line.encode()) for line in lines[: place["line"] - 1])
    return before + len(lines[place["line"] - 1][: place["column"] - 1].encode())


# --------------------------------------------------------------------------------------------------- switches


class Switches:
    """Write a file of Rust with switches for some changes; line breaks stay where they are."""

    def __init__(self, source: bytes, changes: list[Change]) -> None:
        import tree_sitter_rust
        from tree_sitter import Language, Parser

        self.source = source
        root = Parser(Language(tree_sitter_rust.language())).parse(source).root_node
        self.at: dict[int, list[Change]] = defaultdict(list)
        for change in changes:
            node = _node_of(root, change)
            if node is not None:
                self.at[node.id].append(change)
        self.text = self._render(root).decode()

    def _render(self, node: Node) -> bytes:
        parts, at = [], node.start_byte
        for child in node.children:
            parts += [self.source[at : child.start_byte], self._render(child)]
            at = child.end_byte
        sound = b"".join([*parts, self.source[at : node.end_byte]])
        for change in self.at.get(node.id, []):
            sound = self._switched(node, change, sound.decode()).encode()
        return sound

    def _switched(self, node: Node, change: Change, sound: str) -> str:
        """Put a switch before the sound text of a node. Other switches within stay on the sound side alone."""
        on, new = SWITCH.format(change.number), change.replacement
        match change.genre:
            case "FnValue":
                return f"{{ if {on} {{ return {_flat(new)}; }} {sound.removeprefix('{')}"
            case "BinaryOperator":
                left, right = (self._plain(node.child_by_field_name(side)) for side in ("left", "right"))
                changed = f"{left} {new} ({right})" if node.type.startswith("compound") else f"({left}) {new} ({right})"
            case "UnaryOperator":
                changed = self._plain(node.children[-1])
            case "MatchArmGuard":
                changed = new
            case _:  # MatchArm: `pattern` or `pattern if guard` stands for itself only while the switch is off
                guard = node.child_by_field_name("condition")
                return re.sub(r"\bif\b(.*)$", rf"if !{on} && (\1)", sound, flags=re.S) if guard else f"{sound} if !{on}"
        return f"(if {on} {{ {changed} }} else {{ {sound} }})"

    def _plain(self, node: Node | None) -> str:
        assert node is not None
        return _flat(self.source[node.start_byte : node.end_byte].decode())


def _flat(text: str) -> str:
    """Write text in one line, so that a second copy of it moves nothing."""
    return re.sub(r"//[^\n]*", "", text).replace("\n", " ")


def _node_of(root: Node, change: Change) -> Node | None:
    """Find what a change is about; None where a switch cannot stand for it."""
    node = root.descendant_for_byte_range(change.start, change.end)
    match change.genre:
        case "BinaryOperator" | "UnaryOperator":
            kinds = {"binary_expression", "compound_assignment_expr", "unary_expression"}
            found = node.parent if node is not None else None
            return found if found is not None and found.type in kinds else None
        case "FnValue":
            while node is not None and not (node.type == "block" and node.parent.type == "function_item"):
                node = node.parent
            return node
        case "MatchArmGuard":
            while node is not None and node.parent is not None and node.parent.type != "match_pattern":
                node = node.parent
            return node
        case "MatchArm":
            while node is not None and node.type != "match_arm":
                node = node.parent
            return None if node is None else node.child_by_field_name("pattern")
    return None


# ----------------------------------------------------------------------------------------------------- builds


class Crate:
    """A copy of the crate with switches, in a folder where Cargo.toml and rust/ may be overwritten."""

    def __init__(self, folder: Path, sources: Path, changes: list[Change], target: Path) -> None:
        self.folder, self.sources, self.target = folder, sources, target
        self.changes = changes
        self.paths = {"rust/lib.rs", *(change.path for change in changes)}

    def write(self) -> None:
        """Write all sources, with a switch for each change that is left."""
        built = set()
        for path in self.paths:
            changes = [change for change in self.changes if change.path == path]
            switches = Switches((self.sources / path).read_bytes(), changes)
            module = "\n#[doc(hidden)]\npub mod switches;\n" if path == "rust/lib.rs" else ""
            (self.folder / path).write_text(switches.text + module, encoding="utf-8")
            built |= {change.number for of in switches.at.values() for change in of}
        self.changes = [change for change in self.changes if change.number in built]
        count = max(change.number for change in self.changes) + 1
        module = MODULE.replace("COUNT", str(count))
        (self.folder / "rust/switches.rs").write_text(module, encoding="utf-8")

    def mend(self) -> None:
        """Take out what does not compile, until all does: types that know no such operator, constants."""
        while True:
            self.write()
            broken = self._broken()
            if not broken:
                return
            self.changes = [change for change in self.changes if change.number not in broken]

    def _broken(self) -> set[int]:
        messages = (message["message"] for message in self.cargo("check", "--lib") if "message" in message)
        errors = [message for message in messages if message["level"] == "error"]
        spans = [span for error in errors for span in error["spans"] if span["is_primary"]]
        places = ((span["file_name"], span["byte_start"], span["byte_end"]) for span in spans)
        broken = set().union(*(self._switches_at(*place) for place in places))
        if errors and not broken:
            raise SystemExit("\n".join(error["rendered"] for error in errors))
        return broken

    def _switches_at(self, path: str, start: int, end: int) -> set[int]:
        """Switches within a faulty stretch, or else the last before it."""
        pattern = re.escape(SWITCH).replace(r"\{\}", r"(\d+)").encode()
        places = [(found.start(), int(found[1])) for found in re.finditer(pattern, (self.folder / path).read_bytes())]
        within = {number for at, number in places if start <= at < end}
        return within or {number for at, number in [place for place in places if place[0] < start][-1:]}

    def test_program(self) -> str:
        """Compile the tests and return the program."""
        return self._made("executable", self.cargo("test", "--lib", "--no-run", CARGO_PROFILE_DEV_OPT_LEVEL="1"))

    def extension(self) -> str:
        """Compile the extension and return the library: not its best, since it serves some minutes of tests."""
        args = ("rustc", "--lib", "--release", "--features", "python", "--crate-type", "cdylib")
        return self._made("filenames", self.cargo(*args, CARGO_PROFILE_RELEASE_OPT_LEVEL="1"))

    def _made(self, field: str, messages: list[dict[str, Any]]) -> str:
        for message in messages:
            if message.get("reason") == "compiler-artifact" and message["target"]["name"] == "manyhands":
                made = message[field]
                return made if isinstance(made, str) else made[0]
        raise SystemExit("\n".join(message["message"]["rendered"] for message in messages if "message" in message))

    def cargo(self, *args: str, **where: str) -> list[dict[str, Any]]:
        """Run cargo and return its messages; that something does not compile is told by these."""
        command = ["cargo", *args, "--message-format", "json", "--quiet"]
        environment = {**os.environ, "CARGO_TARGET_DIR": str(self.target), "RUSTFLAGS": "-Awarnings", **where}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode and not any(message.get("reason") == "compiler-message" for message in messages):
            raise SystemExit(done.stderr)
        return messages
