"""Runs the tutorials from the top and saves what they print and draw: ``make notebooks``, after their text was changed.

Nothing that changes from run to run is kept: no times, no numbers of runs, no names of kernels, so that what differs in
a diff is what a reader sees. ``scripts/notebooks.py learning`` runs one of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"


def run(path: Path) -> None:
    """Run a notebook and save it with what came out."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    notebook.metadata = {"language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.execution_count = None
            for output in cell.outputs:
                output.pop("execution_count", None)
                if output.output_type == "execute_result":
                    output.execution_count = None
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for path in sorted(TUTORIALS.glob("*.ipynb")):
        if path.stem in sys.argv[1:] or not sys.argv[1:]:
            print(path.name)
            run(path)
