#!/usr/bin/env python3
"""Holds the tree to its own rules: arrows between layers, walls around third-party headers, lists and files
in step, names, sizes, format. CONTRIBUTING.md tells the rules; this file is what enforces them.

  tidy.py [--root FOLDER] [CHECK...]

Prints one line per fault, "path:line: what is wrong", and exits with 1 if there was any. A check is one function
below, named check_<what>; tidy_test.py feeds each of them a tree that breaks its rule.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

# Which layers a folder may include, besides itself. The longest folder that a path lies in counts.
BELOW_WORKER = ["runtime/base", "runtime/wire", "runtime/net", "runtime/trust", "runtime/data", "runtime/train", "runtime/quant",
                "runtime/freq", "runtime/privacy"]
BELOW_SERVER = BELOW_WORKER + ["runtime/content", "runtime/pace"]
ARROWS = {
    "runtime/base": [],
    "runtime/wire": ["runtime/base"],
    "runtime/net": ["runtime/wire", "runtime/base"],
    "runtime/trust": ["runtime/base"],
    "runtime/data": ["runtime/wire", "runtime/base"],
    "runtime/privacy": ["runtime/base"],
    "runtime/train": ["runtime/privacy", "runtime/wire", "runtime/base"],
    "runtime/quant": ["runtime/wire", "runtime/base"],
    "runtime/pace": ["runtime/base"],
    "runtime/freq": ["runtime/base"],
    "runtime/content": ["runtime/quant", "runtime/base"],
    "runtime/worker": BELOW_WORKER,
    "server/report": ["runtime/base"],
    "server/onnx": ["runtime/base", "runtime/data", "runtime/train"],
    "server": BELOW_SERVER + ["server/onnx", "server/report"],
    "simulate": BELOW_SERVER + ["runtime/worker", "server", "server/report"],
    "platforms": [],
}
# The way around an arrow, for single files: (includer, included) as patterns of whole paths.
EXTRA_ARROWS = [
    (r"platforms/.*", r"runtime/quant/kernel\w*\.h"),  # the contract that a kernel set fills
    (r"platforms/.*", r"runtime/base/checksum_unit\.h"),  # likewise of a checksum's instruction
    (r"server/(main|cli\w*|command_\w+)\.cpp", r"simulate/.*"),  # the composition root offers it as a command
]

# Third-party headers and the files that may include them. Tests follow the folder that they mirror.
WALLS = [
    (r"nng/.*", r"(tests/)?runtime/net/.*\.cpp|tests/contract/transport.*\.cpp"),
    (r"(mbedtls|psa)/.*", r"(tests/)?runtime/(net|trust)/.*\.cpp|runtime/trust/mbedtls_objects\.h"),
    (r"flatbuffers/.*|.*_generated\.h", r"(tests/)?runtime/wire/.*\.cpp"),
    (r"toml\+\+/.*", r"(tests/)?(runtime/(base|train|worker)|server)/.*\.cpp"),
    (r"CLI/.*", r"(runtime/worker|server)/(main|cli\w*)\.cpp"),
    (r"nlohmann/.*", r"server/.*\.cpp|(tests|bench)/.*\.cpp"),
    (r"zlib\.h", r"runtime/data/.*\.cpp|tests/runtime/data/.*"),
    (r"xnnpack.*", r"runtime/train/.*\.cpp"),
    (r"\w*intrin\.h|arm_neon\.h", r"platforms/.*"),
    (r"doctest/.*", r"tests/.*"),
]

# A list, the macro of its lines, and the files that belong to it.
LISTS = [
    ("runtime/quant/codecs.inc", "CODEC", "codec_"),
    ("runtime/pace/paces.inc", "PACE", "pace_"),
    ("runtime/freq/freqs.inc", "FREQ", "freq_"),
    ("runtime/train/layers.inc", "LAYER", "layer_"),
]

# Words that name nothing.
BANNED_FILE_WORDS = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "managers", "info"}
# Notes to oneself, paths of one machine, registries: (pattern, why). Written so that no pattern matches itself.
BANNED_TEXT = [
    (r"\b(TO[D]O|FIX[M]E|XX[X]|HAC[K])\b", "a leftover note: mend it or say the reason"),
    (r"(?<![\w.])/(?:home|root|work|Users)/", "a path of one machine"),
    (r"https?[:]//[^ ]*(?:debian|npm)", "a package registry: name the package instead"),
]

SOURCE = (".h", ".cpp", ".c", ".inc")
TEXT = SOURCE + (".py", ".sh", ".cmake", ".txt", ".md", ".json", ".toml", ".fbs", ".awk")
FILE_LINES_MAX = 500
FORMAT_VERSION = 14
LONG_FILES = "tests/tidy/long_files.txt"
GENERATED_INCLUDES = {"kernel_sets.inc", "messages_generated.h"}


class Tree:
    """The files of a checkout (what git tracks or would track), read once."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        names = self.tracked()
        if names is None:
            names = [str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file()]
        self.files = sorted(n for n in set(names) if (self.root / n).is_file() and not n.startswith(("build/", ".git/")))
        self.texts = {}

    def tracked(self):
        """What git tracks or would track; None outside a checkout, or without git."""
        if shutil.which("git") is None:
            return None
        listed = subprocess.run(
            ["git", "-C", str(self.root), "ls-files", "--cached", "--others", "--exclude-standard"],
            capture_output=True, text=True, check=False)
        return listed.stdout.splitlines() if listed.returncode == 0 else None

    def lines(self, name):
        if name not in self.texts:
            self.texts[name] = (self.root / name).read_text(encoding="utf-8", errors="replace").splitlines()
        return self.texts[name]

    def named(self, *suffixes):
        return [n for n in self.files if n.endswith(suffixes)]

    def includes(self, name):
        """Yields (line number, included path, whether it stands in quotes)."""
        for number, line in enumerate(self.lines(name), 1):
            found = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if found:
                yield number, found.group(2), found.group(1) == '"'


