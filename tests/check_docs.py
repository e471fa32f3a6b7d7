#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_docs.py ROOT BIN - what documents say, held against the tree and the built programs.

Links lead somewhere. Names in `code` are in the sources. Every plugin is in the document of its kind,
with its numbers and their defaults; every preset in both of theirs. Flags are those of --help. Job files
and command lines that stand as examples make a plan. Every field of the protocol has a comment, and its
default and range are those of the program. Pictures are what their tables give."""
import collections
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT, BIN = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
ENV = {k: v for k, v in os.environ.items() if not k.startswith("PSGD_")}

# Where the plugins of a kind are described. One row of a table each; where it names numbers
# with values, they are the defaults.
ROOMS = {
    "assignment": "engine", "clip": "engine", "codec": "codecs", "column": "engine",
    "consistency": "consistency", "data": "engine", "exchange": "exchanges", "layer": "engine",
    "loss": "engine", "metric": "engine", "network": "engine", "optimizer": "engine",
    "schedule": "engine", "straggler": "consistency", "table": "tables", "transform": "engine",
    "update": "updates",
}
TRAIN = 8192  # samples of the sets that plans are made for
LOSS_FLAGS = ("--checkpoint-every", "--checkpoint-seconds", "--checkpoint-keep", "--recovery", "--max-restarts",
              "--on-divergence", "--max-rollbacks", "--replicas", "--replay-mib", "--workers-min", "--workers-max")
NUMBERED = ("codec", "column", "consistency", "data", "exchange", "layer", "metric", "network", "schedule", "straggler",
            "table", "transform", "update")
# Said once for all of a kind.
SHARED = {"codec": ("lossless", "rows", "error_feedback", "difference", "momentum", "lazy"),
          "schedule": ("warmup", "warmup_start"), "exchange": ("window_ms",)}

# Names of other programs, and of files that only a run makes. Tables have those of older systems in their
# first column, under "there".
FOREIGN = set("""
    chrt logdir avx512_core jit nchw record_writer.py event.proto summary.proto autogroup job_submit.py
    init_server.py get_ps_lr main.py train.py fleetrun paddle server_num worker_num ports_num num_gradient_servers
    max_merge_var_num batch_size manifest.json summary.json state.json MANIFEST.json worker.json job.json ATEN_CPU_CAPABILITY ONEDNN_MAX_CPU_ISA DESTDIR
