#!/usr/bin/env python3
"""Holds what edge_server export writes against the onnx package and a NumPy evaluation of the graph.

  check_samples.py WRITE_SAMPLES

WRITE_SAMPLES is the program that writes models, rows and our own answers into a folder.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
except ImportError:
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3"] + sys.argv)
    print("skipped: no data (python3-onnx and python3-numpy)")
    sys.exit(0)

TOLERANCE = 1e-5
OPERATORS = {}


def operator(function):
    OPERATORS[function.__name__] = function
    return function


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def windows(x, kernel, strides, dilations):
    """[batch, channels, places..., kernel...] of a padded input."""
    axes = len(kernel)
    places = [(x.shape[2 + i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(axes)]
    view = np.empty(x.shape[:2] + tuple(places) + tuple(kernel))
    for tap in np.ndindex(*kernel):
        cut = tuple(slice(tap[i] * dilations[i], tap[i] * dilations[i] + places[i] * strides[i], strides[i])
                    for i in range(axes))
        view[(slice(None), slice(None)) + (slice(None),) * axes + tap] = x[(slice(None), slice(None)) + cut]
    return view


@operator
def Conv(a, x, weight, bias):
    axes = weight.ndim - 2
    pads, strides, dilations = a["pads"], a["strides"], a["dilations"]
    x = np.pad(x, [(0, 0), (0, 0)] + [(pads[i], pads[axes + i]) for i in range(axes)])
    view, groups = windows(x, weight.shape[2:], strides, dilations), a["group"]
    each = weight.shape[0] // groups
    parts = []
    for g in range(groups):
        of_group = view[:, g * weight.shape[1]:(g + 1) * weight.shape[1]]
        taps = list(range(2 + axes, 2 + 2 * axes))
        parts.append(np.tensordot(of_group, weight[g * each:(g + 1) * each], ([1] + taps, list(range(1, 2 + axes)))))
    y = np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)
    return y + bias.reshape((1, -1) + (1,) * axes)


def pool(a, x, reduce):
    kernel = a["kernel_shape"]
    return reduce(windows(x, kernel, a["strides"], [1] * len(kernel)), axis=tuple(range(-len(kernel), 0)))


@operator
def MaxPool(a, x):
    return pool(a, x, np.max)


@operator
def AveragePool(a, x):
    return pool(a, x, np.mean)


@operator
def GlobalAveragePool(a, x):
    return x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)


@operator
def Gemm(a, x, weight, bias):
    return x @ (weight.T if a.get("transB") else weight) + bias


@operator
def InstanceNormalization(a, x, scale, bias):
    axes = tuple(range(2, x.ndim))
    shape = (1, -1) + (1,) * len(axes)
    normal = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + a["epsilon"])
    return normal * scale.reshape(shape) + bias.reshape(shape)


@operator
def BatchNormalization(a, x, scale, bias, mean, variance):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    normal = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + a["epsilon"])
    return normal * scale.reshape(shape) + bias.reshape(shape)


@operator
def LayerNormalization(a, x, scale, bias):
    axes = tuple(range(a["axis"], x.ndim))
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + a["epsilon"]) * scale + bias


@operator
def Reshape(a, x, shape):
    return x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(shape)])


@operator
def Softmax(a, x):
    e = np.exp(x - x.max(axis=a["axis"], keepdims=True))
    return e / e.sum(axis=a["axis"], keepdims=True)


@operator
def LSTM(a, x, weight, recurrent, bias):
    units = a["hidden_size"]
    h, c, states = np.zeros((x.shape[1], units)), np.zeros((x.shape[1], units)), []
    for step in x:
        gates = step @ weight[0].T + h @ recurrent[0].T + bias[0][:4 * units] + bias[0][4 * units:]
        i, o, f, g = np.split(gates, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.stack(states)[:, None], h[None]


@operator
def GRU(a, x, weight, recurrent, bias):
    assert a["linear_before_reset"] == 1
    units = a["hidden_size"]
    h, states = np.zeros((x.shape[1], units)), []
    for step in x:
        zx, rx, nx = np.split(step @ weight[0].T + bias[0][:3 * units], 3, axis=1)
        zh, rh, nh = np.split(h @ recurrent[0].T + bias[0][3 * units:], 3, axis=1)
        z, r = sigmoid(zx + zh), sigmoid(rx + rh)
        h = (1 - z) * np.tanh(nx + r * nh) + z * h
        states.append(h)
    return np.stack(states)[:, None], h[None]


OPERATORS.update({
    "Relu": lambda a, x: np.maximum(x, 0),
    "LeakyRelu": lambda a, x: np.where(x < 0, a["alpha"] * x, x),
    "Tanh": lambda a, x: np.tanh(x),
    "Sigmoid": lambda a, x: sigmoid(x),
    "Erf": lambda a, x: np.vectorize(__import__("math").erf)(x),
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y,
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Sum": lambda a, *x: sum(x),
    "Concat": lambda a, *x: np.concatenate(x, axis=a["axis"]),
    "Dropout": lambda a, x, ratio: x,
    "Clip": lambda a, x, first, last: np.clip(x, first, last),
    "Round": lambda a, x: np.round(x),
    "Cast": lambda a, x: x.astype(np.int64),
    "Gather": lambda a, table, places: table[places],
    "Transpose": lambda a, x: x.transpose(a["perm"]),
    "Squeeze": lambda a, x, axes: x.squeeze(tuple(axes)),
})


def evaluate(model, rows):
    values = {c.name: numpy_helper.to_array(c) for c in model.graph.initializer}
    values = {name: v.astype(np.float64) if v.dtype == np.float32 else v for name, v in values.items()}
    values[model.graph.input[0].name] = rows
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        given = OPERATORS[node.op_type](attributes, *[values[name] for name in node.input])
        for name, value in zip(node.output, given if isinstance(given, tuple) else (given,)):
            values[name] = value
    return values[model.graph.output[0].name]


def check(path):
    """How far our answers lie from NumPy's."""
    model = onnx.load(str(path))
    onnx.checker.check_model(model, full_check=True)
    features = model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    rows = np.fromfile(path.with_suffix(".rows"), np.float32).reshape(-1, features).astype(np.float64)
    ours = np.fromfile(path.with_suffix(".answers"), np.float32).reshape(len(rows), -1)
    off = np.abs(evaluate(model, rows) - ours).max()
    if not off < TOLERANCE:
        print(f"{path.name}: {off} from NumPy's answers: {[n.op_type for n in model.graph.node]}")
    return off


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        offs = [check(path) for path in sorted(pathlib.Path(folder).glob("*.onnx"))]
    print(f"{len(offs)} models hold, at most {max(offs):.2g} from NumPy's answers")
    return 0 if offs and max(offs) < TOLERANCE else 1


sys.exit(main())