def layer_of(path):
    folders = [f for f in ARROWS if path.startswith(f + "/")]
    return max(folders, key=len) if folders else None


def check_arrows(tree):
    for name in tree.named(*SOURCE):
        layer = layer_of(name)
        for number, target, quoted in tree.includes(name):
            if quoted and "/" not in target and target not in GENERATED_INCLUDES:
                yield f'{name}:{number}: "{target}" must be included by its path from the root of the tree'
            target_layer = layer_of(target)
            if target.startswith("tests/") and not name.startswith("tests/"):
                yield f"{name}:{number}: only tests may include {target}"
            if layer is None or target_layer is None or target_layer == layer or target_layer in ARROWS[layer]:
                continue
            if not any(re.fullmatch(a, name) and re.fullmatch(b, target) for a, b in EXTRA_ARROWS):
                allowed = ", ".join(ARROWS[layer]) or "nothing but itself"
                yield f"{name}:{number}: {layer} must not include {target}; it may see {allowed}"


def check_walls(tree):
    for name in tree.named(*SOURCE):
        for number, target, _ in tree.includes(name):
            for pattern, allowed in WALLS:
                if re.fullmatch(pattern, target) and not re.fullmatch(allowed, name):
                    yield f"{name}:{number}: {target} stays inside {allowed}"


def check_processors(tree):
    """No #if on the processor in runtime/: what depends on it is a kernel set of platforms/."""
    pattern = re.compile(r"#\s*(if|ifdef|ifndef|elif)\b.*__(x86_64|i386|aarch64|arm|ARM|AVX|SSE)")
    for name in tree.named(*SOURCE):
        if not name.startswith("runtime/") or name == "runtime/train/cpu.cpp":
            continue
        for number, line in enumerate(tree.lines(name), 1):
            if pattern.search(line):
                yield f"{name}:{number}: no condition on the processor here; write a kernel set in platforms/"


def check_lists(tree):
    for listing, macro, prefix in LISTS:
        if listing not in tree.files:
            continue
        folder = listing.rsplit("/", 1)[0]
        names, ids = {}, {}
        for number, line in enumerate(tree.lines(listing), 1):
            found = re.match(macro + r"\((.*)\)\s*$", line)
            if not found:
                if line.strip() and not line.startswith("//"):
                    yield f"{listing}:{number}: neither a comment nor a line {macro}(...)"
                continue
            arguments = [a.strip() for a in found.group(1).split(",")]
            entry = arguments[-1] if macro == "CODEC" else arguments[0]
            keys = [(names, entry, "name")] + ([(ids, arguments[0], "id")] if macro == "CODEC" else [])
            for seen, key, what in keys:
                if key in seen:
                    yield f"{listing}:{number}: {what} {key} stands in line {seen[key]} already"
                seen[key] = number
            if f"{folder}/{prefix}{entry}.cpp" not in tree.files:
                yield f"{listing}:{number}: {folder}/{prefix}{entry}.cpp is missing"
        for name in tree.named(".cpp"):
            found = re.fullmatch(re.escape(f"{folder}/{prefix}") + r"(\w+)\.cpp", name)
            if found and found.group(1) not in names:
                yield f"{name}:1: has no line in {listing}"


