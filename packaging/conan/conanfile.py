# SPDX-License-Identifier: MIT
"""The Conan 2 package of cuevent.

In a clone, conan create packaging/conan packages the source tree. A release has this folder with a
conandata.yml, which names its source archive: there, conan create FOLDER downloads it.

There is no Conan package of the driver's headers. The build looks for them as tools/find-headers does, and so
does each project that uses the package. Set CUDA_HOME if cuda.h is in an unusual folder.
"""
import os
import re
import shutil
import subprocess

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, get, load
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain


class Cuevent(ConanFile):
    name = "cuevent"
    description = "Events of the CUDA driver API"
    license = "MIT"
    topics = ("cuda", "gpu", "events", "graphs")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "sim": [True, False]}
    default_options = {"shared": False, "fPIC": True, "sim": True}
    implements = ["auto_shared_fpic"]

    @property
    def _tree(self):
        return os.path.join(self.recipe_folder, "..", "..")

    @property
    def _releases(self):
        """{version: where its archive is}. Empty in a clone."""
        return (self.conan_data or {}).get("sources", {})

    def set_version(self):
        if self._releases:
            self.version, = self._releases
            return
        meson_build = load(self, os.path.join(self._tree, "meson.build"))
        self.version = re.search(r"version: '([0-9.]+)'", meson_build)[1]

    def export_sources(self):
        if self._releases:
            return
        copy(self, "*", self._tree, self.export_sources_folder,
             excludes=("build*", ".git/*", ".headers/*", ".cache/*", "subprojects/*/*"))

    def source(self):
        if self._releases:
            get(self, **self._releases[self.version], strip_root=True)

    def layout(self):
        basic_layout(self, src_folder=".")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("cuevent runs on Linux")
        check_min_cppstd(self, 17)

    def build_requirements(self):
        for program, package in (("meson", "meson/[>=1.0]"), ("pkg-config", "pkgconf/[>=2.0]")):
            if shutil.which(program) is None:
                self.tool_requires(package)

    def generate(self):
        toolchain = MesonToolchain(self)
        toolchain.project_options.update({
            "tests": "disabled", "cli": "disabled", "examples": False, "bench": False,
            "install_sim": "true" if self.options.sim else "false"})
        toolchain.cpp_std = "c++20"  # of the sources; the headers need C++17
        toolchain.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        Meson(self).install()
        copy(self, "find-headers", os.path.join(self.source_folder, "tools"),
             os.path.join(self.package_folder, "res", "bin"))
        for generated in ("lib/pkgconfig", "lib/cmake"):  # Conan writes its own
            shutil.rmtree(os.path.join(self.package_folder, generated), ignore_errors=True)

    def package_info(self):
        finder = os.path.join(self.package_folder, "res", "bin", "find-headers")
        headers = subprocess.run([finder], text=True, stdout=subprocess.PIPE).stdout.strip()
        library = self.cpp_info.components["cuevent"]
        library.set_property("cmake_target_name", "cuevent::cuevent")
        library.set_property("pkg_config_name", "cuevent")
        library.libs = ["cuevent"]
        library.system_libs = ["dl", "pthread"]
        if self.options.sim:
            simulator = self.cpp_info.components["sim"]
            simulator.set_property("cmake_target_name", "cuevent::sim")
            simulator.set_property("pkg_config_name", "cuevent-sim")
            simulator.libs = ["cuevent-sim"]
            simulator.libdirs = ["lib/cuevent/sim"]
            simulator.system_libs = ["dl", "pthread"]
        for component in self.cpp_info.components.values():
            if headers not in ("", "/usr/include"):
                component.includedirs.append(headers)
