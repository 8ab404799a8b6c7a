"""Tests of libraries whose files a run observes: those that open files in C, and those that use Python's `open`."""

import gc
import os
import subprocess
import sys
import warnings
from pathlib import Path

import h5py
import matplotlib
import netCDF4
import numpy
import pandas
import polars
import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet
import pytest
import xarray
from netCDF4 import Dataset  # a name from before the first observed run
from polars import read_csv
from pyarrow.csv import read_csv as read_csv_of_arrow

import esker

matplotlib.use("Agg")

TABLE = pyarrow.table({"a": [1, 2], "b": [0.5, 1.5]})
FRAME = pandas.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
GRID = xarray.Dataset({"tas": ("time", [280.0, 281.0])})


def observed(db, work):
    """Returns the names of the files that a run reads and writes."""
    with esker.run("observed", db=db, observe=True) as run:
        work()
    return tuple(sorted(os.path.relpath(name[5:]) for name in db.travel().v(run.id).e(edge).v()) for edge in ("read", "write"))


def hdf5():
    with h5py.File("x.h5", "w") as file:
        file["a"] = [1, 2]


def hdf5_changed():
    with h5py.File("x.h5", "r+") as file:
        file["b"] = [3]


def hdf5_appended():
    with h5py.File(name="new.h5", mode="a") as file:
        file["b"] = [3]


def netcdf():
    with netCDF4.Dataset("x.nc", "w") as file:
        file.createDimension("time", None)
        file.createVariable("tas", "f8", ("time",))[:] = [280.0, 281.0]


def netcdf_read():
    with Dataset("x.nc") as file:
        assert file["tas"][0] == 280.0


def netcdf_in_memory():
    content = Path("x.nc").read_bytes()
    with netCDF4.Dataset("a label", memory=content) as file:
        assert file["tas"][1] == 281.0


def netcdf_classic():
    with netCDF4.Dataset("x.nc", "w", format="NETCDF4_CLASSIC") as file:
        file.createDimension("time", None)
        file.createVariable("tas", "f8", ("time",))[:] = [280.0, 281.0]


def netcdf_several():
    netCDF4.MFDataset(["x.nc"]).close()
    netCDF4.MFDataset("x.n?").close()


def figure():
    from matplotlib import pyplot

    pyplot.plot([1, 2], label="temperature")
    for ending in ("png", "pdf", "svg"):
        pyplot.savefig(f"figure.{ending}")
    pyplot.close()


def xarray_read(path, **options):
    def work():
        with xarray.open_dataset(path, **options) as data:
            data.load()

    return work


def partitions():
    pyarrow.parquet.write_to_dataset(TABLE, "parts", partition_cols=["a"], basename_template="{i}.parquet")


def ipc():
    with pyarrow.OSFile("x.arrow", "wb") as sink, pyarrow.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write(TABLE)
    with pyarrow.memory_map("x.arrow") as source:
        assert pyarrow.ipc.open_file(source).read_all() == TABLE


def streams():
    with pyarrow.output_stream("x.gz", compression="gzip") as sink:
        sink.write(b"text")
    with pyarrow.input_stream("x.gz") as source:
        assert source.read() == b"text"


def parquet_parts():
    with pyarrow.parquet.ParquetWriter("x.parquet", TABLE.schema) as writer:
        writer.write_table(TABLE)


PARTS = ["parts/a=1/0.parquet", "parts/a=2/0.parquet"]


