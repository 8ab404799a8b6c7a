"""Random trees of files with owners, modes, access control lists, links and later changes."""

from __future__ import annotations

import os
import random
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FIRST_UID, FIRST_GID = 20_000, 30_000
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
TOKEN_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
TOKEN_LENGTH = 12
"""Length of a token, which begins with `zq`. Each name has its own, so that a search finds hidden names."""
TOKENS = re.compile(rf"zq[{TOKEN_LETTERS}]{{{TOKEN_LENGTH - 2}}}")
DIRECTORY_MODES = [0o750, 0o711, 0o700, 0o770, 0o1777, 0o2775, 0o2770, 0o710, 0o744, 0o311, 0o000, 0o705, 0o707, 0o5755, 0o3777]
FILE_MODES = [0o640, 0o600, 0o444, 0o000, 0o060, 0o604, 0o4755, 0o2755, 0o1644, 0o111]
KINDS = {stat.S_IFDIR: "directory", stat.S_IFREG: "file", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo"}


@dataclass(frozen=True)
class Person:
    """A user with the groups of its processes, the first one as primary group."""

    uid: int
    gids: tuple[int, ...]

    def text(self) -> str:
        return f"{self.uid}:{','.join(map(str, self.gids))}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a file, as user 0 sees it."""

    path: str
    kind: str
    inode: int
    mode: int
    uid: int
    gid: int
    size: int
    links: int
    target: str | None

    @property
    def token(self) -> str:
        return token_of(self.path)

    def attributes(self) -> tuple:
        """Returns the attributes that a server shows. Those of a directory that follow from its entries are left out."""
        plain = self.kind != "directory"
        return (
            self.kind,
            f"{self.mode:04o}",
            self.uid,
            self.gid,
            self.size if plain else None,
            self.links if plain else None,
            self.target,
        )


def token_of(path: str) -> str:
    return path.rpartition("/")[2][:TOKEN_LENGTH]


def new_token(rng: random.Random) -> str:
    return "zq" + "".join(rng.choices(TOKEN_LETTERS, k=TOKEN_LENGTH - 2))


def people(rng: random.Random, users: int, groups: int) -> list[Person]:
    """Returns users, each with one to five groups."""
    gids = range(FIRST_GID, FIRST_GID + groups)
    return [Person(FIRST_UID + n, tuple(rng.sample(gids, rng.randint(1, min(5, groups))))) for n in range(users)]


def encode_acl(entries: list[tuple[int, int, int]]) -> bytes:
    """Encodes entries (tag, permissions, id) in the form of the extended attributes."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, bits, number) for tag, bits, number in sorted(entries))


def describe_acl(path: str) -> str:
    """Returns the lists of a file for a report."""
    texts = []
    for name in (ACCESS, DEFAULT):
        try:
            raw = os.getxattr(path, name, follow_symlinks=False)
        except OSError:
            continue
        tags = {1: "owner", 2: "u:{}", 4: "group", 8: "g:{}", 16: "mask", 32: "other"}
        entries = (f"{tags[tag].format(number)}={bits:o}" for tag, bits, number in struct.iter_unpack("<HHI", raw[4:]))
        texts.append(f"{name.rpartition('_')[2]} list: {' '.join(entries)}")
    return "; ".join(texts) or "no list"


class Tree:
    """A tree below a folder of this machine, which grows and changes as a seed says."""

    def __init__(self, root: Path, rng: random.Random, who: list[Person], acls: bool) -> None:
        self.root, self.rng, self.acls = str(root), rng, acls
        self.uids = [0, *(person.uid for person in who)]
        self.gids = [0, *sorted({gid for person in who for gid in person.gids})]
        os.mkdir(self.root)
        os.chmod(self.root, 0o755)

    def name(self) -> str:
        ending = self.rng.choice([".dat", ".h5", ".nc", "", ""])
        odd = self.rng.choice([" %41", "+&=", "#é", "'\"", ";,"]) if self.rng.random() < 0.03 else ""
        return f"{new_token(self.rng)}{odd}{ending}"

    def acl(self, is_directory: bool) -> bytes:
        """Returns a random list: mostly with entries that let users in, sometimes with ones that shut them out."""
        usual = [5, 5, 7, 0, 4, 1] if is_directory else [4, 4, 6, 0, 2]
        bits = lambda: self.rng.choice(usual)  # noqa: E731
        nobody = 0xFFFF_FFFF
        entries = [(1, self.rng.choice([7, 6, 5, 0]), nobody), (4, bits(), nobody), (32, self.rng.choice([5, 4, 0, 0]), nobody)]
        named_users = self.rng.sample(self.uids, min(self.rng.randint(0, 3), len(self.uids)))
        named_groups = self.rng.sample(self.gids, min(self.rng.randint(0, 3), len(self.gids)))
        entries += [(2, bits(), uid) for uid in named_users] + [(8, bits(), gid) for gid in named_groups]
        if named_users or named_groups or self.rng.random() < 0.3:
            entries.append((16, self.rng.choice([7, 7, 5, 4, 0]), nobody))
        return encode_acl(entries)

    def give_rights(self, path: str, is_directory: bool, anew: bool = True) -> None:
        """Sets owner, mode and lists. Without `anew` some of them stay as the system sets them for a new file."""
        rng = self.rng
        if anew or rng.random() < 0.8:
            os.chown(path, rng.choice(self.uids), rng.choice(self.gids), follow_symlinks=False)
        usual, others = (0o755, DIRECTORY_MODES) if is_directory else (0o644, FILE_MODES)
        chance = rng.random()
        if chance < 0.55:
            os.chmod(path, usual)
        elif chance < 0.9:
            os.chmod(path, rng.choice(others))
        else:
            os.chmod(path, rng.randrange(0o10000))
        if self.acls and rng.random() < 0.25:
            os.setxattr(path, ACCESS, self.acl(is_directory))
            if rng.random() < 0.2:
                # A later change of the mode changes the mask of the list.
                os.chmod(path, rng.choice(others))
        if self.acls and is_directory and rng.random() < 0.15:
            os.setxattr(path, DEFAULT, self.acl(True))

    def create(self, directories: list[str], files: list[str]) -> str:
        """Creates one entry of a random kind in one of these directories, and adds it to the lists."""
        rng = self.rng
        path = f"{rng.choice(directories)}/{self.name()}"
        chance = rng.random()
        if chance < 0.17:
            os.mkdir(path)
            self.give_rights(path, True, anew=False)
            directories.append(path)
        elif chance < 0.22 and files:
            os.link(rng.choice(files), path, follow_symlinks=False)
        elif chance < 0.28:
            target = rng.choice(files or directories) if rng.random() < 0.5 else rng.choice(directories)
            if rng.random() < 0.5:
                target = os.path.relpath(target, os.path.dirname(path))
            os.symlink(target, path)
            os.chown(path, rng.choice(self.uids), rng.choice(self.gids), follow_symlinks=False)
        elif chance < 0.30:
            os.mkfifo(path)
            self.give_rights(path, False, anew=False)
        else:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
            os.ftruncate(descriptor, rng.randrange(1 << rng.randrange(1, 20)))
            os.close(descriptor)
            self.give_rights(path, False, anew=False)
            files.append(path)
        return path

    def grow(self, entries: int) -> None:
        directories, files = [self.root], list[str]()
        # Directories directly below the root are open, so that each user sees a part of the tree.
        for _ in range(4):
            path = f"{self.root}/{self.name()}"
            os.mkdir(path)
            os.chmod(path, 0o755)
            directories.append(path)
        for _ in range(entries - 5):
            self.create(directories, files)

    def snapshot(self) -> dict[str, Entry]:
        """Returns all entries by their paths, the root included."""
        found: dict[str, Entry] = {}
        left = [self.root]
        found[self.root] = entry(self.root, os.lstat(self.root))
        while left:
            with os.scandir(left.pop()) as listed:
                for one in listed:
                    made = entry(one.path, one.stat(follow_symlinks=False))
                    found[one.path] = made
                    if made.kind == "directory":
                        left.append(one.path)
        return found

    def change(self, known: dict[str, Entry], count: int) -> Iterator[tuple[str, ...]]:
        """Makes changes. Each is returned before it is made, as a word with paths: `mv FROM TO`, `rights PATH`, …"""
        rng = self.rng
        directories = [path for path, one in known.items() if one.kind == "directory" and path != self.root]
        plain = [path for path, one in known.items() if one.kind == "file"]
        for _ in range(count):
            kind = rng.choice(
                ["rights", "rights", "rights", "directory", "directory", "move", "move_directory", "link", "unlink", "create"]
            )
            path = rng.choice(directories if kind in ("directory", "move_directory") else plain)
            if not os.path.lexists(path):
                # It is in a directory that was moved.
                continue
            to = f"{rng.choice([self.root, *directories])}/{self.name()}"
            if kind in ("move", "move_directory", "link") and (
                not os.path.isdir(os.path.dirname(to)) or f"{to}/".startswith(f"{path}/")
            ):
                continue
            if kind in ("rights", "directory"):
                yield ("rights", path)
                if rng.random() < 0.3:
                    for name in (ACCESS, DEFAULT):
                        if name in os.listxattr(path):
                            os.removexattr(path, name)
                self.give_rights(path, kind == "directory")
            elif kind in ("move", "move_directory"):
                yield ("mv", path, to)
                os.rename(path, to)
            elif kind == "link":
                yield ("ln", path, to)
                os.link(path, to)
            elif kind == "unlink":
                yield ("rm", path)
                os.unlink(path)
            else:
                place = [path for path in directories if os.path.isdir(path)]
                yield ("create", self.create(place, []))


def entry(path: str, of: os.stat_result) -> Entry:
    kind = KINDS[stat.S_IFMT(of.st_mode)]
    target = os.readlink(path) if kind == "symlink" else None
    return Entry(path, kind, of.st_ino, of.st_mode & 0o7777, of.st_uid, of.st_gid, of.st_size, of.st_nlink, target)
