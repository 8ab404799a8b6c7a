"""Rights of a user to the files of a tree, as its own process finds them: the answers of lstat(2), access(2) and a walk."""

from __future__ import annotations

import errno
import os
import pickle
from dataclasses import dataclass, field

from .tree import TOKENS, Entry, Person

REACH, READ, SEARCH = 1, 2, 4


@dataclass
class Powers:
    """Rights of one user, as its process found them."""

    flags: bytes = b""
    """For each path: `REACH` if lstat(2) succeeds, `READ` and `SEARCH` as access(2) says."""
    walked: list[str] = field(default_factory=list)
    """Paths that `find` prints with their attributes."""
    through: list[tuple[str, int | str]] = field(default_factory=list)
    """For paths through symbolic links: the inode number that stat(2) finds, or the name of its error."""
    objects: bytes = b""
    """For each stand-in of an object: 1 if access(2) lets the user read it."""


def query_process(person: Person, root: str, paths: list[str], through: list[str], objects: list[str]) -> Powers:
    """Starts a process of that user, without any capability, and returns its rights."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            os.setgroups(person.gids)
            os.setresgid(person.gids[0], person.gids[0], person.gids[0])
            os.setresuid(person.uid, person.uid, person.uid)
            found = look(root, paths, through, objects)
            with open(writer, "wb") as out:
                pickle.dump(found, out)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader, "rb") as data:
        raw = data.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"the process of user {person.text()} failed: status {status}")
    return pickle.loads(raw)


def look(root: str, paths: list[str], through: list[str], objects: list[str]) -> Powers:
    flags = bytearray(len(paths))
    for place, path in enumerate(paths):
        try:
            os.lstat(path)
        except OSError as e:
            if e.errno != errno.EACCES:
                raise
            continue
        bits = REACH
        # access(2) on a symbolic link itself, without following it.
        if os.access(path, os.R_OK, follow_symlinks=False):
            bits |= READ
        if os.access(path, os.X_OK, follow_symlinks=False):
            bits |= SEARCH
        flags[place] = bits
    return Powers(
        bytes(flags),
        walk(root),
        [(path, follow(path)) for path in through],
        bytes(os.access(path, os.R_OK) for path in objects),
    )


def walk(root: str) -> list[str]:
    """Returns the paths whose attributes `find` shows: entries of a directory that may be listed but not searched have none."""
    found, left = [root], [root]
    while left:
        directory = left.pop()
        try:
            with os.scandir(directory) as listed:
                names = [one.path for one in listed]
        except PermissionError:
            continue
        for path in names:
            try:
                kind = os.lstat(path).st_mode
            except PermissionError:
                continue
            found.append(path)
            if kind & 0o170000 == 0o040000:
                left.append(path)
    return found


def follow(path: str) -> int | str:
    try:
        return os.stat(path).st_ino
    except OSError as e:
        return errno.errorcode[e.errno or 0]


class UserView:
    """The part of a tree that a user may see, as its process found."""

    def __init__(self, person: Person, known: dict[str, Entry], powers: Powers, objects: list[str]) -> None:
        self.person, self.known = person, known
        paths = list(known)
        self.reached = {path for path, bits in zip(paths, powers.flags, strict=True) if bits & REACH}
        self.readable = {path for path, bits in zip(paths, powers.flags, strict=True) if bits & READ}
        self.searchable = {path for path, bits in zip(paths, powers.flags, strict=True) if bits & SEARCH}
        self.walked = set(powers.walked)
        self.through = powers.through
        self.inodes = {known[path].inode for path in self.readable}
        """Files that the user may read by one of their names."""
        self.objects = {name for name, may in zip(objects, powers.objects, strict=True) if may}
        self.tokens = {known[path].token for path in self.reached}
        """Names of files that the user can reach, and names in the targets of symbolic links, which readlink(2) shows."""
        for path in self.reached:
            self.tokens.update(TOKENS.findall(known[path].target or ""))

    def lists(self, directory: str) -> bool:
        """Whether the user may list a directory with the attributes of its entries."""
        return directory in self.readable and directory in self.searchable

    def sees(self, path: str) -> bool:
        """Whether the user sees the vertex of the file that has this name."""
        return self.known[path].inode in self.inodes

    def searches_above(self, path: str) -> bool:
        """Whether the user may search what remains of the directories of a removed file, which goes by its last state."""
        above = path.rpartition("/")[0]
        while above not in self.known:
            above = above.rpartition("/")[0]
        return above in self.searchable
