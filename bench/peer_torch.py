#!/usr/bin/env python3
"""The nets of bench_train in PyTorch, on one thread: lines "NET MEDIAN LOWEST HIGHEST", in steps a second of CPU time.

A step is what bench_train calls one: forward, backward and SGD with momentum on a batch of 32. Give PyTorch
OpenBLAS (Debian: libopenblas0-pthread): with the reference BLAS it is ten times slower on the first net.
"""

import argparse
import os
import statistics
import sys
import time

# Read when the libraries are loaded; set_num_threads() comes too late for OpenBLAS.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
try:
    import torch
except ImportError as error:
    print(error)
    sys.exit(1)

BATCH = 32
BATCHES = 64
REPEATS = 9


def make_mlp():
    return torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


def make_cnn():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 5), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 5), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(256, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def measure(net, shape, seconds):
    """Steps a second: (median, lowest, highest) of the repeats after a first one that isn't counted."""
    features = torch.rand(BATCHES, BATCH, *shape)
    labels = torch.randint(0, 10, (BATCHES, BATCH))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    rates, step = [], 0
    for _ in range(REPEATS + 1):
        steps, start = 0, time.process_time()
        while time.process_time() - start < seconds:
            for _ in range(8):
                optimizer.zero_grad()
                loss_of(net(features[step % BATCHES]), labels[step % BATCHES]).backward()
                optimizer.step()
                step += 1
                steps += 1
        rates.append(steps / (time.process_time() - start))
    return statistics.median(rates[1:]), min(rates[1:]), max(rates[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.3, help="length of one repeat")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    print("version torch-" + torch.__version__)
    for name, net, shape in (("mlp", make_mlp(), (784,)), ("cnn", make_cnn(), (1, 28, 28))):
        print(name, *("%.1f" % rate for rate in measure(net, shape, arguments.seconds)))


if __name__ == "__main__":
    main()
