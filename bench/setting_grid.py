#!/usr/bin/env python3
"""Time to a target accuracy with frequency and codecs chosen by measurement, against a grid of fixed settings.

  setting_grid.py --out FOLDER [--scenarios har-persistent,...] [--seeds 3] [--auto "pace=compat freq=trend codec=auto"]

Runs docs/experiments/settings.toml (see there for the data that it needs) in several scenarios: other boards, other links,
other data. In each, the grid is run with every seed, then what --auto names, and a line says what each came to: seconds
until the target, the mean over the seeds, of the best fixed setting, of the median one, and of auto. What never reaches
the target counts with the length of the run. Runs that are in the folder are not run again; a stopped grid goes on.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BASE = ROOT / "docs/experiments/settings.toml"
FASHION = "/usr/share/datasets/fashion-mnist/train-"


def board(count, step_ms, rest=""):
    return f"[[worker]]\ncount = {count}\nstep_ms = {step_ms}\nstep_sigma = 0.1\ndelay_ms = 2\n{rest}\n"


SPEEDS = {
    "persistent": board(2, 5) + board(1, 10) + board(1, 20),
    "transient": board(4, 5, "slow_share = 0.1\nslow_factor = 5\nslow_s = 1\n"),
    "straggler": board(7, 5) + board(1, 15),
    "links": "".join(board(2, 5, f'link = "{rate}mbit"\n') for rate in (1, 4, 16)),
}
SCENARIOS = [f"har-{speed}" for speed in SPEEDS]
SCENARIOS += [f"fashion{skew}-{speed}" for skew in ("0.5", "0.1") for speed in ("persistent", "straggler")]


def experiment_text(scenario, seeds, grid):
    data, speed = scenario.split("-")
    text = re.sub(r"\[\[worker\]\].*", "", BASE.read_text(), flags=re.DOTALL)
    text = text.replace("seconds = 20\n", f"seconds = 20\nrepeats = {seeds}\n")
    text = text.replace("har-sp-sw/", f"{BASE.parent}/har-sp-sw/")
    if data.startswith("fashion"):
        text = text.replace("[64, 6]", "[28, 28]").replace("classes = 5", "classes = 10")
        text = text.replace("units = 64", "units = 32").replace("units = 5\n", "units = 10\n")
        text = text.replace("scale = 0.0001", f"scale = {1 / 255!r}").replace("[0.75]", "[0.80]")
        text = text.replace("control_rows = 1580", "control_rows = 2000")
        text = re.sub(r'file = ".*"', f'file = "{FASHION}images-idx3-ubyte.gz"', text)
        text = re.sub(r'labels = ".*"', f'labels = "{FASHION}labels-idx1-ubyte.gz"', text)
        text = text.replace("dirichlet = 0.5", f"dirichlet = {data.removeprefix('fashion')}")
    return text + SPEEDS[speed] + "[grid]\n" + "".join(f"{key} = {json.dumps(values)}\n" for key, values in grid.items())


def simulate(options, name, text):
    folder = pathlib.Path(options.out) / name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "experiment.toml"
    file.write_text(text)
    command = [options.program, "simulate", str(file), "--out", str(folder), "--jobs", str(options.jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1]}")
    return [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]


def seconds_of(records):
    """{(link, setting): mean seconds to the target}"""
    times = {}
    for record in records:
        settings = dict(record["settings"])
        link = settings.pop("link", "")
        seconds = record["targets"][0]["seconds"]
        times.setdefault((link, " ".join(settings.values())), []).append(record["seconds"] if seconds is None else seconds)
    return {key: statistics.mean(values) for key, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--auto", default="pace=compat freq=trend codec=auto", help="what is held against the grid")
    parser.add_argument("--grid-only", action="store_true")
    parser.add_argument("--program", default=str(ROOT / "build/release/server/edge_server"))
    parser.add_argument("--grid-program", help="another build whose runs of the grid are in the folder")
    options = parser.parse_args()
    print(f"{'':26} {'best':>6} {'median':>6} {'auto':>6}  auto/best auto/median  the best one")
    for scenario in options.scenarios.split(","):
        base = BASE.read_text()
        lists = dict(re.findall(r"^(pace|freq|codec|link) = (\[.*\])$", base, flags=re.MULTILINE))
        grid = {key: json.loads(values) for key, values in lists.items()}
        if scenario.endswith("links"):
            del grid["link"]
        auto = {key: [value] for key, value in (word.split("=") for word in options.auto.split())}
        auto |= {"link": grid["link"]} if "link" in grid else {}
        program = options.program
        options.program = options.grid_program or program
        fixed = seconds_of(simulate(options, scenario, experiment_text(scenario, options.seeds, grid)))
        options.program = program
        if options.grid_only:
            continue
        chosen = seconds_of(simulate(options, scenario + "-auto", experiment_text(scenario, options.seeds, auto)))
        for (link, _), seconds in chosen.items():
            here = {setting: time for (rate, setting), time in fixed.items() if rate == link}
            best, median = min(here, key=here.get), statistics.median(here.values())
            print(f"{scenario + ' ' + link:26} {here[best]:6.2f} {median:6.2f} {seconds:6.2f} {seconds / here[best]:10.2f} "
                  f"{seconds / median:11.2f}  {best}", flush=True)


if __name__ == "__main__":
    main()
