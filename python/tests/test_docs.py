"""The Python examples of the README and the book run as they are written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = [
    pytest.param(code, id=f"{page}-{i}")
    for page in ("README.md", "docs/book/python.md")
    for i, code in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S))
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code, tmp_path):
    (tmp_path / "example.py").write_text(code)
    run = [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning", "example.py"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "written by execution:" in done.stdout
