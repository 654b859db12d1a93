#!/usr/bin/env python3
"""The same runs by real processes and by the simulator: do their times agree, and their order?

  real_and_simulated.py [--scenarios speeds,straggler,link] [--paces bsp,compat,asp,ssp:3] [--seeds 1,2] [--seconds 20]

For each scenario and pace: `edge_server demo` (real worker processes; steps and links are slowed to what the scenario
says), then `edge_server simulate` with the same model, shards, boards and links under the virtual clock. Prints seconds
until the target accuracy for both and their ratio, and under each scenario whether the paces come in the same order;
paces within a tenth of each other in either world have no order. Nothing else should run on the machine meanwhile.
"""

import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = 0.84  # the demo's
# What an exchange takes between processes of one machine beside the link's time.
DELAY_MS = 0.2
SCENARIOS = {
    "speeds": {"speeds": [1, 1, 2, 4], "step_ms": 5, "link": ""},
    "straggler": {"speeds": [1, 1, 1, 1, 1, 1, 1, 3], "step_ms": 10, "link": ""},
    "link": {"speeds": [1, 1, 2, 4], "step_ms": 5, "link": "1mbit"},
}


def call(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    return done.stdout


def real_seconds(options, scenario, pace, seed):
    with tempfile.TemporaryDirectory() as folder:
        command = [options.program, "demo", "--workers", str(len(scenario["speeds"])), "--speeds",
                   ",".join(map(str, scenario["speeds"])), "--step-ms", str(scenario["step_ms"]), "--pace", pace,
                   "--freq", options.freq, "--seed", str(seed), "--seconds", str(options.seconds), "--out", folder,
                   "--json"]
        if scenario["link"]:
            command += ["--link", scenario["link"]]
        reached = json.loads(call(command))["reached"]
        return reached["seconds"] if reached else None


def experiment(options, scenario, pace, seed):
    lines = [f"[experiment]\nseconds = {options.seconds}\nseed = {seed}\nrepeats = 1\ntargets = [{TARGET}]\n"
             "evaluate_every_s = 0.25\nbackend = \"auto\"\n[run.model]\ninput = [28, 28]\nclasses = 10\n"]
    for layer in ('type = "flatten"', 'type = "dense"\nunits = 128', 'type = "relu"', 'type = "dense"\nunits = 10'):
        lines.append(f"[[run.layer]]\n{layer}\n")
    lines.append("[run.training]\nbatch = 32\nrate = 0.05\nmomentum = 0.9\n[run.data]\nscale = 0.00392156862745098\n"
                 f"[run.communication]\npace = \"{pace}\"\nfreq = \"{options.freq}\"\n"
                 'codec_up = "s1r"\ncodec_down = "s1r"\n'
                 f"[data]\nfile = \"{options.data_folder}/train-images-idx3-ubyte.gz\"\n"
                 f"labels = \"{options.data_folder}/train-labels-idx1-ubyte.gz\"\n"
                 "control_rows = 5000\ndirichlet = 0.5\n")
    for speed in scenario["speeds"]:
        lines.append(f"[[worker]]\nstep_ms = {speed * scenario['step_ms']}\ndelay_ms = {DELAY_MS}\n")
        if scenario["link"]:
            lines.append(f"link = \"{scenario['link']}\"\n")
    return "".join(lines)


def simulated_seconds(options, scenario, pace, seed):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "experiment.toml")
        file.write_text(experiment(options, scenario, pace, seed), encoding="utf-8")
        call([options.program, "simulate", str(file), "--out", folder])
        run = json.loads(pathlib.Path(folder, "runs.jsonl").read_text(encoding="utf-8").splitlines()[0])
        return run["targets"][0]["seconds"]


def same_order(times):
    """Pairs of paces that come in another order."""
    wrong = []
    for a, b in itertools.combinations(times, 2):
        apart = [times[a][world] / times[b][world] for world in (0, 1)]
        if all(abs(ratio - 1) > 0.1 for ratio in apart) and (apart[0] > 1) != (apart[1] > 1):
            wrong.append(f"{a} and {b}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/server/edge_server"))
    parser.add_argument("--data-folder", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--scenarios", default="speeds,straggler,link")
    parser.add_argument("--paces", default="bsp,compat,asp,ssp:3")
    parser.add_argument("--freq", default="fixed:16")
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    for name in options.scenarios.split(","):
        scenario, times = SCENARIOS[name], {}
        for pace in options.paces.split(","):
            pairs = [(real_seconds(options, scenario, pace, seed), simulated_seconds(options, scenario, pace, seed))
                     for seed in options.seeds.split(",")]
            if any(None in pair for pair in pairs):
                print(f"{name:<10} {pace:<8} not always reached: {pairs}", flush=True)
                continue
            text = ", ".join(f"{real:.2f} / {simulated:.2f}" for real, simulated in pairs)
            times[pace] = tuple(statistics.mean(pair[world] for pair in pairs) for world in (0, 1))
            real, simulated = times[pace]
            print(f"{name:<10} {pace:<8} real {real:6.2f} s   simulated {simulated:6.2f} s   {simulated / real:4.2f}   "
                  f"({text})", flush=True)
        wrong = same_order(times)
        print(f"{name:<10} order of paces: {'the same' if not wrong else 'another: ' + ', '.join(wrong)}\n", flush=True)


if __name__ == "__main__":
    main()
