"""Runs notebooks, and refuses notebooks with stored outputs, which could be out of date."""

from __future__ import annotations

import os
import sys

import nbformat
from nbclient import NotebookClient

for path in sys.argv[1:]:
    book = nbformat.read(path, 4)
    nbformat.validate(book)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code), f"{path} has stored outputs: clear them"
    NotebookClient(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": os.environ["TMPDIR"]}}).execute()
    print(f"{path}: {len(code)} cells run")
