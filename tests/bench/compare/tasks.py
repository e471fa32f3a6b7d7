"""tasks.py - what compare.py trains: psgd's job, and PyTorch's network for it."""
import dataclasses
import os
import pathlib
import subprocess
import sys

# A processor that is younger than OpenBLAS gets its oldest kernels; PyTorch reads
# this when it is loaded, and is as well off as we are.
_PROGRAM = pathlib.Path(os.environ.get("PSGD_BIN", "build/bin")) / "bench_engine"
if _PROGRAM.exists():
    os.environ["OPENBLAS_CORETYPE"] = subprocess.run(
        [_PROGRAM, "core"], check=True, text=True, capture_output=True).stdout.strip()

import numpy  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "golden"))
import peers  # noqa: E402

nn = torch.nn
torch.set_num_threads(1)


@dataclasses.dataclass
class Task:
    name: str
    data: dict
    batch: int
    epochs: int  # of `real`
    network: object  # (facts, drops) -> nn.Module
    model: object  # (drops) -> ModelSpec
    metric: str = "accuracy"  # of `real`: a metric of the job, or "loss"
    loss: object = F.cross_entropy
    rule: dict = dataclasses.field(
        default_factory=lambda: {"name": "adam", "params": {"lr": 0.001}})
    optimizer: object = lambda parameters: torch.optim.Adam(parameters, lr=0.001)
    calm: tuple = ("sgd", 0.1)  # rule and rate of steps.py

    @property
    def metrics(self):
        return [] if self.metric == "loss" else [self.metric]

    def under(self, rule, rate):
        """The same task by plain SGD or by momentum of 0.9."""
        momentum = {"sgd": 0, "momentum": 0.9}[rule]
        return dataclasses.replace(
            self, rule={"name": rule, "params": {"lr": rate}},
            optimizer=lambda p: torch.optim.SGD(p, lr=rate, momentum=momentum))


def layer(kind, **params):
    return {"kind": kind, "params": params}


def conv(filters, kernel, stride=1, padding=0):
    return layer("conv2d", filters=filters, kernel=kernel, stride=stride, padding=padding)


def pool():
    return layer("maxpool2d", kernel=2)


def images(shape, make):
    return lambda facts, drops: nn.Sequential(nn.Unflatten(1, shape), make(drops))


CNN = [conv(32, 3), layer("relu"), conv(64, 3), layer("relu"), pool(), layer("flatten"),
       layer("dense", units=128), layer("relu"), layer("dense", units=10)]
ALEXNET = [conv(64, 11, 4, 5), layer("relu"), pool(), conv(192, 5, 1, 2), layer("relu"), pool(),
           conv(384, 3, 1, 1), layer("relu"), conv(256, 3, 1, 1), layer("relu"),
           conv(256, 3, 1, 1), layer("relu"), pool(), layer("flatten"), layer("dense", units=10)]


def preset_or(name, layers):
    return lambda drops: {"preset": name} if drops else {"layers": layers}


def each_output_by_itself(y, t):
    """Binary cross-entropy, summed over outputs, mean over samples."""
    return F.binary_cross_entropy_with_logits(y, t.to(y).reshape(y.shape), reduction="sum") / len(y)


# Tables are trained by Adagrad: where a row is not touched it does nothing, and so
# the sparse form and the dense one are the same. Its epsilon is ours: first gradients are as
# small.
ADAGRAD = {"rule": {"name": "adagrad", "params": {"lr": 0.01}},
           "optimizer": lambda parameters: torch.optim.Adagrad(parameters, lr=0.01, eps=1e-7)}
TEXT = ["tinyshakespeare.txt"]
NUMBERS = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hr_per_week"]
CATEGORIES = ["type_employer", "education", "marital", "occupation", "relationship", "race", "sex",
              "country"]
ADULT = {"name": "csv", "folder": "ctr", "files": ["adult.csv"], "columns": [
    *({"name": n} for n in NUMBERS), *({"name": n, "kind": "vocabulary"} for n in CATEGORIES),
    {"name": "income", "kind": "label"}]}