@pytest.mark.parametrize(
    ("name", "write", "outputs", "read", "inputs"),
    [
        ("h5py", hdf5, ["x.h5"], lambda: h5py.File(Path("x.h5")).close(), ["x.h5"]),
        ("h5py, new", hdf5_appended, ["new.h5"], lambda: h5py.File("new.h5", "r").close(), ["new.h5"]),
        ("netCDF4", netcdf, ["x.nc"], netcdf_read, ["x.nc"]),
        ("netCDF4, several files", netcdf_classic, ["x.nc"], netcdf_several, ["x.nc"]),
        ("netCDF4, in memory", netcdf, ["x.nc"], netcdf_in_memory, ["x.nc"]),
        ("numpy", lambda: numpy.save("x.npy", [1]), ["x.npy"], lambda: numpy.load("x.npy"), ["x.npy"]),
        ("numpy, mapped", lambda: numpy.save("x.npy", [1]), ["x.npy"], lambda: numpy.load("x.npy", mmap_mode="r"), ["x.npy"]),
        ("numpy, archive", lambda: numpy.savez("x.npz", a=[1]), ["x.npz"], lambda: numpy.load("x.npz")["a"], ["x.npz"]),
        ("numpy, text", lambda: numpy.savetxt("x.txt", [1]), ["x.txt"], lambda: numpy.loadtxt("x.txt"), ["x.txt"]),
        ("numpy, binary", lambda: numpy.ones(2).tofile("x"), ["x"], lambda: numpy.fromfile("x"), ["x"]),
        ("matplotlib", figure, ["figure.pdf", "figure.png", "figure.svg"], lambda: matplotlib.image.imread("figure.png"), ["figure.png"]),
        ("pandas, CSV", lambda: FRAME.to_csv("x.csv"), ["x.csv"], lambda: pandas.read_csv("x.csv"), ["x.csv"]),
        ("pandas, CSV by pyarrow", lambda: FRAME.to_csv("x.csv"), ["x.csv"], lambda: pandas.read_csv("x.csv", engine="pyarrow"), ["x.csv"]),
        ("pandas, gzip", lambda: FRAME.to_csv("x.csv.gz"), ["x.csv.gz"], lambda: pandas.read_csv("x.csv.gz"), ["x.csv.gz"]),
        ("pandas, JSON", lambda: FRAME.to_json("x.json"), ["x.json"], lambda: pandas.read_json("x.json"), ["x.json"]),
        ("pandas, pickle", lambda: FRAME.to_pickle("x.pkl"), ["x.pkl"], lambda: pandas.read_pickle("x.pkl"), ["x.pkl"]),
        ("pandas, Parquet", lambda: FRAME.to_parquet("x.parquet"), ["x.parquet"], lambda: pandas.read_parquet("x.parquet"), ["x.parquet"]),
        ("pandas, Feather", lambda: FRAME.to_feather("x.feather"), ["x.feather"], lambda: pandas.read_feather("x.feather"), ["x.feather"]),
        ("pandas, ORC", lambda: FRAME.to_orc("x.orc"), ["x.orc"], lambda: pandas.read_orc("x.orc"), ["x.orc"]),
        ("xarray", lambda: GRID.to_netcdf("x.nc"), ["x.nc"], xarray_read("x.nc"), ["x.nc"]),
        ("xarray, netCDF4", lambda: GRID.to_netcdf("x.nc", engine="netcdf4"), ["x.nc"], xarray_read("x.nc", engine="netcdf4"), ["x.nc"]),
        ("pyarrow, Parquet", lambda: pyarrow.parquet.write_table(TABLE, "x.parquet"), ["x.parquet"], lambda: pyarrow.parquet.read_table("x.parquet"), ["x.parquet"]),
        ("pyarrow, row groups", parquet_parts, ["x.parquet"], lambda: pyarrow.parquet.ParquetFile("x.parquet").read(), ["x.parquet"]),
        ("pyarrow, schema", parquet_parts, ["x.parquet"], lambda: pyarrow.parquet.read_schema("x.parquet"), ["x.parquet"]),
        ("pyarrow, partitions", partitions, PARTS, lambda: pyarrow.parquet.read_table("parts"), PARTS),
        ("pyarrow, dataset", partitions, PARTS, lambda: pyarrow.dataset.dataset("parts", partitioning="hive").to_table(), PARTS),
        ("pandas, partitions", lambda: FRAME.to_parquet("parts", partition_cols=["a"], basename_template="{i}.parquet"), PARTS, lambda: pandas.read_parquet("parts"), PARTS),
        ("pyarrow, CSV", lambda: pyarrow.csv.write_csv(TABLE, "x.csv"), ["x.csv"], lambda: read_csv_of_arrow("x.csv"), ["x.csv"]),
        ("pyarrow, CSV in parts", lambda: pyarrow.csv.CSVWriter("x.csv", TABLE.schema).write(TABLE), ["x.csv"], lambda: pyarrow.csv.open_csv("x.csv").read_all(), ["x.csv"]),
        ("pyarrow, JSON", lambda: FRAME.to_json("x.json", orient="records", lines=True), ["x.json"], lambda: pyarrow.json.read_json("x.json"), ["x.json"]),
        ("pyarrow, Feather", lambda: pyarrow.feather.write_feather(TABLE, "x.feather"), ["x.feather"], lambda: pyarrow.feather.read_table("x.feather"), ["x.feather"]),
        ("pyarrow, ORC", lambda: pyarrow.orc.write_table(TABLE, "x.orc"), ["x.orc"], lambda: pyarrow.orc.read_table("x.orc"), ["x.orc"]),
        ("pyarrow, IPC", ipc, ["x.arrow"], lambda: pyarrow.OSFile("x.arrow").close(), ["x.arrow"]),
        ("pyarrow, streams", streams, ["x.gz"], lambda: pyarrow.input_stream("x.gz").close(), ["x.gz"]),
        ("polars, CSV", lambda: polars.DataFrame(TABLE).write_csv("x.csv"), ["x.csv"], lambda: read_csv("x.csv"), ["x.csv"]),
        ("polars, Parquet", lambda: polars.DataFrame(TABLE).write_parquet("x.parquet"), ["x.parquet"], lambda: polars.read_parquet("*.parquet"), ["x.parquet"]),
        ("polars, lazy", lambda: polars.LazyFrame({"a": [1]}).sink_parquet("x.parquet"), ["x.parquet"], lambda: polars.scan_parquet(["x.parquet"]).collect(), ["x.parquet"]),
        ("polars, IPC", lambda: polars.DataFrame(TABLE).write_ipc(file="x.arrow"), ["x.arrow"], lambda: polars.read_ipc(source="x.arrow"), ["x.arrow"]),
    ],
)  # fmt: skip
def test_a_library_is_observed(own, workdir, name, write, outputs, read, inputs):
    assert observed(own, write) == ([], outputs)
    assert observed(own, read) == (inputs, [])


