"""A build backend (PEP 517) that packs the extension module and the command `esker` into a wheel.

maturin cannot do this: it builds one package with only the features of that package, which compiles the engine a second time,
and it cannot add another package's program to the wheel. Here one call of cargo builds both, with the features of the
workspace's tests.

``ESKER_WHEEL_PROFILE=dev`` packs a debug build, most of which `make test` has compiled already. The default is a small release
build, whose command lacks SPARQL over several processes, half of its size.

scripts/packages.sh builds the wheel for other machines: ``ESKER_WHEEL_COMMAND`` is the path of a command that was built before.
``ESKER_WHEEL_TARGET=x86_64-unknown-linux-gnu.2.28`` builds the extension with cargo-zigbuild for that glibc or newer.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent


def _built() -> tuple[Path, Path]:
    """Builds the extension module and the command; returns their paths."""
    profile = os.environ.get("ESKER_WHEEL_PROFILE", "wheel")
    target = os.environ.get("ESKER_WHEEL_TARGET")
    command = os.environ.get("ESKER_WHEEL_COMMAND")
    call = ["cargo", "zigbuild" if target else "build", "--locked", "--profile", profile]
    if target:
        call += ["--target", target]
    if command:
        call += ["-p", "esker-python", "--lib"]
    elif profile == "dev":
        # With a test among the targets, cargo uses the features of tests, so that it compiles no crate twice.
        call += ["--lib", "--bin", "esker", "--test", "tidy"]
    else:
        call += ["-p", "esker-python", "-p", "esker", "--lib", "--bin", "esker"]
    call += ["--message-format", "json-render-diagnostics"]
    done = subprocess.run(call, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Path] = {"command": Path(command)} if command else {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact":
            kinds = message["target"]["kind"]
            name = message["target"]["name"]
            if name == "_esker" and "cdylib" in kinds:
                found["library"] = Path(message["filenames"][0])
            if name == "esker" and "bin" in kinds and message.get("executable"):
                found["command"] = Path(message["executable"])
    return found["library"], found["command"]


def _platform() -> str:
    import sysconfig

    target = os.environ.get("ESKER_WHEEL_TARGET", "")
    if "-gnu." in target:
        # A target such as `x86_64-unknown-linux-gnu.2.28` names the oldest glibc (PEP 600).
        arch, libc = target.split("-")[0], target.rpartition("-gnu.")[2]
        return f"manylinux_{libc.replace('.', '_')}_{arch}"

    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _project() -> dict:
    import tomllib  # the build needs Python 3.11; the wheel also works with 3.10

    return tomllib.loads((HERE / "pyproject.toml").read_text())["project"]


def _metadata() -> str:
    project = _project()
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
        f"License: {project['license']['text']}",
    ]
    lines += [f"Author: {author['name']}" for author in project["authors"]]
    lines.append(f"Keywords: {','.join(project['keywords'])}")
    lines += [f"Classifier: {classifier}" for classifier in project["classifiers"]]
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {need}; extra == "{extra}"' for need in needs]
    lines.append("Description-Content-Type: text/markdown")
    return "\n".join(lines) + "\n\n" + (HERE / project["readme"]).read_text()


class _Wheel:
    def __init__(self, path: Path) -> None:
        # The wheel of a debug build is large and used only once, so speed matters more than size.
        level = 1 if os.environ.get("ESKER_WHEEL_PROFILE") == "dev" else 9
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level)
        self.record: list[str] = []

    def add(self, name: str, data: bytes, mode: int = 0o644) -> None:
        # A fixed time makes the wheel reproducible.
        info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, name: str) -> None:
        self.zip.writestr(name, "\n".join([*self.record, f"{name},,", ""]))
        self.zip.close()


def _stripped(path: Path) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / path.name
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-debug", "-o", out, path], check=True)
            return out.read_bytes()
    return path.read_bytes()


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings=None) -> str:
    """Writes the metadata; without this function, pip would build a wheel only to read them."""
    project = _project()
    name = f"{project['name']}-{project['version']}.dist-info"
    folder = Path(metadata_directory) / name
    folder.mkdir()
    (folder / "METADATA").write_text(_metadata())
    return name


def build_wheel(wheel_directory: str, config_settings=None, metadata_directory=None) -> str:
    library, command = _built()
    project = _project()
    stem = f"{project['name']}-{project['version']}"
    tag = f"cp310-abi3-{_platform()}"
    name = f"{stem}-{tag}.whl"
    wheel = _Wheel(Path(wheel_directory) / name)
    source = HERE / "src"
    for path in sorted((source / "esker").rglob("*")):
        if path.suffix in (".py", ".pyi") or path.name == "py.typed":
            wheel.add(path.relative_to(source).as_posix(), path.read_bytes())
    wheel.add("esker/_esker.abi3.so", _stripped(library), 0o755)
    wheel.add(f"{stem}.data/scripts/esker", _stripped(command), 0o755)
    wheel.add(f"{stem}.dist-info/METADATA", _metadata().encode())
    about = f"Wheel-Version: 1.0\nGenerator: esker_build\nRoot-Is-Purelib: false\nTag: {tag}\n"
    wheel.add(f"{stem}.dist-info/WHEEL", about.encode())
    wheel.close(f"{stem}.dist-info/RECORD")
    return name


def build_sdist(sdist_directory: str, config_settings=None) -> str:
    raise NotImplementedError("Esker's package is built from a checkout: pip install ./python")
