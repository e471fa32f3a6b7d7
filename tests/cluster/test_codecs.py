# SPDX-License-Identifier: Apache-2.0
"""test_codecs.py - every codec of the build trains, and sends what it says."""
import re

from harness import PATIENCE, SMALL, ClusterTest, coordinator_pb2, job_pb2, main

# A threshold is a number for a model: this one sends a part of these gradients. Under
# adam dgc does without what it keeps, as docs/codecs.md has it. The layers are too
# small for powersgd's bits of a full slice.
PARAMS = {"threshold": {"magnitude": 0.01}, "topk": {"fraction": 0.1},
          "randomk": {"fraction": 0.1}, "powersgd": {"rank": 2},
          "dgc": {"fraction": 0.1, "momentum": 0, "error_feedback": 0}}


class Codecs(ClusterTest):
    def plugins(self, c):
        info = c.api.GetServerInfo(coordinator_pb2.GetServerInfoRequest(), timeout=10 * PATIENCE)
        return [p for p in info.plugins if p.kind == "codec"]

    def train(self, c, codec):
        job = c.wait(c.submit(SMALL, workers=2, pservers=2, codec=codec).id, seconds=120)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        return job

    def test_every_codec_trains_and_sends_its_bits(self):
        c = self.cluster(workers=2, pservers=2)
        for plugin in self.plugins(c):
            for_weights = "for gradients only" not in plugin.summary
            params = PARAMS.get(plugin.name, {})
            with self.subTest(codec=plugin.name):
                job = self.train(c, {"up": {"name": plugin.name, "params": params}})
                p = job.progress
                print(f"{plugin.name}: accuracy {job.result['accuracy']:.3f}, "
                      f"up {32 * p.bytes_up / p.bytes_up_float32:.2f} bits a value")
                self.assertGreater(job.result["accuracy"], 0.3)
                if not params:
                    # "...; 4.062 bits a value, ...", of a full slice, and the heads.
                    bits = float(re.search(r"([\d.]+) bits? a value", plugin.summary).group(1))
                    self.assertLess(32 * p.bytes_up / p.bytes_up_float32, 1.03 * bits + 0.1)
            if for_weights:
                continue
            with self.subTest(codec=plugin.name, down=True):
                with self.assertRaisesRegex(Exception, "not for weights"):
                    c.submit(SMALL, workers=2, pservers=2, codec={"down": {"name": plugin.name}})

    def test_what_senders_keep_trains(self):
        c = self.cluster(workers=2, pservers=2)
        sgd = {"rule": {"name": "sgd", "params": {"lr": 0.05}}}
        for codec in ({"up": {"name": "sign", "params": {"difference": 1}}},
                      {"up": {"name": "f32", "params": {"difference": 1, "lazy": 0.05}}},
                      {"up": {"name": "dgc", "params": {"fraction": 0.05, "momentum": 0.5}}},
                      {"up": {"name": "intn", "params": {"lossless": 2, "rows": 1}},
                       "down": {"name": "intn", "params": {"error_feedback": 1, "bits": 8}}}):
            with self.subTest(codec=codec):
                job = c.wait(c.submit(SMALL, workers=2, pservers=2, codec=codec,
                                      optimizer=sgd).id, seconds=120)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
                p = job.progress
                print(f"{codec}: accuracy {job.result['accuracy']:.3f}, "
                      f"up {32 * p.bytes_up / p.bytes_up_float32:.2f} bits a value")
                self.assertGreater(job.result["accuracy"], 0.3)

    def test_one_seed_gives_the_same_bits_through_error_feedback(self):
        c = self.cluster(workers=2, pservers=2)
        codec = {"up": {"name": "sign", "params": {"error_feedback": 1}}}
        losses = {self.train(c, codec).result["loss"] for _ in range(2)}
        self.assertEqual(len(losses), 1)


if __name__ == "__main__":
    main()
