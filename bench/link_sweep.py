#!/usr/bin/env python3
"""Time to a target accuracy on links of several rates, each codec fixed in turn and chosen by the link.

  link_sweep.py [--links 0.1,1,10,100,none] [--codecs s1r/s1r,q8/q8,auto/auto] [--seeds 1,2] [--seconds N]

Runs `edge_server demo` (four real worker processes whose connections are thinned) once for each link, pair of codecs
and seed, and prints a line for each: seconds until the demo's target accuracy is held, seconds and megabytes until it
is first met, and the codecs at the end. It is held at the middle one of the first five evaluations in a row whose mean
is at the target: the first to meet it is often luck, and more so the more a codec's accuracy wavers. Under each link:
the best fixed pair, and how auto compares, by the mean of what was held. Rates are in Mbit/s; none is as fast as it
goes. Nothing else should run on the machine meanwhile.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

TARGET_ACCURACY = 0.84
HELD_EVALUATIONS = 5
ROOT = pathlib.Path(__file__).resolve().parents[1]
# Long enough for the target with the dearest pair that gets there at all.
SECONDS = {"0.1": 400, "1": 75, "10": 40, "100": 20, "none": 20}


def run_demo(options, link, codecs, seed):
    """The run's summary.json."""
    up, down = codecs.split("/")
    with tempfile.TemporaryDirectory() as folder:
        command = [options.program, "demo", "--codec", up, "--codec-down", down, "--seed", str(seed), "--out", folder,
                   "--seconds", str(options.seconds or SECONDS.get(link, 60)), "--json"]
        if link != "none":
            command += ["--link", f"{link}mbit"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1]}")
        return json.loads(done.stdout)


def held_seconds(summary):
    """When the target is held, or None."""
    curve = summary["curve"]
    for first in range(len(curve) - HELD_EVALUATIONS + 1):
        points = curve[first:first + HELD_EVALUATIONS]
        if statistics.mean(point["accuracy"] for point in points) >= TARGET_ACCURACY:
            return points[HELD_EVALUATIONS // 2]["seconds"]
    return None


def describe(summary):
    held = held_seconds(summary)
    reached = summary["reached"]
    text = f"held {held:7.2f} s" if held else "never held    "
    if reached:
        text += f", first {reached['seconds']:7.2f} s {reached['bytes_total'] / 1e6:7.2f} MB"
    last = summary["codecs"][-1]
    return f"{text}   accuracy {summary['accuracy']:.4f}   ended with {last['up']}/{last['down']}"


def sweep_link(options, link):
    times = {}
    for seed in options.seeds.split(","):
        for codecs in options.codecs.split(","):
            summary = run_demo(options, link, codecs, seed)
            print(f"{link:>5} Mbit/s  {codecs:<12} seed {seed} {describe(summary)}", flush=True)
            if "auto" in codecs:
                for change in summary["codecs"]:
                    print(f"        {change['seconds']:6.1f} s  {change['up']}/{change['down']}: {change['reason_up']}")
            times.setdefault(codecs, []).append(held_seconds(summary))
    means = {codecs: statistics.mean(seconds) for codecs, seconds in times.items() if None not in seconds}
    fixed = {codecs: mean for codecs, mean in means.items() if "auto" not in codecs}
    if fixed:
        best = min(fixed, key=fixed.get)
        line = f"{link:>5} Mbit/s  best fixed: {best} {fixed[best]:.2f} s"
        if "auto/auto" in means:
            line += f"; auto {means['auto/auto']:.2f} s, {100 * (means['auto/auto'] / fixed[best] - 1):+.0f} %"
        print(line + "\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/server/edge_server"))
    parser.add_argument("--links", default="0.1,1,10,100,none")
    parser.add_argument("--codecs", default="q8/q8,s1r/s1r,tk5/tk5,tk1/tk1,auto/auto")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--seconds", type=float, default=0, help="of each run, instead of what suits the link")
    options = parser.parse_args()
    for link in options.links.split(","):
        sweep_link(options, link)


if __name__ == "__main__":
    main()
