"""Reads the headers of scientific files for `esker harvest`, in a process of its own: a file that hangs, crashes a library or
takes too much memory ends only this process.

A request is a line of JSON on stdin: {"path": ..., "kind": "fits" | "hdf5" | "netcdf" | "zarr"}. The response is a line
{"begin": true} when the library is loaded, and a line with the tags. Doubles other than integers are written as {"f": "0.1"},
and bytes as {"x": "00ff"}.
"""

import importlib
import importlib.util
import json
import os
import resource
import signal
import sys
import unicodedata
import warnings

MAX_TAGS, MAX_VALUE, MEMORY, SECONDS = (int(word) for word in sys.argv[1:5])

# Attributes of Esker's objects and words of its filters. Header entries with these names become tags `header.NAME`.
RESERVED = frozenset(
    "id created modified key type version name app owner step location size mode uid gid atime mtime ctime mount "
    "filesystem".split()
)
NAME_BYTES = 255
DEPTH = 7
# Values that take more bytes than this in the file are not read.
READ_BYTES = max(16 << 20, 2 * MAX_VALUE)
# These cards describe the layout of an extension, so their tags always have the extension's name as a prefix.
STRUCTURE = frozenset(
    "XTENSION SIMPLE EXTEND BITPIX NAXIS PCOUNT GCOUNT GROUPS EXTNAME EXTVER EXTLEVEL TFIELDS THEAP CHECKSUM DATASUM "
    "BSCALE BZERO BLANK ZIMAGE ZTABLE ZBITPIX ZNAXIS ZCMPTYPE ZQUANTIZ ZDITHER0 INHERIT".split()
)
NUMBERED = frozenset(
    "NAXIS TTYPE TFORM TUNIT TDIM TSCAL TZERO TNULL TDISP TBCOL TDMIN TDMAX TLMIN TLMAX TCOMM ZNAXIS ZTILE ZNAME ZVAL "
    "ZFORM ZCTYP".split()
)
JOINED = ("COMMENT", "HISTORY", "")
LIBRARIES = {"fits": "astropy.io.fits", "hdf5": "h5py", "netcdf": "netCDF4", "zarr": "zarr"}


class Unreadable(Exception):
    """A value that exists but that the library cannot read."""


def clean(text):
    """Replaces the surrogates that libraries make of invalid bytes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if text.isascii() is False else text


def cut(text, limit):
    """Returns the beginning of a text, at most `limit` bytes of UTF-8."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


