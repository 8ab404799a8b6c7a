"""Writes the reference of the Python package `esker` from names, signatures and docstrings of its sources, without importing it."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
from collections.abc import Iterator

FIRST = ("open", "run", "Database", "Batch", "Run", "Travel", "Found", "Lineage", "Table")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def markdown_of(words: str | None) -> str:
    """Converts a docstring to Markdown."""
    words = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", inspect.cleandoc(words or "")).replace("``", "`")
    out, listed = [], False
    for block in re.split(r"\n\n+", words):
        if block.startswith(">>>"):
            out.append(f"```pycon\n{block}\n```")
        elif found := re.match(r"(Args|Raises|Returns|Yields):\n", block):
            listed = found.group(1) in ("Args", "Raises")
            lines = inspect.cleandoc(block[found.end() :])
            rows = re.sub(r"\n +", " ", lines)
            rows = re.sub(r"^([*\w]+): ", r"- `\1`: ", rows, flags=re.M) if listed else rows
            out.append(f"{'Arguments' if found.group(1) == 'Args' else found.group(1)}:\n\n{rows}")
        else:
            out.append(block)
    return "\n\n".join(out)


def signature_of(function: Function, name: str) -> str:
    """Returns the signature of a function as Markdown."""
    arguments = function.args
    own = [*arguments.posonlyargs, *arguments.args][:1]
    if own and own[0].arg in ("self", "cls"):
        (arguments.posonlyargs or arguments.args).pop(0)
    result = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    whole = f"{'async ' if isinstance(function, ast.AsyncFunctionDef) else ''}{name}({ast.unparse(arguments)}){result}"
    whole = re.sub(r"(: [\w\[\], |.]+)=", r"\1 = ", whole)
    whole = re.sub(r"mode: int = (\d+)", lambda found: f"mode: int = 0o{int(found.group(1)):o}", whole)
    if len(whole) > 100:
        head, rest = whole.split("(", 1)
        inside, tail = rest.rsplit(")", 1)
        inside = re.sub(r", (?=\*{0,2}[a-z_]+:|\*,|/,)", ",\n    ", inside)
        whole = f"{head}(\n    {inside},\n){tail}"
    return f"```python\n{whole}\n```"


def is_property(function: Function) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "property" for d in function.decorator_list)


def members(node: ast.ClassDef, name: str) -> Iterator[str]:
    fields = []
    for i, item in enumerate(node.body):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and not item.target.id.startswith("_"):
            following = node.body[i + 1] if i + 1 < len(node.body) else None
            description = following.value.value if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant) else ""
            fields.append((item.target.id, ast.unparse(item.annotation), description))
        elif isinstance(item, Function) and is_property(item) and not item.name.startswith("_"):
            fields.append((item.name, ast.unparse(item.returns) if item.returns else "", ast.get_docstring(item) or ""))
    if fields:
        rows = (f"| `{field}` | `{kind}` | {markdown_of(description)} |".replace(" | None", " \\| None") for field, kind, description in fields)
        yield "\n".join(["| field | type | |", "|---|---|---|", *rows])
    for item in node.body:
        if not isinstance(item, Function) or is_property(item):
            continue
        description = ast.get_docstring(item)
        if item.name.startswith("_") and (not item.name.startswith("__") or not description or item.name == "__init__"):
            continue
        yield f"### {name}.{item.name}".replace("__", "\\_\\_")
        yield signature_of(item, item.name)
        yield markdown_of(description)


def page(package: pathlib.Path) -> str:
    """Returns the page: the names in `__all__` of `esker`, and the classes of their results."""
    found: dict[str, ast.ClassDef | Function] = {}
    for file in ("_database", "_run", "_table", "_times", "travel", "errors", "__init__"):
        for node in ast.parse((package / f"{file}.py").read_text()).body:
            if isinstance(node, ast.ClassDef | Function):
                found[node.name] = node
    top = ast.parse((package / "__init__.py").read_text())
    lists = [n.value for n in top.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__"]
    public = {*ast.literal_eval(lists[0]), "Travel", "Found"} - {"__version__"}
    assert public <= found.keys(), public - found.keys()
    out = ["# Python API", "The package `esker`, from its docstrings; `help(esker.Database)` prints the same."]
    out.append("[python.md](../book/python.md) has examples.")
    for name in [*FIRST, *sorted(public - {*FIRST})]:
        node = found[name]
        out.append(f"## {name}")
        if isinstance(node, ast.ClassDef):
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            out += [markdown_of(ast.get_docstring(node)), f"A subclass of `{bases}`." if bases else "", *members(node, name)]
        else:
            out += [signature_of(node, f"esker.{name}"), markdown_of(ast.get_docstring(node))]
    aio = ast.parse((package / "aio.py").read_text())
    out += ["## esker.aio", markdown_of(ast.get_docstring(aio))]
    return "\n\n".join(part for part in out if part) + "\n"
