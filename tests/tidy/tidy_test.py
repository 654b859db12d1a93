#!/usr/bin/env python3
"""Feeds tidy.py trees that break one rule each: a check that cannot fail holds nothing."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import tidy


class BrokenTree(unittest.TestCase):
    def faults(self, files, *checks):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return tidy.faults(folder, checks)

    def expect(self, check, files, *parts):
        found = self.faults(files, check)
        self.assertEqual(len(found), len(parts), found)
        for part in parts:
            self.assertTrue(any(part in fault for fault in found), f"{part!r} is in none of {found}")

    def test_arrows_point_down(self):
        self.expect("arrows", {
            "runtime/base/a.h": '#include "runtime/wire/b.h"\n',
            "runtime/pace/p.cpp": '#include "runtime/net/t.h"\n',
            "runtime/quant/q.cpp": '#include "platforms/x86/k.h"\n',
            "runtime/worker/w.cpp": '#include "server/s.h"\n',
            "server/s.cpp": '\n#include "runtime/worker/w.h"\n',
            "server/report/r.cpp": '#include "server/s.h"\n',
            "server/core.cpp": '#include "simulate/fleet.h"\n',
            "platforms/arm/k.cpp": '#include "runtime/base/bytes.h"\n',
            "runtime/data/d.cpp": '#include "reader.h"\n',
            "simulate/f.cpp": '#include "tests/support/seed.h"\n',
        }, "runtime/base/a.h:1", "runtime/pace/p.cpp:1", "runtime/quant/q.cpp:1", "runtime/worker/w.cpp:1",
            "server/s.cpp:2", "server/report/r.cpp:1", "server/core.cpp:1", "platforms/arm/k.cpp:1",
            "runtime/data/d.cpp:1", "simulate/f.cpp:1")

    def test_arrows_that_are_allowed(self):
        self.expect("arrows", {
            "runtime/wire/a.h": '#include "runtime/base/b.h"\n#include "runtime/wire/c.h"\n#include <vector>\n',
            "runtime/quant/d.cpp": '#include "kernel_sets.inc"\n',
            "server/main.cpp": '#include "simulate/fleet.h"\n#include "server/report/plot.h"\n',
            "platforms/x86/k.cpp": '#include "runtime/quant/kernels.h"\n',
            "tests/unit.cpp": '#include "server/s.h"\n#include "tests/support/seed.h"\n',
        })

    def test_walls_hold_third_party_headers(self):
        self.expect("walls", {
            "runtime/net/transport.h": "#include <nng/nng.h>\n",
            "runtime/quant/a.cpp": "#include <mbedtls/ssl.h>\n#include <zlib.h>\n#include <immintrin.h>\n",
            "server/b.cpp": '#include "messages_generated.h"\n#include <CLI/CLI.hpp>\n',
            "runtime/pace/c.cpp": "#include <toml++/toml.h>\n",
            "runtime/worker/d.cpp": "#include <nlohmann/json.hpp>\n#include <doctest/doctest.h>\n",
        }, "transport.h:1", "a.cpp:1", "a.cpp:2", "a.cpp:3", "b.cpp:1", "b.cpp:2", "c.cpp:1", "d.cpp:1", "d.cpp:2")

    def test_no_processor_conditions(self):
        self.expect("processors", {"runtime/quant/a.cpp": "#ifdef __AVX2__\n#endif\n#if defined(__aarch64__)\n"},
                    "a.cpp:1", "a.cpp:3")

    def test_lists_and_files_agree(self):
        self.expect("lists", {
            "runtime/quant/codecs.inc": "// CODEC(9, kOld, old)\nCODEC(0, kA, a)\nCODEC(0, kB, b)\nCODEC(2, kA, a)\nX\n",
            "runtime/quant/codec_a.cpp": "",
            "runtime/quant/codec_c.cpp": "",
            "runtime/pace/paces.inc": 'PACE(bsp, "waits, for all")\nPACE(bsp, "again")\n',
            "runtime/pace/pace_bsp.cpp": "",
            "runtime/pace/pace.cpp": "",
        }, "inc:3: id 0", "inc:3: runtime/quant/codec_b.cpp", "inc:4: name a", "inc:5", "codec_c.cpp:1", "inc:2: name bsp")

    def test_names_say_something(self):
        self.expect("names", {"runtime/base/string_utils.h": "", "server/common.cpp": "", "server/Big.h": "",
                              "server/information.h": ""}, "'utils'", "'common'", "snake_case")

    def test_text_is_the_projects_own(self):
        machine, registry, note = "/home" + "/me/x", "http:" + "//deb.deb" + "ian.org/x", "FIX" + "ME"
        self.expect("text", {"docs/a.md": f"see {machine}\n{registry}\n", "server/a.cpp": f"// {note}\n",
                             "server/b.cpp": "// share/home/x, a/wo" "rk/b\n"}, "a.md:1", "a.md:2", "a.cpp:1")

    def test_tests_mirror_their_sources(self):
        self.expect("mirror", {"tests/runtime/ghost/a_test.cpp": "", "runtime/base/a.cpp": "",
                               "tests/runtime/base/a_test.cpp": ""}, "runtime/ghost")

    def test_a_type_is_defined_in_one_header(self):
        self.expect("types", {"server/a.h": "struct Fleet {\n};\nclass Other;\n", "simulate/b.h": "class Fleet {\n};\n",
                              "simulate/c.h": "class Fleet;\nstruct Other {\n};\n"}, "simulate/b.h:1")

    def test_long_files_only_shrink(self):
        long = "\n" * (tidy.FILE_LINES_MAX + 10)
        listed = f"{tidy.FILE_LINES_MAX + 5} server/b.cpp\n700 server/c.cpp\n600 server/d.cpp\n700 server/e.cpp\n"
        self.expect("sizes", {"server/a.cpp": long, "server/b.cpp": long, "server/c.cpp": long, "server/d.cpp": "",
                              tidy.LONG_FILES: listed},
                    "server/a.cpp:1", "server/b.cpp:1", "server/d.cpp is short", "server/e.cpp does not exist")

    def test_format(self):
        version = subprocess.run("clang-format --version", shell=True, capture_output=True, text=True, check=False)
        if f"version {tidy.FORMAT_VERSION}." not in version.stdout:
            self.skipTest(f"clang-format {tidy.FORMAT_VERSION} is missing")
        style = (pathlib.Path(tidy.__file__).parents[2] / ".clang-format").read_text(encoding="utf-8")
        self.expect("format", {".clang-format": style, "server/a.cpp": "int  f( ) {return 1;}\n",
                               "server/b.cpp": "int f() { return 1; }\n"}, "server/a.cpp:1")

    def test_a_fault_ends_with_exit_code_1(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, tidy.__file__, "--root", folder]
            self.assertEqual(subprocess.run(command, check=False, capture_output=True).returncode, 0)
            pathlib.Path(folder, "Common.cpp").write_text("", encoding="utf-8")
            self.assertEqual(subprocess.run(command, check=False, capture_output=True).returncode, 1)


if __name__ == "__main__":
    unittest.main()