def test_a_file_changed_in_place_is_read_and_written(own, workdir):
    hdf5()
    assert observed(own, hdf5_changed) == (["x.h5"], ["x.h5"])


def test_addresses_and_open_files_are_no_paths(own, workdir):
    pyarrow.csv.write_csv(TABLE, "x.csv")
    pyarrow.parquet.write_table(TABLE, "x.parquet")

    def work():
        with pytest.raises(OSError):
            netCDF4.Dataset("http://127.0.0.1:1/x.nc")
        with open("x.csv", "rb") as file:
            pyarrow.csv.read_csv(file)
        with open("x.parquet", "rb") as file:
            pyarrow.parquet.read_table(file)
            part = pyarrow.dataset.ParquetFileFormat().make_fragment(file)
            parts = pyarrow.dataset.FileSystemDataset([part], part.physical_schema, part.format)
            pyarrow.dataset.dataset([parts, pyarrow.dataset.dataset("x.csv", format="csv")])
        pyarrow.dataset.dataset(TABLE).to_table()
        pyarrow.csv.read_csv(pyarrow.BufferReader(b"a,b\n1,2\n"))

    assert observed(own, work) == (["x.csv", "x.parquet"], [])


def test_what_stands_for_a_class_is_that_class(own, workdir):
    netcdf()
    with netCDF4.Dataset("x.nc") as before, esker.run("observed", db=own, observe=True):
        assert isinstance(before, Dataset) and isinstance(before, netCDF4.Dataset)
        assert issubclass(netCDF4.MFDataset, Dataset) and not issubclass(dict, Dataset)

        class Own(Dataset):
            """A class of the program."""

        with netCDF4.Dataset("x.nc") as after, Own("x.nc") as own_file:
            assert type(after) is type(before)
            assert isinstance(own_file, Own) and isinstance(own_file, Dataset) and not isinstance(after, Own)
            assert own_file["tas"][0] == 280.0
        # netCDF4 fails to free a file whose class is freed at the same time.
        del own_file
        gc.collect()
    assert Dataset.__name__ == "Dataset" and Dataset.__doc__ == type(before).__doc__


def test_calls_outside_of_runs_are_unchanged(own, workdir):
    assert observed(own, hdf5) == ([], ["x.h5"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hdf5_changed()
        with h5py.File("x.h5") as file:
            assert list(file) == ["a", "b"]
        with pytest.raises(FileNotFoundError):
            h5py.File("absent.h5")


LATE = """
import esker, sys
with esker.run("late", db="lab.esker", observe=True) as run:
    assert not {"h5py", "netCDF4", "pyarrow", "polars"} & set(sys.modules), "esker imports a library"
    import h5py
    from netCDF4 import Dataset
    import polars, pyarrow.parquet
    h5py.File("x.h5", "w").close()
    Dataset("x.nc", "w").close()
    polars.DataFrame({"a": [1]}).write_parquet("x.parquet")
    pyarrow.parquet.read_table("x.parquet")
    polars.read_parquet("x.parquet")
print(*[path.rpartition("/")[2] for path in run.outputs], len(run.inputs))
"""


def test_a_library_that_is_loaded_during_the_run_is_observed(workdir):
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["x.h5", "x.nc", "x.parquet", "0"], done.stderr
