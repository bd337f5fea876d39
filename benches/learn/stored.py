"""Runs of long experiments, stored one by one: an experiment that was interrupted continues where it stopped."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiment import Measures, Run, spread

#: Runs by table and method.
Tables = Mapping[str, Mapping[str, Run]]


class Runs:
    """Results of runs with the same settings, one line of JSON per run."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path, self.settings = path, dict(settings)

    def _lines(self) -> list[dict[str, Any]]:
        if not self.path.is_file():
            return []
        lines = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [line for line in lines if line["settings"] == self.settings]

    def measures(self) -> dict[tuple[str, str, int], Measures]:
        """Measures by table, method and seed."""
        return {(line["table"], line["method"], line["seed"]): line["measures"] for line in self._lines()}

    def seconds(self) -> float:
        """Processor seconds of all runs."""
        return sum(line["seconds"] for line in self._lines())

    def run(self, tables: Tables, seeds: range) -> None:
        """Run what is not stored yet: all tables and methods with one seed, then with the next."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for seed in seeds:
            for title, methods in tables.items():
                for method, run in methods.items():
                    # Read again, since other processes may run other seeds.
                    if (title, method, seed) not in self.measures():
                        self._run_one(title, method, seed, run)

    def _run_one(self, title: str, method: str, seed: int, run: Run) -> None:
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            measures = {name: round(float(value), 4) for name, value in run(seed).items()}
        seconds = round(time.process_time() - start, 1)
        line = {"table": title, "method": method, "seed": seed, "settings": self.settings}
        with self.path.open("a") as file:
            file.write(json.dumps(line | {"measures": measures, "seconds": seconds}) + "\n")
        print(f"seed {seed}; {title}; {method}: {measures} in {seconds} s", flush=True)

    def rows(self, title: str) -> list[dict[str, Any]]:
        """A row per method of a table: mean and deviation over seeds of each measure."""
        by_method: dict[str, list[Measures]] = {}
        for (table, method, _), measures in self.measures().items():
            if table == title:
                by_method.setdefault(method, []).append(measures)
        rows = []
        for method, found in by_method.items():
            rows.append({"method": method} | {name: spread([one[name] for one in found]) for name in found[0]})
            rows[-1]["seeds"] = str(len(found))
        return rows
