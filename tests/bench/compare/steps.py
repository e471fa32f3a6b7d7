# SPDX-License-Identifier: Apache-2.0
"""steps.py - 200 steps without dropout, by psgd and by PyTorch: the same losses?

Roundings differ, and training makes more of them: a step that is large for its place turns a
difference in the last bit into one that everybody sees, in PyTorch too when its weights begin
one bit away. Under the optimizers that people use (Adam's first steps are +-rate whatever a
gradient's size, AdaGrad's as well) convolutions end so far from themselves that a wrong gradient
could hide. So the losses are compared under plain SGD at a rate at which a network learns and stays
near itself; there what is left between psgd and PyTorch is what they compute differently.
"""
import tempfile

import numpy

import pair
import tasks

STEPS, WINDOW = 200, 20
ASKED = 0.01  # apart at most, of the loss


def bound(itself):
    """Of what is due to roundings we may have five times what a last bit does to PyTorch, as that
    is one draw of many; a hundredth of what is asked for is always allowed."""
    return min(ASKED, ASKED / 100 + 5 * itself)


class Ends:
    """What one seed of a task came to under a rule: losses of all steps, and trained values."""

    def __init__(self, task, seed):
        job = pair.job_of(task, seed, False, epochs=1)
        job["data"] |= {"trainLimit": STEPS * task.batch, "testLimit": 256}
        with tempfile.TemporaryDirectory() as folder:
            ours = pair.Pair(folder, job)
            ours.train()
            facts = ours.facts()
            trained = [v for v in facts["variables"] if not v["is_state"]]
            self.begin = numpy.concatenate([
                facts["weights"][v["at"]:v["at"] + numpy.prod(v["shape"], dtype=int)]
                for v in trained])
            self.ours = [float(row["loss"]) for row in ours.rows("TR")]
            weights = ours.weights()
            self.our_end = numpy.concatenate([weights[v["name"]] for v in trained])
            self.peer, self.peer_end = self.train_peer(task, facts)
            facts["weights"] = numpy.nextafter(facts["weights"], numpy.float32(1))
            self.other, self.other_end = self.train_peer(task, facts)
        assert len(self.ours) == len(self.peer) == STEPS, (len(self.ours), len(self.peer))

    @staticmethod
    def train_peer(task, facts):
        losses = tasks.train(task, facts, drops=False)
        return losses, numpy.concatenate([
            p.detach().numpy().ravel() for p in facts["network"].parameters()])

    def apart(self, losses, end):
        """From PyTorch's, as parts of one: the loss of the last steps, that of any step, and the
        way that the trained values went."""
        way = numpy.linalg.norm(self.peer_end - self.begin)
        return (abs(mean(losses) / mean(self.peer) - 1),
                max(abs(a / b - 1) for a, b in zip(losses, self.peer)),
                numpy.linalg.norm(end - self.peer_end) / way)


def mean(losses):
    return sum(losses[-WINDOW:]) / WINDOW


def show(parts):
    return " / ".join(f"{100 * part:.3g}" for part in parts)


def compare_calm(task, seeds):
    """False: a loss is further from PyTorch's than the bound."""
    calm = task.under(*task.calm)
    good = True
    for seed in seeds:
        ends = Ends(calm, seed)
        ours = ends.apart(ends.ours, ends.our_end)
        itself = ends.apart(ends.other, ends.other_end)
        allowed = bound(itself[0])
        good = good and ours[0] <= allowed
        print(f"{task.name:<10} {task.calm[0]} {task.calm[1]}, seed {seed}: loss {ends.peer[0]:.3f}, after "
              f"{STEPS} steps psgd {mean(ends.ours):.5f} PyTorch {mean(ends.peer):.5f}; % apart at "
              f"the end / of any step / of the way: {show(ours)}, PyTorch from itself "
              f"{show(itself)}" + ("" if ours[0] <= allowed
                                   else f": MORE THAN {show([allowed])} % AT THE END"), flush=True)
    return good


def compare_usual(task, seeds):
    """Under the rule that the task is usually trained by; for information."""
    all_ends = [Ends(task, seed) for seed in seeds]
    losses = numpy.array([[mean(x) for x in (e.ours, e.peer, e.other)] for e in all_ends])
    ours, peer, other = losses.mean(0)
    line = (f"{task.name:<10} {task.rule['name']}, seeds {', '.join(map(str, seeds))}: psgd {ours:.5f} "
            f"PyTorch {peer:.5f}, {100 * abs(ours / peer - 1):.3f} % apart, PyTorch from itself "
            f"{100 * abs(other / peer - 1):.3f} %")
    if len(seeds) > 1:
        error = (losses[:, 0] - losses[:, 1]).std(ddof=1) / len(seeds) ** 0.5
        line += f"; the difference {ours - peer:+.5f}, its standard error {error:.5f}"
    print(line + "; of each seed", ", ".join(show([abs(a / b - 1)]) for a, b, _ in losses),
          flush=True)
