#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_k8s.py MODELS KUBECTL - deploy/k8s: kustomize renders it, the objects match the schemas of Kubernetes, and what
the containers run trains: their arguments and the commands of their probes, with the programs of the build. KUBECTL is
Debian's, whose kustomize is old; another one on PATH must render the same.

    PSGD_BIN=build/test/bin test_k8s.py build/test/schemas/node_modules/kubernetes-models build/test/kubectl/usr/bin/kubectl

It needs root: each pod is a network namespace, as in test_compose.py. The schema of JobSet is not among those of
Kubernetes; its jobs are held against that of Job, its other fields against those named here.
"""
import base64
import json
import os
import pathlib
import subprocess
import sys
import unittest

import yaml

sys.path[:0] = [str(pathlib.Path(__file__).parent)]
import test_compose as pods  # noqa: E402

DEPLOY = pods.ROOT / "deploy/k8s"


def rendered(kubectl, overlay):
    text = subprocess.run([kubectl, "kustomize", DEPLOY / overlay], check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout
    return sorted(yaml.safe_load_all(text), key=str)


# The schemas allow fields that they do not know; a field that no schema has looked at is one.
CHECK = """
const [at, text] = process.argv.slice(1);
function watch(value, path, unseen) {
    if (value === null || typeof value !== 'object') return value;
    for (const key in value) { unseen.add(path + '.' + key); value[key] = watch(value[key], path + '.' + key, unseen); }
    return Array.isArray(value) ? value
        : new Proxy(value, {get(of, key) { unseen.delete(path + '.' + String(key)); return of[key]; }});
}
(async () => {
    for (const thing of JSON.parse(text)) {
        const {kind, apiVersion, metadata} = thing, unseen = new Set();
        const group = {v1: 'CoreV1', 'batch/v1': 'BatchV1', 'networking.k8s.io/v1': 'NetworkingV1'}[apiVersion];
        const {validate} = await import(at + '/_schemas/IoK8sApi' + group + kind + '.js');
        const valid = validate(watch(thing, '', unseen));
        const unknown = [...unseen].filter((path) => !/\\.[0-9]+$/.test(path));
        if (!valid || unknown.length) {
            console.error(kind, metadata, valid ? 'no such field: ' + unknown : validate.errors);
            process.exitCode = 1;
        }
    }
})();
"""


def jobset(objects):
    return next(o for o in objects if o["kind"] == "JobSet")


def members(objects):
    """The pods' names, with their specifications and indices."""
    found, a_set = {}, jobset(objects)
    for job in a_set["spec"]["replicatedJobs"]:
        for index in range(job["template"]["spec"]["completions"]):
            name = f"{a_set['metadata']['name']}-{job['name']}-0-{index}.{a_set['spec']['network']['subdomain']}"
            found[name] = job["template"]["spec"]["template"]["spec"], index
    return found


class Manifests(pods.Containers):
    def service(self, name, pod, index, secret):
        """What the kubelet makes of a pod, in the words of a compose file."""
        (container,) = pod["containers"]
        env = {}
        for variable in container["env"]:
            field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            value = {"status.podIP": f"{pods.NETWORK}.{(pods.MEMBERS.index(name) if index is not None else 0) + 1}",
                     "metadata.annotations['batch.kubernetes.io/job-completion-index']": str(index)}.get(field)
            env[variable["name"]] = self.expand(variable["value"] if value is None else value, env)
        self.assertEqual(env.get("PSGD_HOST", name), name)
        kinds = {v["name"]: v for v in pod["volumes"]}
        volumes = []
        for mount in container["volumeMounts"]:
            kind = kinds[mount["name"]]
            if "persistentVolumeClaim" in kind:
                volumes.append(f"coordinator:{mount['mountPath']}")
            elif "secret" in kind:
                key = self.expand(mount.get("subPathExpr", mount.get("subPath")), env)
                at = self.work / "secrets" / name / key
                at.parent.mkdir(parents=True, exist_ok=True)
                at.write_bytes(base64.b64decode(secret["data"][key]))
                os.chown(at, 0, pod["securityContext"]["fsGroup"])  # as the kubelet does with fsGroup
                at.chmod(kind["secret"]["defaultMode"] | 0o40)
                volumes.append(f"{at}:{mount['mountPath']}")
        found = {"hostname": name.split(".")[0], "volumes": volumes, "environment": env}
        if "args" in container:
            found["command"] = [self.expand(a, env) for a in container["args"]]
            found["healthcheck"] = {"test": ["CMD", *container["readinessProbe"]["exec"]["command"]]}
        return found

    @staticmethod
    def expand(text, env):
        for name, value in env.items():
            text = text.replace(f"$({name})", value)
        return text

    def spec(self, objects, secret=None):
        services = {name: self.service(name, *pod, secret) for name, pod in members(objects).items()}
        client = next(o for o in objects if o["kind"] == "Pod")
        services["psgd"] = {"entrypoint": ["psgd-role", "psgd"],
                            **self.service("psgd-client", client["spec"], None, secret)}
        return {"services": services, "volumes": {"coordinator": None}}

    def secret(self):
        return yaml.safe_load(subprocess.run(
            [DEPLOY / "tls/secret.sh", self.work / "keys", "2", "3"], check=True, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={**os.environ, "PATH": f"{pods.BIN}:{os.environ['PATH']}"}).stdout)

    def test_1_they_match_the_schema(self):
        objects = [self.secret()]
        for overlay in ["base", "tls"]:
            these = rendered(KUBECTL, overlay)
            self.assertEqual(these, rendered("kubectl", overlay))
            a_set = jobset(these)
            objects += [o for o in these if o is not a_set]
            for job in a_set["spec"]["replicatedJobs"]:
                self.assertEqual(set(job), {"name", "template"})
                objects.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]},
                                **job["template"]})
            self.assertEqual(set(a_set["spec"]), {"network", "replicatedJobs"})
            self.assertLessEqual(set(a_set["spec"]["network"]),
                                 {"enableDNSHostnames", "subdomain", "publishNotReadyAddresses"})
        done = subprocess.run(["node", "-e", CHECK, MODELS, json.dumps(objects)], text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_2_the_pods_train(self):
        objects = rendered(KUBECTL, "base")
        spec = self.spec(objects)
        self.train(spec)
        for name, (pod, _) in members(objects).items():
            alive = subprocess.run(["ip", "netns", "exec", name, *pod["containers"][0]["livenessProbe"]["exec"]["command"]])
            self.assertEqual(alive.returncode, 0, self.log(name))
        for name in reversed(pods.MEMBERS):
            self.running[name].terminate()
            self.finish(name, 20)

    def test_3_the_pods_train_with_tls(self):
        objects = rendered(KUBECTL, "tls")
        spec = self.spec(objects, self.secret())
        for name in pods.MEMBERS:
            self.assertNotIn("--insecure", spec["services"][name]["command"])

        def restart():  # a container that dies is started again in place: it is the same node, and trains
            name = "psgd-worker-0-1.psgd"
            self.running[name].kill()
            self.running.pop(name).wait()
            self.up(spec, [name])
        self.train(spec, restart)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: a network of its own needs root")
        sys.exit(77)
    MODELS, KUBECTL = (str(pathlib.Path(a).resolve()) for a in sys.argv[1:3])
    pods.MEMBERS = list(members(rendered(KUBECTL, "base")))
    if "PSGD_INSIDE" not in os.environ:
        sys.exit(pods.inside())
    del sys.argv[1:3]
    unittest.main(verbosity=2)
