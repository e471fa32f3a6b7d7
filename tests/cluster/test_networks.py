# SPDX-License-Identifier: Apache-2.0
"""test_networks.py - networks of images in a cluster: state, draws and data that are not all there."""
import json
import os
import struct
import unittest

from harness import SMALL, ClusterTest, evaluated, job_pb2, main

LAYERS = [
    {"kind": "conv2d", "name": "conv", "params": {"filters": 8, "kernel": 5, "stride": 2, "init": 1}},
    {"kind": "batch_norm", "name": "norm"},
    {"kind": "relu"},
    {"kind": "maxpool2d"},
    {"kind": "dropout", "params": {"rate": 0.2}},
    {"kind": "dense", "name": "fc", "params": {"units": 10}},
]


class Networks(ClusterTest):
    def train(self, c, spec, **fields):
        job = c.wait(c.submit(spec, **fields).id, seconds=240)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        return job

    def tensors(self, data):
        n = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + n])
        header.pop("__metadata__", None)
        return {name: struct.unpack(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 4}f",
                                    data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
                for name, t in header.items()}

    def test_running_statistics_and_dropout_are_the_same_bits_everywhere(self):
        c = self.cluster(workers=2, pservers=2)
        spec = {**SMALL, "model": {"layers": LAYERS}, "seed": 3}
        models = []
        for fields in ({"pservers": 1}, {"pservers": 2},
                       {"pservers": 1, "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.002}},
                                                     "side": "OPTIMIZER_SIDE_WORKER"}},
                       {"pservers": 2, "assignment": {"name": "duplicate", "params": {"redundancy": 2}}}):
            job = self.train(c, spec, workers=2, **fields)
            files = c.files(job.id)
            model = self.tensors(files["MODEL-small-N(ps).safetensors"])
            if "assignment" not in fields:  # a worker may be overtaken by another holder of its blocks
                self.assertEqual(model, self.tensors(files["MODEL-small-N(0).safetensors"]))
                self.assertEqual(*(evaluated(files[f"EV-small-N({i}).csv"]) for i in range(2)))
            self.assertGreater(job.result["accuracy"], 0.6)
            # They have left where they began, and no optimizer has moved them.
            self.assertTrue(all(0 < v < 2 and v != 1 for v in model["norm.running_var"]))
            self.assertTrue(all(m != 0 for m in model["norm.running_mean"]))
            models.append(model)
        self.assertEqual(models[0], models[1])

    def test_a_network_by_name_trains(self):
        c = self.cluster(workers=1, pservers=1)
        job = self.train(c, SMALL, workers=1, pservers=1, epochs=1, model={"preset": "cnn"},
                         data={"name": "glyphs", "train_limit": 1000, "test_limit": 200})
        self.assertGreater(job.result["accuracy"], 0.2)

    def test_the_batches_that_are_there_train(self):
        path = os.environ.get("PSGD_DATA", "")
        if not os.path.isdir(os.path.join(path, "cifar-10-batches-bin")):
            raise unittest.SkipTest("PSGD_DATA has no cifar-10-batches-bin")
        c = self.cluster(workers=1, pservers=1, data=path)
        job = self.train(c, SMALL, workers=1, pservers=1, epochs=1,
                         model={"preset": "mlp", "widths": [32]},
                         data={"name": "cifar10", "train_limit": 2000, "test_limit": 500})
        self.assertGreater(job.result["accuracy"], 0.1)


if __name__ == "__main__":
    main()