class Tags:
    """The tags of one file, and notes on omitted ones."""

    def __init__(self):
        self.tags = {}
        self.cut = []
        self.dropped = 0
        self.unread = []
        self.notes = []

    def full(self):
        return len(self.tags) >= MAX_TAGS

    def root(self, name, value):
        """Adds an entry of the file's root or primary header."""
        name = str(name)
        if name in RESERVED or name.startswith("esker.") or not name:
            name = "header." + name
        self.add(name, value)

    def add(self, name, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                self.add(f"{name}.{key}", inner)
            return
        # Names of tags must not have `=` or control characters, because users type tags as NAME=VALUE.
        name = "".join("_" if c == "=" or unicodedata.category(c) == "Cc" else c for c in clean(str(name))) or "_"
        if len(name.encode()) > NAME_BYTES:
            whole = name
            name = cut(name, NAME_BYTES)
            self.cut.append(cut(whole, 80))
        if name in self.tags:
            return
        if self.full():
            self.dropped += 1
            return
        try:
            tag_value, complete = fit(value)
        except MemoryError:
            raise
        except Exception as error:  # libraries raise many types; the other values are still read
            self.add_unread(name, error)
            return
        if not complete:
            self.cut.append(name)
        self.tags[name] = tag_value

    def add_unread(self, name, error):
        self.unread.append(f"{clean(str(name))}: {clean(str(error))}"[:200])

    def answer(self, kind):
        answer = {"format": kind, "tags": list(self.tags.items())}
        omitted = []
        if self.dropped:
            omitted.append(f"{self.dropped} tags beyond the first {MAX_TAGS}")
        if self.cut:
            more = f" and {len(self.cut) - 20} more" if len(self.cut) > 20 else ""
            omitted.append("cut: " + ", ".join(self.cut[:20]) + more)
        if omitted:
            answer["truncated"] = "; ".join(omitted)
        if self.unread:
            more = f" and {len(self.unread) - 5} more" if len(self.unread) > 5 else ""
            answer["unread"] = "; ".join(self.unread[:5]) + more
        if self.notes:
            answer["warning"] = clean("; ".join(self.notes[:5]))[:1000]
        return answer


def fit(value):
    """Returns a value as JSON, shortened to `MAX_VALUE` bytes or items, and whether it is complete."""
    if isinstance(value, str):
        text = clean(value)
        short = cut(text, MAX_VALUE)
        return short, len(short) == len(text)
    if isinstance(value, (bytes, bytearray)):
        return fit_bytes(bytes(value))
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return fit_array(value)
    if isinstance(value, (list, tuple)):
        return fit_list(value)
    return scalar(value), True


def fit_bytes(data):
    try:
        return fit(data.rstrip(b"\0").decode("utf-8"))
    except UnicodeDecodeError:
        return {"x": data[:MAX_VALUE].hex()}, len(data) <= MAX_VALUE


def fit_array(value):
    kind = value.dtype.kind
    if kind == "V":
        if value.dtype.names is None:
            return fit_bytes(value.tobytes())
        if value.shape == ():
            return fit_list([value[name] for name in value.dtype.names])
        return fit_list(list(value.ravel()[: MAX_VALUE + 1]))
    if value.shape == ():
        return fit(value.item()) if kind not in "Mm" else (str(value), True)
    if value.size == 1:
        # Many programs write a single number as an array with one item, which filters could not compare.
        return fit(value.ravel()[0])
    if value.ndim > DEPTH or value.size > MAX_VALUE:
        flat = value.ravel()
        items, _ = fit_list(flat[: MAX_VALUE + 1].tolist())
        return items, False
    if kind in "Mm":
        value = value.astype(str)
    return fit_list(value.tolist())


def fit_list(items):
    budget = [MAX_VALUE]
    return shorten(list(items), budget, 1)


def shorten(items, budget, depth):
    out = []
    for item in items:
        if budget[0] <= 0:
            return out, False
        if isinstance(item, (list, tuple)) or (hasattr(item, "shape") and item.shape != ()):
            if depth >= DEPTH:
                return out, False
            inner, complete = shorten(list(item), budget, depth + 1)
            out.append(inner)
            if not complete:
                return out, False
            continue
        inner, complete = fit(item)
        budget[0] -= len(inner.encode()) + 2 if isinstance(inner, str) else 9
        if budget[0] < 0 or not complete:
            return out, False
        out.append(inner)
    return out, True


def scalar(value):
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        value = int(value)
        if -(1 << 63) <= value < 1 << 63:
            return value
        try:
            near = float(value)
        except OverflowError:
            return str(value)
        return near if int(near) == value else str(value)
    if isinstance(value, float):
        value = float(value)
        # A double as text keeps all its bits.
        return value if value.is_integer() and abs(value) < 1 << 53 else {"f": repr(value)}
    if isinstance(value, complex):
        return [scalar(value.real), scalar(value.imag)]
    if isinstance(value, dict):
        return cut(json.dumps(value, default=str), MAX_VALUE)
    name = type(value).__name__
    if name in ("Undefined", "Empty"):
        return None
    if name in ("Reference", "RegionReference"):
        raise Unreadable("a reference to a part of the file")
    return cut(clean(str(value)), MAX_VALUE)


def fits(path, tags):
    from astropy.io import fits as library

    seen = {}
    prefixes = set()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with library.open(path, mode="readonly", memmap=False, lazy_load_hdus=True) as hdus:
            number = 0
            while True:
                try:
                    hdu = hdus[number]
                except IndexError:
                    break
                cards(hdu.header, number, seen, prefixes, tags)
                number += 1
    for warning in caught:
        text = str(warning.message)
        if "truncated" in text and text not in tags.notes:
            tags.notes.append(text)


def cards(header, number, seen, prefixes, tags):
    joined = {}
    read = {}
    for card in header.cards:
        try:
            keyword = card.keyword
            if keyword in JOINED:
                joined.setdefault(keyword, []).append(str(card.value))
            elif keyword not in read and keyword != "END":
                read[keyword] = card.value
        except Exception as error:  # the card is invalid; the others are still read
            tags.add_unread(card.rawkeyword if hasattr(card, "rawkeyword") else "card", error)
    for keyword, lines in joined.items():
        read[keyword or "blank"] = "\n".join(lines).strip("\n")
    if number == 0:
        for keyword, value in read.items():
            seen[keyword] = value
            tags.root(keyword, value)
        return
    version = read.get("EXTVER", 1)
    prefix = str(read.get("EXTNAME") or f"HDU{number}").strip() or f"HDU{number}"
    if version != 1:
        prefix = f"{prefix}{version}"
    if prefix in prefixes:
        prefix = f"HDU{number}"
    prefixes.add(prefix)
    for keyword, value in read.items():
        if keyword in STRUCTURE or keyword.rstrip("0123456789") in NUMBERED or keyword in ("COMMENT", "HISTORY", "blank"):
            tags.add(f"{prefix}.{keyword}", value)
        elif keyword not in seen:
            seen[keyword] = value
            tags.root(keyword, value)
        elif not equal(seen[keyword], value):
            tags.add(f"{prefix}.{keyword}", value)


def equal(one, other):
    return type(one) is type(other) and repr(one) == repr(other)


def hdf5(path, tags):
    library = importlib.import_module("h5py")

    with library.File(path, "r", locking=False) as file:
        if "_NCProperties" in file.attrs and importlib.util.find_spec("netCDF4"):
            return "netcdf"
        attributes(library, file, tags.root, tags)

        def visit(name, thing):
            if tags.full():
                tags.dropped += 1
                return True
            name = clean(name)
            attributes(library, thing, lambda key, value: tags.add(f"{name}.{key}", value), tags)
            if isinstance(thing, library.Dataset):
                tags.add(f"{name}:shape", None if thing.shape is None else list(thing.shape))
                try:
                    tags.add(f"{name}:dtype", str(thing.dtype))
                except MemoryError:
                    raise
                except Exception as error:  # numpy lacks some HDF5 types
                    tags.add_unread(f"{name}:dtype", error)
            return None

        file.visititems(visit)
    return "hdf5"


def attributes(library, thing, put, tags):
    count = len(thing.attrs)
    for key in thing.attrs:
        if tags.full():
            tags.dropped += count
            return
        count -= 1
        try:
            room = storage(thing.attrs.get_id(key))
            if room > READ_BYTES:
                put(key, None)
                tags.cut.append(f"{clean(key)} ({room} bytes, not read)")
                continue
            value = thing.attrs[key]
        except MemoryError:
            raise
        except Exception as error:  # Python lacks the type of the attribute
            tags.add_unread(key, error)
            continue
        put(key, value)


def storage(attribute):
    try:
        return attribute.get_storage_size()
    except RuntimeError:  # an empty attribute has no storage, which h5py reports as an error
        return 0


def netcdf(path, tags):
    library = importlib.import_module("netCDF4")

    dataset = library.Dataset(path, "r")
    try:
        netcdf_group(dataset, "", tags)
    finally:
        dataset.close()


def netcdf_group(group, prefix, tags):
    for key in group.ncattrs():
        name = f"{prefix[:-1]}.{key}" if prefix else key
        netcdf_attribute(group, key, tags.add if prefix else tags.root, name, tags)
    for name, dimension in group.dimensions.items():
        tags.add(f"{prefix}{name}:length", len(dimension))
    for name, variable in group.variables.items():
        if tags.full():
            tags.dropped += 1
            continue
        whole = prefix + name
        for key in variable.ncattrs():
            netcdf_attribute(variable, key, tags.add, f"{whole}.{key}", tags)
        tags.add(f"{whole}:dims", list(variable.dimensions))
        tags.add(f"{whole}:shape", list(variable.shape))
        kind = variable.dtype
        tags.add(f"{whole}:dtype", "str" if kind is str else str(kind))
    for name, inner in group.groups.items():
        netcdf_group(inner, f"{prefix}{name}/", tags)


def netcdf_attribute(thing, key, put, name, tags):
    try:
        value = thing.getncattr(key)
    except MemoryError:
        raise
    except Exception as error:  # netCDF4 cannot read some user-defined types
        tags.add_unread(name, error)
        return
    put(name, value)


def zarr(path, tags):
    library = importlib.import_module("zarr")

    root = library.open(path, mode="r")
    for key, value in dict(root.attrs).items():
        tags.root(key, value)
    if hasattr(root, "shape"):
        zarr_array("array", root, tags)
        return
    if hasattr(root, "members"):
        things = sorted(root.members(max_depth=None), key=lambda member: member[0])
    else:
        things = []
        root.visititems(lambda name, thing: things.append((name, thing)))
    for name, thing in things:
        for key, value in dict(thing.attrs).items():
            tags.add(f"{name}.{key}", value)
        if hasattr(thing, "shape"):
            zarr_array(name, thing, tags)


def zarr_array(name, array, tags):
    tags.add(f"{name}:shape", list(array.shape))
    tags.add(f"{name}:dtype", str(array.dtype))
    chunks = getattr(array, "chunks", None)
    if chunks:
        tags.add(f"{name}:chunks", list(chunks))


def read(kind, path):
    tags = Tags()
    if kind == "fits":
        fits(path, tags)
    elif kind == "hdf5":
        kind = hdf5(path, tags)
        if kind == "netcdf":
            tags = Tags()
            netcdf(path, tags)
    elif kind == "netcdf":
        netcdf(path, tags)
    else:
        zarr(path, tags)
    return tags.answer(kind)


def main():
    # The command handles Ctrl-C, and ends this process by closing its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Output of libraries must not mix with the responses.
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)

    def respond(response):
        out.write(json.dumps(response, allow_nan=False) + "\n")
        out.flush()

    respond({"ready": sys.version.split()[0]})
    for line in sys.stdin:
        request = json.loads(line)
        library = LIBRARIES[request["kind"]]
        try:
            importlib.import_module(library)
        except Exception as error:  # a library that fails to load is reported as missing
            absent = isinstance(error, ModuleNotFoundError)
            respond({"missing": library.split(".")[0], "why": "" if absent else str(error)[:500]})
            continue
        respond({"begin": True})
        # If the command is killed while a file hangs, only this alarm ends the process.
        signal.alarm(SECONDS * 2 + 60)
        try:
            respond(read(request["kind"], request["path"]))
        except MemoryError:
            respond({"error": f"reading its header takes more than {MEMORY >> 20} MiB of memory", "last": True})
            sys.exit(3)
        except Exception as error:  # any problem of a file is reported; the process continues with the next file
            text = clean(str(error)).strip().split("\n")[0][:500]
            respond({"error": text or type(error).__name__})
        signal.alarm(0)


main()
