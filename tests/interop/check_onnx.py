#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX files of ours under the full check of python3-onnx, shapes inferred.

    check_onnx.py MAKE_ONNX FOLDER      makes the cases in FOLDER and checks them
"""
import json
import pathlib
import subprocess
import sys

import onnx
from onnx import shape_inference


def shape_of(value):
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def main():
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.argv[1], folder], check=True)
    for case in json.loads((folder / "cases.json").read_text()):
        model = onnx.load(folder / f"{case['name']}.onnx")
        onnx.checker.check_model(model, full_check=True)
        assert model.ir_version == 7 and model.producer_name == "psgd"
        assert [(o.domain, o.version) for o in model.opset_import] == [("", 13)]
        assert {p.key: p.value for p in model.metadata_props} == {
            "job": "onnx-12345678", "step": "7"}
        graph = model.graph
        assert graph.name == case["name"]
        (x,), (y,) = graph.input, graph.output
        assert (x.name, shape_of(x)) == ("input", ["N", *case["input"][1:]]), shape_of(x)
        assert (y.name, shape_of(y)) == ("logits", ["N", *case["logits"][1:]]), shape_of(y)
        assert "Dropout" not in {n.op_type for n in graph.node}
        # The inferred shape of the output is the one that is claimed.
        model.graph.output[0].type.tensor_type.ClearField("shape")
        inferred = shape_inference.infer_shapes(model, strict_mode=True).graph.output[0]
        assert shape_of(inferred)[1:] == case["logits"][1:], (case["name"], shape_of(inferred))
        # Every parameter is there once.
        count = sum(len(t.raw_data) // 4 for t in graph.initializer
                    if t.data_type == onnx.TensorProto.FLOAT and len(t.dims) > 0)
        assert count == case["parameters"], (case["name"], count)
        print("ok", case["name"])


main()