TASKS = {t.name: t for t in [
    Task("mlp", {"name": "mnist"}, 64, 2, lambda facts, drops: peers.mlp(drops),
         lambda drops: {"preset": "mlp"}),
    Task("cnn", {"name": "mnist"}, 32, 1, images(peers.DIGIT, peers.cnn), preset_or("cnn", CNN),
         calm=("sgd", 0.005)),
    Task("alexnet", {"name": "cifar10"}, 32, 10, images(peers.IMAGE, peers.alexnet),
         preset_or("alexnet", ALEXNET), calm=("momentum", 0.005)),
    Task("resnet", {"name": "cifar10"}, 32, 10,
         images(peers.IMAGE, lambda drops: peers.resnet(16, 3, 2, 3)),
         lambda drops: {"preset": "resnet"}, calm=("sgd", 0.002)),
    Task("ngram", {"name": "ngram", "files": TEXT}, 32, 2,
         lambda facts, drops: peers.Ngram(facts["vocabulary"], facts["ids"], drops),
         lambda drops: {"preset": "ngram", "params": {} if drops else {"dropout": 0}},
         metric="loss", calm=("sgd", 1), **ADAGRAD),
    Task("skipgram", {"name": "skipgram", "files": TEXT}, 32, 1,
         lambda facts, drops: peers.Skipgram(facts["vocabulary"]),
         lambda drops: {"preset": "skipgram"}, metric="loss", loss=each_output_by_itself,
         calm=("sgd", 1), **ADAGRAD),
    Task("wide_deep", ADULT, 32, 4,
         lambda facts, drops: peers.WideDeep(facts["vocabulary"], facts["features"] - facts["ids"],
                                             facts["ids"]),
         lambda drops: {"preset": "wide_deep"}, metric="auc", loss=each_output_by_itself,
         calm=("sgd", 0.05), **ADAGRAD),
]}


def start(task, facts, drops):
    """The network with the job's initial weights."""
    network = task.network(facts, drops)
    variables = [v for v in facts["variables"] if not v["is_state"]]
    parameters = list(network.parameters())
    assert len(variables) == len(parameters), (len(variables), len(parameters))
    for v, p in zip(variables, parameters):
        assert p.numel() == numpy.prod(v["shape"]), (v["name"], v["shape"], tuple(p.shape))
        values = facts["weights"][v["at"]:v["at"] + p.numel()]
        p.data = torch.from_numpy(values.copy()).reshape(p.shape)
    return network


def targets_of(facts, rows):
    y = torch.from_numpy(numpy.ascontiguousarray(rows))
    return y[:, 0].long() if facts["classes"] else y


def batches(task, facts, epoch):
    for at in range(0, facts["batches_per_epoch"] * task.batch, task.batch):
        index = facts["order"][epoch, at:at + task.batch]
        yield (torch.from_numpy(facts["train", "x"][index]),
               targets_of(facts, facts["train", "y"][index]))


def train(task, facts, drops):
    """Losses of all steps of all epochs; the network is left in facts["network"]."""
    network = facts["network"] = start(task, facts, drops)
    optimizer = task.optimizer(network.parameters())
    losses = []
    network.train()
    for epoch in range(len(facts["order"])):
        for x, y in batches(task, facts, epoch):
            optimizer.zero_grad()
            loss = task.loss(network(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def train_and_evaluate(task, facts, seed):
    torch.manual_seed(seed)
    train(task, facts, drops=True)
    network = facts["network"].eval()
    parts = []
    with torch.no_grad():
        for at in range(0, facts["test_count"], 500):
            x = torch.from_numpy(numpy.ascontiguousarray(facts["test", "x"][at:at + 500]))
            parts.append((network(x), targets_of(facts, facts["test", "y"][at:at + 500])))
    outputs, targets = (torch.cat(p) for p in zip(*parts))
    return METRICS[task.metric](task, outputs, targets)


def auc(scores, classes):
    """Pairs in the right order, equal scores by half."""
    order = numpy.argsort(scores, kind="stable")
    ranks = numpy.empty(len(scores))
    ranks[order] = numpy.arange(1, len(scores) + 1)
    values, place, counts = numpy.unique(scores, return_inverse=True, return_counts=True)
    ranks = (numpy.bincount(place, ranks) / counts)[place]
    positive = classes == 1
    n = positive.sum()
    return (ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(scores) - n))


METRICS = {
    "accuracy": lambda task, y, t: (y.argmax(1) == t).double().mean().item(),
    "auc": lambda task, y, t: auc(y.double().numpy().ravel(), t.numpy().ravel()),
    "loss": lambda task, y, t: task.loss(y, t).item(),
}
