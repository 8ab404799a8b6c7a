"""Copies the sources of the documentation site into one folder, and adds the pages that are generated from the program.

Usage: site.py ESKER FOLDER
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import sys

import python_api

ROOT = pathlib.Path(__file__).resolve().parents[2]


def help_of(esker: str, *words: str) -> str:
    return subprocess.run([esker, *words, "--help"], capture_output=True, text=True, check=True, env={"COLUMNS": "110"}).stdout


def commands_in(text: str) -> list[str]:
    """Returns the names of the commands in a help text. They follow `Commands:`; in the top-level help, they are between usage and options."""
    found = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.M) or re.search(r"^Usage: esker \[OPTIONS\] <COMMAND>\n(.*?)^Options:$", text, re.M | re.S)
    names = re.findall(r"^  ([a-z][a-z-]*)", found.group(1), re.M) if found else []
    return [name for name in names if name != "help"]


def options(esker: str) -> str:
    """Returns the page of all commands with their options, from the program's help texts."""
    out = ["# Options of every command\n", "These are the outputs of `--help`.\n"]

    def add(words: list[str]) -> None:
        text = help_of(esker, *words)
        out.append(f"{'#' * (len(words) + 1)} esker {' '.join(words)}\n")
        body = text.split("\nGlobal options:")[0] if words else text
        examples = re.search(r"^Examples?:\n.*", text, re.M | re.S)
        if examples and examples.group() not in body:
            body += "\n\n" + examples.group()
        out.append(f"```text\n{body.rstrip()}\n```\n")
        for name in commands_in(text):
            add([*words, name])

    for name in commands_in(help_of(esker)):
        add([name])
    return "\n".join(out)


def http(document: dict) -> str:
    """Returns the page of the HTTP API, from its OpenAPI document."""
    out = ["# HTTP API\n", "From the server's own document, `GET /api/v1/openapi.json`. [server.md](../book/server.md) describes requests.\n"]
    for path, item in document["paths"].items():
        for verb, operation in item.items():
            if not isinstance(operation, dict) or "summary" not in operation:
                continue
            out.append(f"## `{verb.upper()} {path}`\n")
            out.append(operation["summary"] + ".\n")
            rows = operation.get("parameters", [])
            if rows:
                out.append("| parameter | in | |\n|---|---|---|")
                for row in rows:
                    needed = " (required)" if row.get("required") else ""
                    text = row.get("description", "").replace("|", "\\|")
                    out.append(f"| `{row['name']}` | {row['in']} | {text}{needed} |")
                out.append("")
    return "\n".join(out)


def page_of(book: dict) -> str:
    """Returns a notebook as a page: its texts, code cells and stored outputs."""
    out = []
    for cell in book["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            out.append(text)
            continue
        out.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            drawing = re.match(r"<svg .*?</svg>", "".join(data.get("text/html", "")), re.S)
            if drawing:
                out.append(f"```{{raw}} html\n{drawing.group()}\n```")
            words = "".join(output.get("text", data.get("text/plain", ""))).rstrip()
            out.append(f"````{{code-block}} text\n:class: esker-output\n\n{words}\n````")
    return "\n\n".join(out) + "\n"


def with_output(text: str) -> str:
    """Gives output, a `text` block directly after an `sh` block as in run.py, the class `esker-output`, which the style sheet shows differently."""
    return re.sub(r"(^( *)```sh\n(?:.*\n)*?\2```\n\n)\2```text\n", r"\1\2```{code-block} text\n\2:class: esker-output\n\n", text, flags=re.M)


def check_titles(folder: pathlib.Path) -> None:
    """Ends the program if two pages have one title, because search results and the sidebar show only titles."""
    pages: dict[str, list[str]] = {}
    for page in sorted(folder.rglob("*.md")):
        title = title_and_first(page.read_text())[0]
        pages.setdefault(title.lower().removeprefix("the "), []).append(page.relative_to(folder).as_posix())
    same = [f"{' and '.join(names)}: {title}" for title, names in pages.items() if len(names) > 1]
    if same:
        sys.exit("docs: pages have the same title:\n" + "\n".join(same))


def title_and_first(text: str) -> tuple[str, str]:
    title = re.search(r"^# (.*)", text, re.M)
    body = re.sub(r"^#.*|^```.*?^```|^\|.*", "", text, flags=re.M | re.S if False else re.M)
    first = next((p for p in body.split("\n\n") if p.strip() and not p.lstrip().startswith(("```", "|", "<"))), "")
    return (title.group(1) if title else "", re.sub(r"\s+", " ", first).strip()[:200])


def main(esker: str, folder: pathlib.Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("site", "notebooks"))
    for name in ("conf.py", "index.md"):
        shutil.copy(ROOT / "docs/site" / name, folder / name)
    shutil.copytree(ROOT / "docs/site/_static", folder / "_static")
    shutil.copy(ROOT / "docs/site/internals.md", folder / "internals/index.md")
    shutil.copy(ROOT / "ARCHITECTURE.md", folder / "ARCHITECTURE.md")
    with (folder / "rfcs/README.md").open("a") as page:
        page.write("\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n")
    (folder / "reference").mkdir()
    (folder / "reference/options.md").write_text(options(esker))
    (folder / "notebooks").mkdir()
    for book in sorted((ROOT / "docs/notebooks").glob("*.ipynb")):
        (folder / "notebooks" / f"{book.stem}.md").write_text(page_of(json.loads(book.read_text())))
    document = json.loads((ROOT / "web/openapi.json").read_text())
    (folder / "reference/python.md").write_text(python_api.page(ROOT / "python/src/esker"))
    (folder / "reference/http.md").write_text(http(document))
    pages = sorted(p for p in folder.rglob("*.md") if p.name not in ("index.md",))
    names = {p.relative_to(folder).as_posix() for p in pages}
    for page in pages:
        text = page.read_text()
        here = page.relative_to(folder).parent

        # A link to a file that the site lacks becomes the file's name, because the file is in the repository.
        def resolve_link(found: re.Match[str], here: pathlib.PurePath = here) -> str:
            label, target = found.groups()
            path = target.split("#")[0]
            if not path or "://" in target:
                return found.group()
            parts: list[str] = []
            for part in (*here.parts, *pathlib.PurePosixPath(path).parts):
                parts = parts[:-1] if part == ".." else [*parts, part]
            copy = folder / "/".join(parts)
            return found.group() if copy.exists() else f"{label} (`{path.replace('../', '')}`)"

        text = re.sub(r"^<!-- docs: .*?-->\n", "", text, flags=re.M | re.S)  # comments for run.py
        page.write_text(with_output(re.sub(r"\[([^\]\n]+)\]\(([^)\s]+)\)", resolve_link, text)))
    check_titles(folder)
    extra = folder / "_extra"
    extra.mkdir()
    lines = ["# Esker", "", "> The metadata of scientific computing as a versioned property graph: lineage, search, a namespace, RDF, remote metadata.", ""]
    whole = []
    for name in sorted(names):
        text = (folder / name).read_text()
        title, first = title_and_first(text)
        lines.append(f"- [{title}]({name.removesuffix('.md')}.html): {first}")
        whole.append(text)
    (extra / "llms.txt").write_text("\n".join(lines) + "\n")
    (extra / "llms-full.txt").write_text("\n\n".join(whole))


main(sys.argv[1], pathlib.Path(sys.argv[2]))