def check_names(tree):
    for name in tree.files:
        stem = name.rsplit("/", 1)[-1].split(".")[0]
        for word in re.split(r"[^a-z0-9]+", stem.lower()):
            if word in BANNED_FILE_WORDS:
                yield f"{name}:1: '{word}' says nothing; name the file after what it does"
        if name.endswith((".h", ".cpp")) and not re.fullmatch(r"[a-z0-9_]+", stem):
            yield f"{name}:1: file names are snake_case"


def check_text(tree):
    for name in tree.named(*TEXT) + [n for n in ("dev", ".ci/run") if n in tree.files]:
        for number, line in enumerate(tree.lines(name), 1):
            for pattern, why in BANNED_TEXT:
                if re.search(pattern, line):
                    yield f"{name}:{number}: {why}"


def check_mirror(tree):
    """A test lies where its source lies, one folder down in tests/."""
    for name in tree.named("_test.cpp"):
        found = re.fullmatch(r"tests/((?:runtime|server|platforms)(?:/\w+)?)/\w+_test\.cpp", name)
        if found and not any(n.startswith(found.group(1) + "/") for n in tree.files):
            yield f"{name}:1: there is no folder {found.group(1)} that it mirrors"


def check_types(tree):
    """Two headers that define a type of one name end in one program, where the linker mixes up their functions."""
    pattern = re.compile(r"(?:struct|class|enum class)\s+(?:alignas\(\w+\)\s+)?(\w+)[^;]*\{")
    places = {}
    for name in tree.named(".h"):
        if name.startswith(("tests/", "platforms/")):  # a kernel set's own headers have no linkage
            continue
        for number, line in enumerate(tree.lines(name), 1):
            found = pattern.match(line)
            if not found:
                continue
            place = places.setdefault(found.group(1), f"{name}:{number}")
            if not place.startswith(f"{name}:"):
                yield f"{name}:{number}: {place} defines a type named {found.group(1)}, too"


def check_sizes(tree):
    """Long files are listed with their length and may only shrink."""
    listed = {}
    if LONG_FILES in tree.files:
        for line in tree.lines(LONG_FILES):
            if line and not line.startswith("#"):
                count, path = line.split()
                listed[path] = int(count)
    for name in tree.named(*SOURCE, ".py", ".sh", ".cmake"):
        count = len(tree.lines(name))
        limit = listed.pop(name, None)
        if count > (limit or FILE_LINES_MAX):
            yield f"{name}:1: {count} lines, limit {limit or FILE_LINES_MAX}; does it still have one subject?"
        if limit is not None and count <= FILE_LINES_MAX:
            yield f"{LONG_FILES}:1: {name} is short again, take it out"
    for name in listed:
        yield f"{LONG_FILES}:1: {name} does not exist"


def check_format(tree):
    files = tree.named(".h", ".cpp", ".c")
    if not files:
        return
    version = ""
    if shutil.which("clang-format"):
        version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=False).stdout
    if f"version {FORMAT_VERSION}." not in version:
        # Another version breaks lines elsewhere: its opinion would only send people back and forth.
        print(f"skipped: clang-format {FORMAT_VERSION} is missing")
        return
    result = subprocess.run(["clang-format", "--dry-run", "--Werror", *files], cwd=tree.root,
                            capture_output=True, text=True, check=False)
    named = set()
    for line in result.stderr.splitlines():
        found = re.match(r"(.+?):(\d+):\d+: error:", line)
        if found and found.group(1) not in named:
            named.add(found.group(1))
            yield f"{found.group(1)}:{found.group(2)}: not formatted; run ./dev format"


CHECKS = {name.removeprefix("check_"): function for name, function in list(globals().items())
          if name.startswith("check_")}


def faults(root, checks=None):
    tree = Tree(root)
    return [fault for name in checks or CHECKS for fault in CHECKS[name](tree)]


def main():
    parser = argparse.ArgumentParser(description="Holds the tree to its own rules.")
    parser.add_argument("--root", default=pathlib.Path(__file__).parents[2])
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=", ".join(CHECKS))
    arguments = parser.parse_args()
    for name in arguments.checks:
        if name not in CHECKS:
            parser.error(f"there is no check {name}; there are {', '.join(CHECKS)}")
    found = faults(arguments.root, arguments.checks)
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
