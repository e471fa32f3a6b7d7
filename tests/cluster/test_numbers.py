# SPDX-License-Identifier: Apache-2.0
"""test_numbers.py - what training reaches, the same bits again, bytes that are few."""
import re
import subprocess

from harness import SMALL, ClusterTest, coordinator_pb2, evaluated, job_pb2, main

# A sanitizer takes its time to load the set.
TUTORIAL = {"preset": "tutorial", "title": "tutorial", "data": {"name": "mnist"},
            "timeouts": {"preCommitFloorMs": 300000}}


class Numbers(ClusterTest):
    def train(self, c, spec, seconds=240, **fields):
        job = c.wait(c.submit(spec, **fields).id, seconds=seconds)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        return job

    def accuracy(self, workers, pservers, at_least):
        c = self.cluster(workers=workers, pservers=pservers, data=self.need_mnist(),
                         node_data=self.need_mnist())
        # One run says little: seeds differ by half a point, here as in PyTorch.
        results = [self.train(c, TUTORIAL, workers=workers, pservers=pservers, seed=seed)
                   .result["accuracy"] for seed in (1, 2, 3)]
        print(f"tutorial, {workers} workers, {pservers} pservers: "
              f"{', '.join(f'{r:.4f}' for r in results)}")
        self.assertGreaterEqual(sum(results) / len(results), at_least)

    def test_tutorial_with_one_worker(self):
        self.accuracy(1, 1, 0.950)

    def test_tutorial_with_two_workers(self):
        self.accuracy(2, 1, 0.950)

    def test_tutorial_with_four_workers(self):
        self.accuracy(4, 2, 0.930)

    def test_glyphs_are_neither_easy_nor_hard(self):
        c = self.cluster(workers=1, pservers=1)
        job = self.train(c, TUTORIAL, data={"name": "glyphs"}, workers=1, pservers=1)
        self.assertGreaterEqual(job.result["accuracy"], 0.93)
        self.assertLessEqual(job.result["accuracy"], 0.98)

    def model(self, c, job):
        return {name: data for name, data in c.files(job.id).items() if name.startswith("MODEL")}

    def tensors(self, data):
        """The bytes behind the header: the header names the job."""
        return data[8 + int.from_bytes(data[:8], "little"):]

    def test_one_seed_gives_the_same_bits_on_any_number_of_servers(self):
        c = self.cluster(workers=3, pservers=3)
        spec = {**SMALL, "model": {"preset": "mlp", "widths": [64, 32]}}
        models = []
        for pservers in (1, 1, 2, 3):
            job = self.train(c, spec, workers=3, pservers=pservers, seed=7)
            files = c.files(job.id)
            evals = {evaluated(files[f"EV-small-N({i}).csv"]) for i in range(3)}
            self.assertEqual(len(evals), 1)
            models.append(self.tensors(files["MODEL-small-N(0).safetensors"]))
            self.assertEqual(models[-1], self.tensors(files["MODEL-small-N(ps).safetensors"]))
        self.assertEqual(len(set(models)), 1)
        other = self.train(c, spec, workers=3, pservers=1, seed=8)
        self.assertNotEqual(self.tensors(c.files(other.id)["MODEL-small-N(0).safetensors"]), models[0])

    def test_one_seed_gives_the_same_bits_through_int8(self):
        c = self.cluster(workers=2, pservers=2)
        spec = {**SMALL, "codec": {"up": {"name": "int8"}, "down": {"name": "int8"}}}
        models = {self.tensors(c.files(self.train(c, spec, workers=2, pservers=p).id)
                               ["MODEL-small-N(ps).safetensors"]) for p in (1, 2, 2)}
        self.assertEqual(len(models), 1)

    def test_every_choice_trains(self):
        steady = {"rule": {"name": "adam", "params": {"lr": 0.001}}}  # whatever the timing
        c = self.cluster(workers=2, pservers=2)
        for fields in [
                {"consistency": {"name": "ssp", "params": {"bound": 2}}, "optimizer": steady},
                {"consistency": {"name": "asp"}, "optimizer": steady},
                {"update": {"name": "gradient_average"}},
                {"assignment": {"name": "duplicate", "params": {"redundancy": 2}}},
                {"assignment": {"name": "iid", "params": {"redundancy": 2}}},
                {"optimizer": {"rule": {"name": "sgd", "params": {"lr": 0.1}}}},
                {"optimizer": {"rule": {"name": "adam"}, "side": "OPTIMIZER_SIDE_WORKER"}},
                {"codec": {"up": {"name": "f16"}, "down": {"name": "f16"}}},
                {"codec": {"variables": [{"match": "dense0.*", "up": {"name": "int8"}}]}},
                {"model": {"layers": [{"kind": "dense", "params": {"units": 32}}, {"kind": "relu"},
                                      {"kind": "dense", "params": {"units": 16}}, {"kind": "sigmoid"},
                                      {"kind": "dense", "params": {"units": 10}}]}},
        ]:
            with self.subTest(**fields):
                job = self.train(c, {**SMALL, **fields}, workers=2, pservers=2)
                self.assertGreater(job.result["accuracy"], 0.4, fields)

    def test_int8_loses_little_and_sends_a_quarter(self):
        c = self.cluster(workers=2, pservers=1, data=self.need_mnist(), node_data=self.need_mnist())
        plain = self.train(c, TUTORIAL, workers=2, pservers=1)
        small = self.train(c, TUTORIAL, workers=2, pservers=1,
                           codec={"up": {"name": "int8"}, "down": {"name": "int8"}})
        ratio_up = small.progress.bytes_up / plain.progress.bytes_up
        ratio_down = small.progress.bytes_down / plain.progress.bytes_down
        print(f"int8: accuracy {small.result['accuracy']:.4f} against {plain.result['accuracy']:.4f}, "
              f"bytes up {ratio_up:.4f}, down {ratio_down:.4f}")
        self.assertGreaterEqual(small.result["accuracy"], plain.result["accuracy"] - 0.005)
        self.assertLessEqual(ratio_up, 0.27)
        self.assertLessEqual(ratio_down, 0.27)
        # Counted honestly: what is called float32 is what float32 would be.
        self.assertAlmostEqual(plain.progress.bytes_up / plain.progress.bytes_up_float32, 1, delta=0.01)

    def sockets_of(self, process):
        """Sum of bytes that the kernel has sent and received on a process's TCP sockets."""
        text = subprocess.run(["ss", "-tinpH"], capture_output=True, text=True, check=True).stdout
        sent = received = 0
        lines = text.splitlines()
        for i, line in enumerate(lines):
            if f"pid={process.process.pid}," in line:
                detail = line + (lines[i + 1] if i + 1 < len(lines) else "")
                sent += sum(map(int, re.findall(r"bytes_sent:(\d+)", detail)))
                received += sum(map(int, re.findall(r"bytes_received:(\d+)", detail)))
        return sent, received

    def bytes_a_step(self, c, codec):
        """(kernel's up, kernel's down, our up, our down) of a worker's step, over many steps."""
        job = c.submit({**SMALL, "epochs": 100000, "model": {"preset": "mlp", "widths": [256]},
                        "codec": {"up": {"name": codec}, "down": {"name": codec}}})
        c.wait(job.id, lambda j: j.progress.step > 200, seconds=120)

        def read():
            """(middle of the kernel's up, of its down, ours, ours, step), and how far the kernel's
            counts went on meanwhile: ours stands between two of its."""
            before = self.sockets_of(c.workers[0])
            ours = c.status(c.workers[0]).progress[0]
            after = self.sockets_of(c.workers[0])
            return ([(a + b) / 2 for a, b in zip(before, after)] +
                    [ours.bytes_up, ours.bytes_down, ours.step], max(b - a for a, b in zip(before, after)))

        first, blur = read()

        def enough():
            """Many steps later, so many that the blur of both readings is no hundredth of them."""
            last, more = read()
            if last[4] > first[4] + 3000 and blur + more < 0.01 * min(
                    b - a for a, b in zip(first[:2], last[:2])):
                return last
            return None

        last = c.poll("readings that are clear", enough, seconds=120)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
        c.wait(job.id)
        return [(b - a) / (last[4] - first[4]) for a, b in zip(first[:4], last[:4])]

    def test_the_kernel_counts_the_same_bytes(self):
        c = self.cluster(workers=1, pservers=1, node_args=["--sockets-only"])
        plain = self.bytes_a_step(c, "f32")
        small = self.bytes_a_step(c, "int8")
        for name, (up, down, our_up, our_down) in (("f32", plain), ("int8", small)):
            print(f"{name}: kernel's bytes over ours: up {up / our_up:.4f}, down {down / our_down:.4f}")
            self.assertAlmostEqual(up / our_up, 1, delta=0.03)
            self.assertAlmostEqual(down / our_down, 1, delta=0.03)
        print(f"int8 over f32 by the kernel's count: up {small[0] / plain[0]:.4f}, "
              f"down {small[1] / plain[1]:.4f}")
        self.assertLessEqual(small[0], 0.27 * plain[0])
        self.assertLessEqual(small[1], 0.27 * plain[1])


if __name__ == "__main__":
    main()
