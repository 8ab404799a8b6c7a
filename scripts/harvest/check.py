"""Harvests real and generated files, and compares all tags with the values that the libraries read."""

import contextlib
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time
import warnings

import astropy
import h5py
import netCDF4
import numpy
from astropy.io import fits

ESKER = os.environ["ESKER_BIN"]
WORK = pathlib.Path(sys.argv[1])
FILES = WORK / "files"
# Reading this file takes minutes, so that it is outside FILES except during the checks that need it.
ENDLESS = FILES / "broken" / "endless.fits.gz"
ENDLESS_STORE = WORK / "endless"
TARGET = str(WORK / "t.esker")
SITES = [pathlib.Path(astropy.__file__).parent, pathlib.Path(h5py.__file__).parent / "tests"]


def esker(*words, code=0):
    done = subprocess.run([ESKER, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def harvest(*words, code=0):
    out, err = esker("harvest", TARGET, *words, "--python", sys.executable, "--format", "ndjson", code=code)
    return json.loads(out), err


def objects():
    out, _ = esker("find", TARGET, "esker.harvest.stamp EXISTS", "--format", "ndjson")
    rows = ({"tags": row["tags"], **row["attributes"]} for row in map(json.loads, out.splitlines()))
    return {row["location"]: row for row in rows}


def value(row, name):
    tags = row["tags"]
    assert name in tags, (row["location"], name, sorted(tags)[:50])
    return tags[name]


def tag_value(what):
    """Converts a value of a library to the expected value of its tag."""
    if isinstance(what, h5py.Empty) or type(what).__name__ == "Undefined":
        return None
    if isinstance(what, numpy.ndarray):
        if what.size == 1:
            return tag_value(what.ravel()[0])
        return [tag_value(item) for item in what]
    if isinstance(what, (list, tuple)):
        return [tag_value(item) for item in what]
    if isinstance(what, numpy.void):
        return [tag_value(what[name]) for name in what.dtype.names]
    if isinstance(what, bytes):
        return what.decode()
    if isinstance(what, numpy.generic):
        return tag_value(what.item())
    if isinstance(what, int) and not -(2**63) <= what < 2**63:
        return float(what) if int(float(what)) == what else str(what)
    if isinstance(what, complex):
        return [what.real, what.imag]
    return what


def equal(tag, what):
    what = tag_value(what)
    if isinstance(what, float) and not math.isfinite(what):
        return str(tag).lower().replace("infinity", "inf") == str(what)
    if isinstance(what, list):
        return isinstance(tag, list) and len(tag) == len(what) and all(map(equal, tag, what))
    if isinstance(what, bool) or what is None or isinstance(what, str):
        return tag == what and type(tag) is type(what)
    return tag == what and not isinstance(tag, (bool, str))


def compare(row, expected):
    for name, what in expected.items():
        tag = value(row, name)
        assert equal(tag, what), (row["location"], name, tag, what)
    return len(expected)


RESERVED = {"name", "version", "type", "size", "mode", "owner", "created"}


def tag_name(name):
    return f"header.{name}" if name in RESERVED else name.replace("=", "_")


def fits_expected(path):
    expected = {}
    seen = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with fits.open(path) as hdus:
            for number, hdu in enumerate(hdus):
                for key in dict.fromkeys(hdu.header):
                    if key in ("", "COMMENT", "HISTORY"):
                        continue
                    try:
                        what = hdu.header[key]
                    except fits.VerifyError:
                        continue
                    if number == 0:
                        seen[key] = expected[tag_name(key)] = what
                    elif key not in seen and not key.startswith(("NAXIS", "T", "Z", "XTEN", "PCOUNT", "GCOUNT", "EXT")):
                        if key not in ("BITPIX", "CHECKSUM", "DATASUM", "INHERIT", "BSCALE", "BZERO", "BLANK"):
                            seen[key] = expected[tag_name(key)] = what
            for key in ("COMMENT", "HISTORY"):
                if key in hdus[0].header:
                    lines = "\n".join(str(line) for line in hdus[0].header[key]).strip("\n")
                    if len(lines.encode()) <= 4096:
                        expected[key] = lines
    return expected


def hdf5_expected(path):
    expected = {}
    with h5py.File(path, "r") as file:

        def visit(name, thing):
            for key in thing.attrs:
                expected[f"{name}.{key}"] = thing.attrs[key]
            if isinstance(thing, h5py.Dataset):
                expected[f"{name}:shape"] = list(thing.shape)
                expected[f"{name}:dtype"] = str(thing.dtype)

        for key, what in file.attrs.items():
            expected[tag_name(key)] = what
        file.visititems(visit)
    return {key: what for key, what in expected.items() if not isinstance(what, h5py.Reference)}


def netcdf_expected(path):
    expected = {}

    def visit(group, prefix):
        for key in group.ncattrs():
            expected[f"{prefix[:-1]}.{key}" if prefix else tag_name(key)] = group.getncattr(key)
        for name, variable in group.variables.items():
            for key in variable.ncattrs():
                expected[f"{prefix}{name}.{key}"] = variable.getncattr(key)
            expected[f"{prefix}{name}:dims"] = list(variable.dimensions)
            expected[f"{prefix}{name}:shape"] = list(variable.shape)
        for name, inner in group.groups.items():
            visit(inner, f"{prefix}{name}/")

    with netCDF4.Dataset(path) as file:
        visit(file, "")
    return expected


def compare_all(rows):
    compared = {"fits": 0, "hdf5": 0, "netcdf": 0}
    expected = {"fits": fits_expected, "hdf5": hdf5_expected, "netcdf": netcdf_expected}
    for path, row in rows.items():
        if row["app"] == "zarr" or path.endswith(("many.h5", "huge.h5")):
            continue
        values = expected[row["app"]](path)
        if "esker.harvest.truncated" in row["tags"]:
            tags = row["tags"]
            values = {name: what for name, what in values.items() if name in tags and len(str(what)) < 1000}
        if path.endswith("values.h5"):
            assert value(row, "opaque"), row
            values = {name: what for name, what in values.items() if name != "opaque"}
        compared[row["app"]] += compare(row, values)
    return compared


def check_generated_files(rows):
    made = {pathlib.Path(path).name: row for path, row in rows.items() if str(FILES) in path}
    for version in (2, 3):
        compare(
            made[f"store{version}.zarr"],
            {
                "institution": "observatory",
                "levels": [1, 2, 3],
                "nested.deep.er": 0.5,
                "none": None,
                "physics/energy.units": "J",
                "physics/energy:shape": [10, 20],
                "physics/energy:dtype": "float64",
                "physics/energy:chunks": [5, 20],
            },
        )
    compare(made["alone.zarr"], {"alone": True, "array:shape": [4]})
    compare(
        made["extensions.fits"],
        {"FILTER": "F606W", "SCI.EXPTIME": 600.0, "SCI2.FILTER": "F814W", "SCI.NAXIS1": 5, "HDU3.TTYPE1": "flux", "ESO TEL ALT": 61.25},
    )
    compare(made["packed.fits.gz"], {"TELESCOP": "HST", "SCI.EXPTIME": 600.0})
    compare(made["netcdf4.nc"], {"forecasts/model1.note": "in a group", "forecasts/model1/names:dtype": "str", "lat:length": 3})
    many = made["many.h5"]["tags"]
    assert "9000 tags" in value(made["many.h5"], "esker.harvest.truncated"), many["esker.harvest.truncated"]
    assert sum(name.startswith("a0") for name in many) == 1000
    huge = made["huge.h5"]
    assert value(huge, "long") == "x" * 4096 and value(huge, "megabytes") is None and value(huge, "small") == 1
    assert value(huge, "numbers")[:3] == [0, 1, 2] and "megabytes" in value(huge, "esker.harvest.truncated")
    assert "reference" in value(made["values.h5"], "esker.harvest.unread")


def check_bad_files():
    """A file that its reader cannot read must not prevent the harvest of other files."""
    bad = FILES / "broken"
    ENDLESS_STORE.rename(ENDLESS)
    # Within 30 s a machine reads all other files, but cannot unpack 64 GiB.
    figures, errors = harvest(bad, FILES / "values.h5", "--file-timeout", "30s", code=1)
    assert figures["unchanged"] == 1 and figures["failed"] == 6, (figures, errors)
    for name in ("random.h5: named like", "truncated.h5: ", "head-only.fits: ", "empty.nc: named", "noise.nc: ", "endless.fits.gz: reading"):
        assert f"{bad}/{name}" in errors, (name, errors)
    assert "pipe.fits" not in errors
    # After the death of a reader, as by a crash of its library, the harvest must continue with a new reader.
    process = subprocess.Popen(
        [ESKER, "harvest", TARGET, bad / "endless.fits.gz", FILES / "extensions.fits", "--again", "--jobs", "1", "--file-timeout", "10m"]
        + ["--python", sys.executable, "--format", "ndjson"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    reader = wait_for(lambda: find_reader(process.pid, "endless.fits.gz"))
    os.kill(reader, signal.SIGSEGV)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 1 and "crashed on it (signal 11)" in err, (process.returncode, out, err)
    assert json.loads(out)["files"] == 1, out
    # 64 MiB of memory are too little for the reader.
    _, errors = harvest(FILES / "values.h5", "--again", "--file-memory", "64MiB", code=1)
    assert "memory" in errors or "does not" in errors, errors


def find_reader(parent, name):
    """Returns the process id of the child that has the file open, or None."""
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{parent}/task"):
            for child in pathlib.Path(f"/proc/{parent}/task/{task}/children").read_text().split():
                files = [os.readlink(entry) for entry in pathlib.Path(f"/proc/{child}/fd").iterdir()]
                if any(file.endswith(name) for file in files):
                    return int(child)
    return None


def wait_for(condition):
    for _ in range(6000):
        if value := condition():
            return value
        time.sleep(0.1)
    raise AssertionError("the condition is not met within ten minutes")


def check_interrupt():
    """Ctrl-C must end the harvest and its readers."""
    process = subprocess.Popen(
        [ESKER, "harvest", TARGET, ENDLESS, "--file-timeout", "10m", "--python", sys.executable],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    reader = wait_for(lambda: find_reader(process.pid, "endless.fits.gz"))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 1 and "interrupted" in err, (process.returncode, err)
    assert not os.path.exists(f"/proc/{reader}"), "the reader still runs"
    ENDLESS.rename(ENDLESS_STORE)


def check_changes():
    """A harvest must replace the tags of a changed file, and keep tags that a user has added."""
    path = FILES / "values.h5"
    where = f"location = '{path}'"
    esker("tag", "add", TARGET, "--where", where, "mine=yes")
    with h5py.File(path, "a") as file:
        del file.attrs["tenth"]
        file.attrs["telescope"] = "JWST"
        file.attrs["fresh"] = 1
    figures, _ = harvest(path)
    assert (figures["updated"], figures["created"]) == (1, 0), figures
    row = objects()[str(path)]
    tags = row["tags"]
    assert "tenth" not in tags and tags["telescope"] == "JWST" and tags["fresh"] == 1 and tags["mine"] == "yes", tags
    out, _ = esker("find", TARGET, where, "--count")
    assert out.split()[0] == "1", out
    out, _ = esker("edges", TARGET, f"file:{path}", "--format", "ndjson")
    edges = [json.loads(line) for line in out.splitlines()]
    assert [edge["type"] for edge in edges] == ["has"] and edges[0]["properties"] == {"evidence": "observed"}, edges
    path.chmod(0o600)
    (FILES / "packed.fits.gz").unlink()
    os.utime(FILES / "store2.zarr" / "physics" / ".zattrs", (1, 1))
    figures, _ = harvest(FILES, code=1)
    assert (figures["updated"], figures["gone"]) == (1, 1), figures


def plain_loop(paths):
    """Returns the files per second that a loop of a few lines reads with the same library."""
    began = time.perf_counter()
    for path in paths:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with fits.open(path) as hdus:
                assert sum(len([(card.keyword, card.value) for card in hdu.header.cards]) for hdu in hdus) > 0
    return len(paths) / (time.perf_counter() - began)


def print_speed():
    folder = WORK / "speed"
    folder.mkdir()
    source = next(SITES[0].glob("wcs/tests/data/j94f05bgq_flt.fits")).read_bytes()
    paths = [folder / f"{number}.fits" for number in range(500)]
    for path in paths:
        path.write_bytes(source)
    print(f"a plain Python loop reads {plain_loop(paths):,.0f} files/s")
    words = ["harvest", WORK / "speed.esker", folder, "--python", sys.executable, "--format", "ndjson"]
    for what in ("first", "second"):
        began = time.perf_counter()
        out, _ = esker(*words)
        took = time.perf_counter() - began
        figures = json.loads(out)
        print(f"{what} harvest of {len(paths)} files with {figures['tags']:,} tags: {len(paths) / took:,.0f} files/s")
    assert figures["unchanged"] == len(paths) and figures["files"] == 0, figures


def main():
    ENDLESS.rename(ENDLESS_STORE)
    figures, errors = harvest(*SITES, FILES / "..", code=1)
    rows = objects()
    print(f"harvested {figures['files']} files with {figures['tags']:,} tags, {figures['failed']} failed")
    assert len(rows) == figures["created"] == figures["files"], figures
    named = {p for site in SITES for ending in ("*.fits", "*.h5", "*.hdf5") for p in map(str, site.rglob(ending))}
    missed = {path for path in named if path not in rows}
    for path in missed:
        assert path in errors, f"{path} is neither harvested nor named"
    assert len(named) - len(missed) > 50, missed
    print(f"tags that equal the values of the libraries: {compare_all(rows)}")
    check_generated_files(rows)
    out, _ = esker("find", TARGET, "TELESCOP = 'HST' and EXPTIME > 100", "--select", "location", "--format", "csv")
    assert "j94f05bgq_flt.fits" in out and "extensions.fits" in out, out
    repeated, _ = harvest(*SITES, FILES / "..", code=1)
    assert repeated["files"] == 0 and repeated["unchanged"] == figures["files"] and repeated["failed"] == figures["failed"], repeated
    check_bad_files()
    check_interrupt()
    check_changes()
    out, errors = esker("harvest", WORK / "none.esker", FILES / "extensions.fits", "--dry-run", "--python", sys.executable, "--format", "json")
    assert json.loads(out)["tags"]["EXPTIME"] == 1234.5 and not (WORK / "none.esker").exists(), out
    print_speed()
    print("harvest: all checks passed")


main()
