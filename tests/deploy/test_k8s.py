#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_k8s.py MODELS - deploy/k8s: kustomize renders it, the objects match the schemas of Kubernetes, and what the
containers run trains: their arguments and the commands of their probes, with the programs of the build.

    PSGD_BIN=build/test/bin test_k8s.py build/test/schemas/node_modules/kubernetes-models

It needs root: each pod is a network namespace, as in test_compose.py. The schema of JobSet is not among those of
Kubernetes; its jobs are held against that of Job, its other fields against those named here.
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import yaml

sys.path[:0] = [str(pathlib.Path(__file__).parent)]
import test_compose as pods  # noqa: E402

BASE = pods.ROOT / "deploy/k8s/base"
OBJECTS = list(yaml.safe_load_all(subprocess.run(["kubectl", "kustomize", BASE], check=True, text=True,
                                                 stdout=subprocess.PIPE).stdout))
JOBSET = next(o for o in OBJECTS if o["kind"] == "JobSet")
# The schemas allow fields that they do not know; a field that no schema has looked at is one.
CHECK = """
const [at, text] = process.argv.slice(1), thing = JSON.parse(text), {kind, apiVersion} = thing;
const group = {v1: 'CoreV1', 'batch/v1': 'BatchV1', 'networking.k8s.io/v1': 'NetworkingV1'}[apiVersion];
const unseen = new Set();
function watch(value, path) {
    if (value === null || typeof value !== 'object') return value;
    for (const key in value) { unseen.add(path + '.' + key); value[key] = watch(value[key], path + '.' + key); }
    return Array.isArray(value) ? value : new Proxy(value, {get(of, key) { unseen.delete(path + '.' + String(key)); return of[key]; }});
}
const seen = watch(thing, '');
import(at + '/_schemas/IoK8sApi' + group + kind + '.js').then(({validate}) => {
    if (!validate(seen)) { console.error(validate.errors); process.exit(1); }
    const unknown = [...unseen].filter((path) => !/\\.[0-9]+$/.test(path));
    if (unknown.length) { console.error('no such field: ' + unknown); process.exit(1); }
});
"""


def members():
    """The pods' names, with their containers."""
    found = {}
    for job in JOBSET["spec"]["replicatedJobs"]:
        for index in range(job["template"]["spec"]["completions"]):
            name = f"{JOBSET['metadata']['name']}-{job['name']}-0-{index}.{JOBSET['spec']['network']['subdomain']}"
            found[name] = job["template"]["spec"]["template"]["spec"], index
    return found


pods.MEMBERS = list(members())


class Manifests(pods.Containers):
    def service(self, name, pod, index):
        """What the kubelet makes of a pod, in the words of a compose file."""
        (container,) = pod["containers"]
        env = {}
        for variable in container["env"]:
            field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            value = {"status.podIP": f"{pods.NETWORK}.{pods.MEMBERS.index(name) + 1}",
                     "metadata.annotations['batch.kubernetes.io/job-completion-index']": str(index)}.get(field)
            env[variable["name"]] = self.expand(variable["value"] if value is None else value, env)
        self.assertEqual(env["PSGD_HOST"], name)
        claims = [v for v in pod["volumes"] if "persistentVolumeClaim" in v]
        return {"command": [self.expand(a, env) for a in container["args"]], "hostname": name.split(".")[0],
                "healthcheck": {"test": ["CMD", *container["readinessProbe"]["exec"]["command"]]},
                "volumes": ["coordinator:/var/lib/psgd"] if claims else []}

    @staticmethod
    def expand(text, env):
        for name, value in env.items():
            text = text.replace(f"$({name})", value)
        return text

    def test_1_they_match_the_schema(self):
        objects = [o for o in OBJECTS if o is not JOBSET]
        for job in JOBSET["spec"]["replicatedJobs"]:
            self.assertEqual(set(job), {"name", "template"})
            objects.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]}, **job["template"]})
        self.assertEqual(set(JOBSET["spec"]), {"network", "replicatedJobs"})
        self.assertLessEqual(set(JOBSET["spec"]["network"]),
                             {"enableDNSHostnames", "subdomain", "publishNotReadyAddresses"})
        for thing in objects:
            done = subprocess.run(["node", "-e", CHECK, MODELS, json.dumps(thing)], text=True, capture_output=True)
            self.assertEqual(done.returncode, 0, f"{thing['kind']} {thing['metadata']}: {done.stderr}")

    def test_2_the_pods_train(self):
        spec = {"services": {name: self.service(name, *pod) for name, pod in members().items()},
                "volumes": {"coordinator": None}}
        first = pods.MEMBERS[0]
        spec["services"]["psgd"] = {"entrypoint": ["psgd-role", "psgd"], "environment": {"PSGD_COORDINATOR": f"{first}:15386"}}
        self.train(spec)
        for name, (pod, _) in members().items():
            alive = subprocess.run(["ip", "netns", "exec", name, *pod["containers"][0]["livenessProbe"]["exec"]["command"]])
            self.assertEqual(alive.returncode, 0, self.log(name))
        for name in reversed(pods.MEMBERS):
            self.running[name].terminate()
            self.finish(name, 20)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: a network of its own needs root")
        sys.exit(77)
    if "PSGD_INSIDE" not in os.environ:
        sys.exit(pods.inside())
    MODELS = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