""".split())


@functools.lru_cache(None)
def tracked():
    names = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True).stdout.split("\n")
    if not any(names):  # an unpacked archive
        tops = ("clients", "common", "deploy", "docs", "proto", "services", "tests")
        names = [str(p.relative_to(ROOT)) for top in tops
                 for p in (ROOT / top).rglob("*") if p.is_file()] + [p.name for p in ROOT.glob("*")]
    return [n for n in names if n and (ROOT / n).is_file()]


def documents():
    return [n for n in tracked() if n.endswith(".md")]


@functools.lru_cache(None)
def lines(name):
    return (ROOT / name).read_text(encoding="utf-8").split("\n")


def code_spans(name):
    """(line number, text in backquotes), but for what a table has under the heading "there"."""
    for i, line in enumerate(lines(name), 1):
        if line.startswith("| ") and table_of(name, i) == "there":
            line = line.split(" | ", 1)[1]
        for span in re.findall(r"`([^`]+)`", line):
            yield i, span


def table_of(name, number):
    """First heading of the table that the line is in."""
    i = number - 1
    while i > 0 and lines(name)[i - 1].startswith("|"):
        i -= 1
    return lines(name)[i].split("|")[1].strip()


def anchors(name):
    heads = (re.match(r"#+ (.*)", line) for line in lines(name))
    return {re.sub(r"[^\w\- ]", "", h.group(1).lower()).replace(" ", "-") for h in heads if h}


def psgd(*args):
    return subprocess.run([BIN / "psgd", *args], capture_output=True, text=True, env=ENV, timeout=60)


@functools.lru_cache(None)
def help_of(*command):
    program = [BIN / command[0], *command[1:], "--help"]
    return subprocess.run(program, capture_output=True, text=True, env=ENV, timeout=60).stdout


def flags(text):
    return {f for f in re.findall(r"(?<![\w-])--[a-z][a-z_-]+", text) if f[2:] not in FOREIGN}


@functools.lru_cache(None)
def plugins():
    return json.loads(psgd("info", "--format", "json").stdout)["plugins"]


def rows_of(name, plugin):
    """Rows of tables whose first cell names the plugin."""
    for i, line in enumerate(lines(name), 1):
        cells = line.split(" | ")
        if line.startswith("|") and f"`{plugin}`" in cells[0]:
            yield i, line


def blocks(name):
    """(line number, text) of every indented block."""
    block, first = [], 0
    for i, line in enumerate([*lines(name), "end"], 1):
        if line.startswith("    ") or (block and not line.strip()):
            first = first if block else i
            block.append(line)
        elif block:
            text = "\n".join(block)
            yield first, re.sub(rf"(?m)^ {{{len(text) - len(text.lstrip())}}}", "", text).rstrip()
            block = []


class Documents(unittest.TestCase):
    def setUp(self):
        self.wrong = []

    def tearDown(self):
        self.assertFalse(self.wrong, "\n" + "\n".join(self.wrong))

    def expect(self, truth, name, line, what):
        if not truth:
            self.wrong.append(f"{name}:{line}: {what}")

    def test_links_lead_somewhere(self):
        for name in documents():
            for i, line in enumerate(lines(name), 1):
                for target in re.findall(r"\]\(([^)\s]+)\)", line):
                    if "://" in target:
                        continue
                    path, _, anchor = target.partition("#")
                    there = ((ROOT / name).parent / path).resolve() if path else ROOT / name
                    self.expect(there.exists(), name, i, f"no {target}")
                    if anchor and there.exists():
                        known = anchors(str(there.relative_to(ROOT)))
                        self.expect(anchor in known, name, i, f"no heading for {target}")

    def test_names_in_code_are_in_the_sources(self):
        texts = [(ROOT / n).read_bytes().decode("utf-8", "replace") for n in tracked()
                 if not n.endswith(".md") and not n.startswith("tests/fuzz/corpus") and n != "tests/check_docs.py"]
        words = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", "\n".join(texts)))
        files = collections.defaultdict(list)
        for n in tracked():
            files[n.rsplit("/", 1)[-1]].append(n)
        folders = {str(p) for n in tracked() for p in pathlib.PurePath(n).parents}
        for name in documents():
            for i, span in code_spans(name):
                if span in FOREIGN or span.startswith("../") or re.fullmatch("[0-9a-f]{7}", span):
                    continue
                if re.fullmatch(r"[\w./-]+\.(c|h|py|sh|proto|md|mjs|cmake|yaml|json)", span):
                    known = any(n == span or n.endswith("/" + span) for n in files[span.rsplit("/", 1)[-1]])
                    self.expect(known or span.startswith("job."), name, i, f"no file {span}")
                elif re.match(r"(common|services|clients|proto|tests|docs|deploy)/[\w/.-]+$", span):
                    known = span.rstrip("/") in folders or span in tracked() or span.endswith("/X")
                    self.expect(known, name, i, f"no {span}")
                else:
                    for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]+", span):
                        known = word in words or word in FOREIGN or word.endswith("_")
                        self.expect(known, name, i, f"nothing is called {word} (in `{span}`)")

    def test_comments_name_what_there_is(self):
        """Functions, types and files of ours that a comment in C speaks of."""
        words, comments = set(), []
        for name in (n for n in tracked() if n.endswith((".c", ".h"))):
            text = "\n".join(lines(name))
            words |= set(re.findall(r"\w+", re.sub(r"(?s)/\*.*?\*/", "", text)))
            comments += [(name, text[:c.start()].count("\n") + 1, c.group())
                         for c in re.finditer(r"(?s)/\*.*?\*/", text)]
        for name, line, comment in comments:
            for word in set(re.findall(r"\b[pP][sS]_\w+[^\W_]\b(?!\*)", comment)):
                self.expect(word in words or word.endswith("_NAME"), name, line, f"nothing is called {word}")
            for file in re.findall(r"(?<![\w/])(?:common|services|clients|tests|docs|proto)/[\w/]+\.\w+", comment):
                known = (ROOT / file).exists() or "NAME" in file
                self.expect(known, name, line, f"no {file}")

    def test_every_plugin_is_in_the_document_of_its_kind(self):
        for plugin in plugins():
            doc = f"docs/{ROOMS[plugin['kind']]}.md"
            named = f"`{plugin['name']}`" in "\n".join(lines(doc))
            self.expect(named, doc, 1, f"{plugin['kind']} {plugin['name']} is not there")

    def test_numbers_of_plugins_are_named_with_their_defaults(self):
        for plugin in plugins():
            if plugin["kind"] not in NUMBERED or not plugin.get("params"):
                continue
            doc = f"docs/{ROOMS[plugin['kind']]}.md"
            names = [p["name"] for p in plugin["params"]]
            rows = [r for r in rows_of(doc, plugin["name"]) if any(re.search(rf"\b{n}\b", r[1]) for n in names)]
            if plugin["kind"] == "table":  # a row a number
                rows = [(0, "\n".join(line for n in names for _, line in rows_of(doc, n)))]
            if rows and "| the same |" in rows[0][1]:  # as the row above
                rows = [(rows[0][0], lines(doc)[rows[0][0] - 2])]
            for p in plugin["params"]:
                if p["name"] in SHARED.get(plugin["kind"], ()):
                    self.expect(f"`{p['name']}" in "\n".join(lines(doc)), doc, 1, f"{p['name']} is not there")
                    continue
                default = p.get("default_value", 0)
                said = [v for _, row in rows for v in re.findall(rf"\b{p['name']}\b`?(?: \|)?(?: ([\d.e+-]*\d))?", row)]
                at = rows[0][0] if rows else 1
                self.expect(said, doc, at, f"{plugin['kind']} {plugin['name']} has a number {p['name']}")
                values = [float(v) for v in said if v and plugin["kind"] != "table"]
                self.expect(not values or default in values, doc, at,
                            f"{plugin['name']}: {p['name']} is {default:g} by default, not {values}")

    def test_counters_are_those_of_the_table(self):
        """docs/monitoring.md: a row for each line of common/base/counter_table.c, in its order."""
        source = "\n".join(lines("common/base/counter_table.c"))
        who = {"W": "worker", "S": "server", "J": "job"}
        rows = [f"| `{name}` | {unit or '–'} | {kind.lower()} | {', '.join(who[o] for o in of.split(' | '))} | "
                f"{'–' if merge == 'NONE' else merge.lower()} | {help} | {f'`{metric}`' if metric else '–'} |"
                for name, unit, kind, of, merge, help, metric in re.findall(
                    r'\{"(\w+)", "([^"]*)", PS_(\w+), ([WSJ |]+), PS_MERGE_(\w+),\s+"([^"]*)",\s+(?:NULL|"(\w+)")\}', source)]
        self.assertEqual(len(rows), source.count("[PS_COUNT_"))
        self.assertEqual([line for line in lines("docs/monitoring.md") if re.match(r"\| `\w+` \| .* \| (counter|gauge) ", line)],
                         rows)

    def test_every_preset_is_described_and_measured(self):
        described = "\n".join(lines("docs/presets.md"))
        measured = "\n".join(lines("docs/results.md"))
        for preset in json.loads(psgd("presets", "--format", "json").stdout):
            self.expect(f"`{preset['name']}`" in described, "docs/presets.md", 1, f"{preset['name']} is not there")
            self.expect(f"`{preset['name']}`" in measured, "docs/results.md", 1, f"{preset['name']} is not there")

    def test_readme_counts_what_there_is(self):
        words = "no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen " \
                "sixteen seventeen eighteen nineteen twenty".split()
        counts = collections.Counter(p["kind"] for p in plugins())
        text = "\n".join(lines("README.md"))
        for kind, pattern in (("optimizer", r"optimizers \| ([\w]+)"), ("codec", r"codecs \| ([\w]+)"),
                              ("metric", r"([\w]+) metrics")):
            said = re.search(pattern, text).group(1)
            number = words.index(said) if said in words else int(said)
            self.assertEqual(number, counts[kind], f"README.md: {said} of kind {kind}")

    def test_every_reason_is_in_the_protocol_s_document(self):
        document = "\n".join(lines("docs/wire.md"))
        found = set()
        for name in tracked():
            if re.match(r"(common/(rpc|node)|services)/.*\.c$", name):
                found |= set(re.findall(r'"((?:[A-Z]+_)+[A-Z]+)"', "\n".join(lines(name))))
        known = {r for r in found if not r.startswith(("PSGD_", "GRPC_", "MLFLOW_", "XDG_", "NOTIFY_", "WATCHDOG_"))}
        self.assertGreater(len(known), 50)
        for reason in sorted(known):
            self.expect(f"`{reason}`" in document, "docs/wire.md", 1, f"no reason {reason}")

    def test_pictures_are_what_their_tables_give(self):
        answer = subprocess.run([sys.executable, ROOT / "tests/bench/pictures.py", "--check"], capture_output=True, text=True,
                                timeout=120)
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_every_benchmark_is_in_its_document(self):
        document = "\n".join(lines("tests/bench/README.md"))
        for name in tracked():
            program = re.match(r"tests/bench/.*?(bench_\w+)\.c$", name)
            if program and program.group(1) != "bench_engine":  # which engine.py runs
                named = f"bench/{program.group(1)}" in document
                self.expect(named, "tests/bench/README.md", 1, f"no {program.group(1)}")
            elif name.startswith("tests/bench/") and name.endswith(".py") and os.access(ROOT / name, os.X_OK):
                self.expect(name in document, "tests/bench/README.md", 1, f"no {name}")

        for i, line in enumerate(lines("tests/bench/README.md"), 1):
            for script in re.findall(r"^\| `[^`]*?(tests/[\w/]+\.py)", line):
                self.expect(os.access(ROOT / script, os.X_OK), "tests/bench/README.md", i, f"{script} cannot be run")

    def test_terms_are_defined_once_in_files_that_exist(self):
        """docs/terms.md: one line a term, in alphabetical order; the last cell names the files that define it."""
        terms = []
        for i, line in enumerate(lines("docs/terms.md"), 1):
            cells = [c.strip() for c in line.strip("|").split(" | ")]
            if not line.startswith("| ") or len(cells) != 3 or cells[0] in ("term", "---"):
                continue
            terms.append(cells[0])
            files = re.findall(r"`([^`]+)`", cells[2])
            self.expect(files, "docs/terms.md", i, f"{cells[0]} names no file")
            for file in files:
                self.expect(file in tracked(), "docs/terms.md", i, f"{cells[0]}: no file {file}")
        self.assertGreater(len(terms), 60)
        self.assertEqual(terms, sorted(set(terms)), "docs/terms.md: not in alphabetical order, or a term twice")

    def test_scripts_in_command_lines_can_be_run(self):
        found = 0
        for name in documents():
            for first, text in blocks(name):
                for i, line in enumerate(text.split("\n"), first):
                    script = re.match(r"(?:[A-Z_]+=\S+ )*((?:\./|tests/|deploy/)[\w/.-]+)", line)
                    if script:
                        at = [folder / script.group(1) for folder in (ROOT, (ROOT / name).parent)]
                        self.expect(any(os.access(path, os.X_OK) for path in at), name, i, f"{script.group(1)} cannot be run")
                        found += 1
        self.assertGreater(found, 6)

    def test_the_tour_names_what_rooms_share(self):
        """Headers that another room includes; and those that say they are of one room are."""
        tour = "\n".join(lines("docs/tour.md"))
        users = collections.defaultdict(set)
        for name in (n for n in tracked() if re.match(r"(common|services|clients)/.*\.[ch]$", n)):
            for header in re.findall(r'(?m)^#include "(common/[\w/]+\.h)"', "\n".join(lines(name))):
                users[header].add(name.rsplit("/", 1)[0])
        self.assertGreater(len(users), 200)
        for header, rooms in sorted(users.items()):
            room, file = header.rsplit("/", 1)
            if rooms - {room}:
                named = re.search(rf"`[^`]*\b{file[:-2]}\.[ch]`", tour)
                self.expect(named, "docs/tour.md", 1, f"no {header}, which {', '.join(sorted(rooms - {room}))} includes")
                about = re.search(r"(?s)/\* \w+\.h - .*?\*/", "\n".join(lines(header)))
                own = about and re.search(rf"(?:[Ff]or|[Pp]rivate\s(?:\*\s)?to) {room}(?: alone| only|\.)", about.group())
                self.expect(not own, header, 1, f"is not for {room} alone")

    def test_flags_are_those_of_the_programs(self):
        known = set()
        for program in ("psgd", "psgd-coordinator", "psgd-pserver", "psgd-worker"):
            known |= flags(help_of(program))
        for command in re.search(r"Commands: ([^.]*)\.", help_of("psgd")).group(1).split(", "):
            known |= flags(help_of("psgd", command.strip()))
        for n in tracked():  # of our scripts
            if n.endswith((".py", ".sh", ".js")) and n.startswith(("deploy/", "tests/", "clients/")):
                known |= flags("\n".join(lines(n)))
        for name in documents():
            for i, span in code_spans(name):
                if not re.match(r"(chrt|cmake|tensorboard|fleetrun|paddle) ", span):
                    for flag in flags(span) - known:
                        self.expect(False, name, i, f"no program has {flag}")

    @classmethod
    def setUpClass(cls):
        """A folder with small data sets and the files that documents speak of."""
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        (cls.folder / "mnist").mkdir()
        for prefix, n in (("train", TRAIN), ("t10k", 64)):
            with open(cls.folder / "mnist" / f"{prefix}-images-idx3-ubyte", "wb") as f:
                f.write(struct.pack(">4I", 2051, n, 28, 28))
                f.truncate(16 + n * 784)
            with open(cls.folder / "mnist" / f"{prefix}-labels-idx1-ubyte", "wb") as f:
                f.write(struct.pack(">2I", 2049, n) + bytes(i % 10 for i in range(n)))
        (cls.folder / "criteo").mkdir()
        row = "\t".join([*"1" * 13, *(f"{c:x}" for c in range(26))])
        (cls.folder / "criteo" / "clicks").write_text("".join(f"{i % 2}\t{row}\n" for i in range(4096)))
        for path in (ROOT / "clients/examples/code").iterdir():
            shutil.copy(path, cls.folder)
        (cls.folder / "text").mkdir()
        (cls.folder / "text" / "a.txt").write_text("a text\n")
        (cls.folder / "worker.json").write_text(json.dumps(
            {"PS": "10.0.0.1", "Worker": [f"10.0.0.{i}" for i in range(2, 8)]}))

    def plan(self, name, line, words, job="data: {name: mnist}\n"):
        """What `psgd train` says of these words, where job.yaml is `job`."""
        (self.folder / "job.yaml").write_text(job, encoding="utf-8")
        for flag in LOSS_FLAGS:  # of psgd submit alone
            if flag in words:
                del words[words.index(flag):words.index(flag) + 2]
        words = [str(self.folder / w) if w.endswith((".yaml", ".json", ".lua")) else w for w in words]
        given = "".join(pathlib.Path(w).read_text(encoding="utf-8") for w in words if w.endswith(".yaml"))
        if "compute:" in given:
            pass  # it has no samples
        elif "wide_deep" in job:
            words += ["--data", "criteo", "-s", 'data.files=["clicks"]']
        else:
            words += ["--train-limit", str(TRAIN), "--test-limit", "64"]
        answer = psgd("train", *words, "--plan", "--data-path", str(self.folder))
        self.expect(answer.returncode == 0, name, line, f"{' '.join(words)}\n{answer.stderr}")

    def test_job_files_in_documents_make_a_plan(self):
        fields = {field for _, field in fields_of("JobSpec")}
        found = 0
        for name in documents():
            for line, text in blocks(name):
                first = re.match(r"(?:#.*\n)?(\w+):", text)
                if not first or first.group(1) not in fields or "folder:" in text:
                    continue
                text = re.sub(r"(?m)^init_\w+: .*job:.*$", "", text)  # needs those jobs
                if not text.strip():
                    continue
                self.plan(name, line, ["job.yaml", *([] if "workers:" in text else ["--workers", "4"])], text)
                found += 1
        self.assertGreater(found, 6)

    def test_command_lines_in_documents_make_a_plan(self):
        found = 0
        for name in documents():
            for first, text in blocks(name):
                for i, line in enumerate(text.split("\n"), first):
                    for command in re.findall(r"(?:^|[;&] *)(?:build/bin/)?psgd (?:submit|train) ([^;#]*)", line):
                        words = [w for w in shlex.split(command) if w not in ("--watch", "-w", "--plan")]
                        for option in {"--data-path", "--out", "--threads"} & set(words):
                            at = words.index(option)
                            del words[at:at + 2]
                        self.plan(name, i, words)
                        found += 1
        self.assertGreater(found, 8)

    def test_every_field_of_the_protocol_has_a_comment(self):
        for name in tracked():
            if not re.match(r"proto/psgd/v1/.*\.proto", name):
                continue
            inside = ""
            for i, line in enumerate(lines(name), 1):
                code = line.split("//")[0].strip()
                if re.match(r"(message|enum|service|oneof|rpc) \w+|[\w.<>, ]+ = \d+;", code):
                    said = "//" in line or lines(name)[i - 2].strip().startswith("//")
                    # The messages of codecs say what they are.
                    self.expect(said or inside.startswith("oneof codec"), name, i, f"no comment: {code}")
                inside = code if code.startswith("oneof") else "" if code == "}" else inside

    def test_ranges_in_the_protocol_are_the_programs(self):
        """What spec.proto says a number may be, asked of the program: one more is refused in these words."""
        asked = {}
        for holder, prefix in (("JobSpec", ""), ("TimeoutSpec", "timeouts."), ("OptimizerSpec", "optimizer.")):
            for comment, field in fields_of(holder):
                said = re.search(r"(\d[\d.e]*) to (\d[\d.e]*)(?=[.,;: ])", comment)
                if said and not field.startswith("title"):
                    least, most = (float(v.rstrip(".")) for v in said.groups())
                    asked[f"{prefix}{field}"] = (least, most)
        self.assertGreater(len(asked), 12)
        args = [a for path, (_, most) in asked.items() for a in ("-s", f"{path}={int(most) + 1}")]
        refused = psgd("train", "--plan", *args).stderr
        for path, (least, most) in asked.items():
            said = re.search(rf"spec\.{re.escape(path)}: is [\d.e+]+; (\d[\d.e+]*) to (\d[\d.e+]*) ", refused)
            self.assertTrue(said, f"{path}: nothing is said of {most + 1}:\n{refused}")
            self.assertEqual((float(said.group(1)), float(said.group(2))), (least, most),
                             f"proto/psgd/v1/spec.proto: {path}")

    def test_defaults_in_the_protocol_are_the_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            # Nothing said but what makes it short.
            answer = psgd("train", "--out", folder, "--train-limit", "64", "--test-limit", "64", "--epochs", "1")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            spec = json.loads((pathlib.Path(folder) / "summary.json").read_text())["spec"]
        checked = 0
        for holder, at in (("JobSpec", spec), ("ModelSpec", spec["model"]), ("DataSpec", spec["data"]),
                           ("OptimizerSpec", spec["optimizer"]), ("CodecSpec", spec["codec"]),
                           ("TimeoutSpec", spec["timeouts"])):
            for comment, field in fields_of(holder):
                said = re.search(r"[Dd]efault (\"?)(\d+(?:, \d+)+|[\w ]+?)\1(?= \(|[.;,]|$)", comment)
                if not said or field in ("epochs", "folder", "local", "params", "metrics"):
                    continue
                value = at.get(field, 0)
                value = value["name"] if isinstance(value, dict) else value
                value = ", ".join(map(str, value)) if isinstance(value, list) else value
                word = said.group(2).split(" when")[0].split(" the first")[0]
                if word == "false" or word.startswith(("the", "what")):
                    continue
                checked += 1
                self.assertEqual(str(value).replace("OPTIMIZER_SIDE_", ""), word,
                                 f"proto/psgd/v1/spec.proto: {holder}.{field}")
        self.assertGreater(checked, 20)


def message(name):
    """Body of a message of spec.proto."""
    return re.search(rf"(?ms)^message {name} {{\n(.*?)^}}", "\n".join(lines("proto/psgd/v1/spec.proto"))).group(1)


def fields_of(name):
    """(comment in one line, field)."""
    for comment, field in re.findall(r"((?:  //.*\n)+)  (?:repeated )?[\w.<>, ]+ (\w+) = \d+;", message(name)):
        yield re.sub(r"\s*\n?  // ?", " ", comment).strip(), field


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
