"""Writes files with unusual and damaged headers below a folder: make_files.py FOLDER."""

import gzip
import os
import pathlib
import sys

import h5py
import netCDF4
import numpy
import zarr
from astropy.io import fits


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True)
    hdf5(folder)
    netcdf(folder)
    fits_files(folder)
    zarr_stores(folder)
    broken(folder)


def hdf5(folder):
    with h5py.File(folder / "values.h5", "w") as file:
        file.attrs["telescope"] = "HST"
        file.attrs["größe"] = "Ångström ☀"
        file.attrs["name"] = "a reserved attribute name of objects"
        file.attrs["with space = and equals"] = 1
        file.attrs["whole"] = numpy.int16(-7)
        file.attrs["big"] = numpy.uint64(2**64 - 1)
        file.attrs["tenth"] = 0.1
        file.attrs["narrow"] = numpy.float32(0.1)
        file.attrs["nan"] = numpy.nan
        file.attrs["minus_infinity"] = -numpy.inf
        file.attrs["truth"] = numpy.bool_(True)
        file.attrs["complex"] = 1 + 2j
        file.attrs["ascii"] = numpy.bytes_("plain")
        file.attrs["one"] = numpy.array([5.5])
        file.attrs["list"] = numpy.arange(6).reshape(2, 3)
        file.attrs["words"] = ["a", "b"]
        file.attrs["empty"] = h5py.Empty("f8")
        file.attrs["opaque"] = numpy.void(b"\x00\xff\x80")
        file.attrs["compound"] = numpy.array((1, 2.5), dtype=[("n", "i4"), ("x", "f8")])
        group = file.create_group("entry")
        group.attrs["units"] = "keV"
        data = group.create_dataset("data", (3, 4), "f4")
        data.attrs["scale"] = 1e-5
        file.attrs["reference"] = data.ref
        file["entry/again"] = h5py.SoftLink("/entry/data")
        file["elsewhere"] = h5py.ExternalLink("no-such-file.h5", "/x")
    with h5py.File(folder / "many.h5", "w", libver="latest", track_order=True) as file:
        for number in range(10_000):
            file.attrs[f"a{number:05}"] = number
    with h5py.File(folder / "huge.h5", "w", libver="latest") as file:
        file.attrs["small"] = 1
        file.attrs["megabytes"] = numpy.zeros(1 << 22)
        file.attrs["long"] = "x" * 100_000
        file.attrs["numbers"] = numpy.arange(50_000)
    with h5py.File(folder / "behind-a-block.h5", "w", userblock_size=512) as file:
        file.attrs["behind"] = 512


def netcdf(folder):
    for model in ("NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"):
        with netCDF4.Dataset(folder / f"{model.lower()}.nc", "w", format=model) as file:
            file.title = "made for a test"
            file.version = "taken"
            file.createDimension("time", None)
            file.createDimension("lat", 3)
            tas = file.createVariable("tas", "f4", ("time", "lat"))
            tas.units = "K"
            tas.valid_range = numpy.array([100.0, 400.0])
            tas.missing_value = numpy.float32(1e20)
            tas[:] = numpy.ones((2, 3))
            if model == "NETCDF4":
                inner = file.createGroup("forecasts").createGroup("model1")
                inner.note = "in a group"
                names = inner.createVariable("names", str, ())
                names.long_name = "names of stations"


def fits_files(folder):
    primary = fits.PrimaryHDU()
    primary.header["TELESCOP"] = ("HST", "who")
    primary.header["EXPTIME"] = 1234.5
    primary.header["HIERARCH ESO TEL ALT"] = 61.25
    primary.header["LONGTEXT"] = "long " * 40
    primary.header["NOTHING"] = None
    primary.header["COMMENT"] = "first line"
    primary.header["COMMENT"] = "second line"
    primary.header["HISTORY"] = "calibrated"
    image = fits.ImageHDU(numpy.zeros((4, 5), "i2"), name="SCI")
    image.header["FILTER"] = "F606W"
    image.header["EXPTIME"] = 600.0
    other = fits.ImageHDU(numpy.zeros((2, 2), "i2"), name="SCI", ver=2)
    other.header["FILTER"] = "F814W"
    table = fits.BinTableHDU.from_columns([fits.Column("flux", "D", unit="Jy", array=numpy.zeros(3))])
    fits.HDUList([primary, image, other, table]).writeto(folder / "extensions.fits")
    fits.HDUList([primary, image]).writeto(folder / "packed.fits.gz")


def zarr_stores(folder):
    for version in (2, 3):
        root = zarr.open_group(folder / f"store{version}.zarr", mode="w", zarr_format=version)
        root.attrs.update({"institution": "observatory", "levels": [1, 2, 3], "nested": {"deep": {"er": 0.5}}, "none": None})
        array = root.create_group("physics").create_array("energy", shape=(10, 20), chunks=(5, 20), dtype="f8")
        array.attrs["units"] = "J"
        array[:] = 1.0
    zarr.open_array(folder / "alone.zarr", mode="w", shape=(4,), dtype="i4").attrs["alone"] = True


def broken(folder):
    folder = folder / "broken"
    folder.mkdir()
    (folder / "random.h5").write_bytes(os.urandom(10_000))
    whole = (folder.parent / "values.h5").read_bytes()
    (folder / "truncated.h5").write_bytes(whole[:600])
    (folder / "head-only.fits").write_bytes(b"SIMPLE  =                    T")
    (folder / "empty.nc").write_bytes(b"")
    (folder / "noise.nc").write_bytes(b"CDF\x01" + os.urandom(400))
    os.mkfifo(folder / "pipe.fits")
    # The second header follows 64 GiB of zeros, which a reader must unpack; the file takes 64 MiB on disk.
    head = fits.Header([("SIMPLE", True), ("BITPIX", 8), ("NAXIS", 1), ("NAXIS1", 64 << 30), ("EXTEND", True)])
    zeros = gzip.compress(bytes(64 << 20), 9)
    with open(folder / "endless.fits.gz", "wb") as file:
        file.write(gzip.compress(head.tostring().encode()))
        for _ in range(1024):
            file.write(zeros)


main()
