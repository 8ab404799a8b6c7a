# SPDX-License-Identifier: Apache-2.0
"""Spack's recipe for Esker. The source archive that `make dist` writes has all crates, so that the build needs no network.

    make dist
    spack repo add packaging/spack
    spack install esker
"""

import os

from spack.package import *


class Esker(Package):
    """A versioned property graph of the metadata of scientific computing: files, jobs, users, runs, and where results came from."""

    maintainers = []

    license("Apache-2.0", checked_by="esker")

    # The archive of this checkout; a site replaces this URL with that of its release archive.
    url = "file://" + os.path.abspath(
        os.path.join(os.path.dirname(__file__), "..", "..", "..", "..", "target", "dist", "esker-0.1.0.tar.gz")
    )

    version("0.1.0", no_cache=True)

    variant("harvest", default=True, description="Python libraries for esker harvest")

    depends_on("c", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("python@3.9:", type="run", when="+harvest")
    depends_on("py-astropy", type="run", when="+harvest")
    depends_on("py-h5py", type="run", when="+harvest")
    depends_on("py-netcdf4", type="run", when="+harvest")
    depends_on("py-zarr", type="run", when="+harvest")

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        for crate in ("cli", "bench", "rdf-workers"):
            cargo("install", "--offline", "--locked", "--root", str(prefix), "--path", join_path("crates", crate))
        esker = Executable(prefix.bin.esker)
        mkdirp(prefix.share.man.man1)
        esker("man", "--dir", prefix.share.man.man1)
        with open(join_path(prefix.share, "esker.bash"), "w") as file:
            esker("completions", "bash", output=file)

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        esker = Executable(self.prefix.bin.esker)
        with working_dir("spack-test", create=True):
            esker("init", "try.esker")
            esker("check", "try.esker")
