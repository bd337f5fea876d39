"""Look up known weaknesses of all that we depend on, and say so where that could not be done: ``make audit``.

``cargo audit`` reads the advisories of Rust crates, ``pip-audit`` those of Python packages. Where its index does not
answer, the latter finds none and calls it a success; here, what was not looked up is not a success. What is given
on the command line goes to ``cargo audit``: ``--db FOLDER --no-fetch`` for a copy of the advisories
(https://github.com/RustSec/advisory-db) where they cannot be fetched.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

#: What is compiled into the library, and what the fuzz targets need.
LOCKS = ("Cargo.lock", "fuzz/Cargo.lock")
#: The package under test is not on any index under its present version.
OURS = "manyhands"


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program and keep what it says."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)


def crates(lock: str, options: list[str]) -> str:
    """What is wrong with the crates of a lock file, in a line; nothing where nothing is."""
    found = run(["cargo", "audit", *options, "--file", lock])
    if found.returncode == 0:
        print(f"{lock}: no known weaknesses")
        return ""
    if re.search("error.*advisory database", found.stderr):
        return (
            f"{lock} was not looked up, because the advisories cannot be fetched; where there is a copy of them: "
            "make audit AUDIT_ARGS='--db FOLDER --no-fetch'"
        )
    print(found.stdout, found.stderr, sep="\n")
    return f"{lock}: see what cargo audit says above"


def packages() -> str:
    """What is wrong with the Python packages of this environment, in a line; nothing where nothing is."""
    found = run([sys.executable, "-m", "pip_audit", "--local", "--format", "json", "--progress-spinner", "off"])
    try:
        dependencies: list[dict[str, Any]] = json.loads(found.stdout)["dependencies"]
    except (ValueError, KeyError):
        return f"Python packages were not looked up, because pip-audit failed: {(found.stderr.split() or ['?'])[-1]}"
    theirs = [each for each in dependencies if each["name"] != OURS]
    for each in theirs:
        for weakness in each.get("vulns", []):
            fixed = ", ".join(weakness["fix_versions"]) or "no version"
            print(f"{each['name']} {each['version']}: {weakness['id']}, fixed in {fixed}")
    weak = [each["name"] for each in theirs if each.get("vulns")]
    unknown = [each["name"] for each in theirs if "skip_reason" in each]
    said = [f"known weaknesses in {', '.join(weak)}"] if weak else []
    if unknown:
        said.append(
            f"{len(unknown)} of {len(theirs)} were not looked up, such as {unknown[0]}: is the index reachable?"
        )
    if not said:
        print(f"{len(theirs)} Python packages: no known weaknesses")
        return ""
    return f"Python packages: {'; '.join(said)}"


def main(options: list[str]) -> int:
    """Look everything up, whatever becomes of the parts, and end with a line for each that is not well."""
    wrong = [line for line in (*(crates(lock, options) for lock in LOCKS), packages()) if line]
    for line in wrong:
        print(f"make audit: {line}", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
