#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_matrix.py - every method of every service, called by everybody.

Who may call what comes from the tables of methods, as each service logs them at its start. What a method is about
(whose job, which node) is said here, in METHODS; a method that has no line there fails the test."""
import pathlib
import re
import shutil
import sys
import tempfile

import grpc

from harness import PATIENCE, coordinator_pb2 as pb, job_pb2, main, node_pb2
from psgd.v1 import parameter_pb2, peer_pb2
from tls_cluster import Authority, TlsTest, psgd

OK, DENIED, UNKNOWN, AWAY = (grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED,
                             grpc.StatusCode.UNAVAILABLE)
SEE, CHANGE, NODE = "see", "change", "node"  # what the request is about: a job that one sees or changes; a node
SUE, BOB, OTTO, ANNA, OWN, OTHER, CHIEF = ("submitter/sue", "submitter/bob", "observer/otto", "admin/anna",
                                           "node/worker-0", "node/mallory", "coordinator/main")


def methods(live, over):
    """By method: what it is about, and a request that changes nothing. `live` and `over` are jobs of SUE."""
    worker = parameter_pb2.WorkerIdentity(job_id=live, rank=0, incarnation=1)
    return {
        "CoordinatorService/SubmitJob": (None, pb.SubmitJobRequest(spec=job_pb2.JobSpec(workers=100000))),
        "CoordinatorService/GetJob": (SEE, pb.GetJobRequest(job_id=live)),
        "CoordinatorService/ListJobs": (None, pb.ListJobsRequest()),
        "CoordinatorService/CancelJob": (CHANGE, pb.CancelJobRequest(job_id=over)),
        "CoordinatorService/ChangeTables": (CHANGE, pb.ChangeTablesRequest(
            job_id=live, action=job_pb2.TABLES_ACTION_SAVE)),
        "CoordinatorService/TakeCheckpoint": (CHANGE, pb.TakeCheckpointRequest(job_id=live)),
        "CoordinatorService/TraceJob": (CHANGE, pb.TraceJobRequest(job_id=live)),
        "CoordinatorService/ExplainJob": (SEE, pb.ExplainJobRequest(job_id=over)),
        "CoordinatorService/ScaleJob": (CHANGE, pb.ScaleJobRequest(job_id=live)),
        "CoordinatorService/ListCheckpoints": (SEE, pb.ListCheckpointsRequest(job_id=over)),
        "CoordinatorService/DeleteJob": (CHANGE, pb.DeleteJobRequest(job_id=live)),
        "CoordinatorService/WatchJob": (SEE, pb.WatchJobRequest(job_id=live)),
        "CoordinatorService/ReclaimLogs": (SEE, pb.ReclaimLogsRequest(job_id=over)),
        "CoordinatorService/ListNodes": (None, pb.ListNodesRequest()),
        "CoordinatorService/GetNodeLog": (None, pb.GetNodeLogRequest(node_id="nobody")),
        "CoordinatorService/ListPresets": (None, pb.ListPresetsRequest()),
        "CoordinatorService/GetServerInfo": (None, pb.GetServerInfoRequest()),
        "CoordinatorService/RegisterNode": (NODE, pb.RegisterNodeRequest(node_id="worker-0", threads=1 << 30)),
        "CoordinatorService/Heartbeat": (NODE, pb.HeartbeatRequest(node_id="worker-0", incarnation=1)),
        "CoordinatorService/Ready": (NODE, pb.ReadyRequest(node_id="worker-0", job_id="none")),
        "CoordinatorService/TakePartition": (NODE, pb.TakePartitionRequest(node_id="worker-0", job_id="none")),
        "CoordinatorService/RenewCertificate": (NODE, pb.RenewCertificateRequest(node_id="worker-0")),
        "NodeService/CanCommit": (None, node_pb2.CanCommitRequest(job_id="/")),
        "NodeService/PreCommit": (None, node_pb2.PreCommitRequest()),
        "NodeService/DoCommit": (None, node_pb2.DoCommitRequest(job_id="none", attempt=1)),
        "NodeService/Abort": (None, node_pb2.AbortRequest(job_id="none", attempt=1)),
        "NodeService/GetStatus": (None, node_pb2.GetStatusRequest()),
        "NodeService/Collect": (None, node_pb2.CollectRequest(job_id="none", attempt=1)),
        "NodeService/ActOnTables": (None, node_pb2.ActOnTablesRequest(job_id="none", attempt=1)),
        "NodeService/DescribeNode": (None, node_pb2.DescribeNodeRequest()),
        "NodeService/GetLog": (None, node_pb2.GetLogRequest()),
        "ParameterService/PushGradient": (None, parameter_pb2.PushGradientRequest(worker=worker, attempt=1)),
        "ParameterService/PullWeights": (None, parameter_pb2.PullWeightsRequest(worker=worker, attempt=1)),
        "RecordService/PushRecords": (None, parameter_pb2.PushRecordsRequest(worker=worker, attempt=1)),
        "PeerService/Exchange": (None, peer_pb2.ExchangeRequest(worker=worker, attempt=1)),
        "Health/Check": (None, b""),
        "Health/Watch": (None, b""),
        "ServerReflection/ServerReflectionInfo": (None, b""),
    }


def ask(channel, path, request):
    """Sends one message; code and text of the answer. A first message is an answer too."""
    bytes_ = request if isinstance(request, bytes) else request.SerializeToString()
    call = channel.stream_stream(path)(iter([bytes_]), timeout=20 * PATIENCE)
    try:
        for _ in call:
            call.cancel()
            return OK, ""
        return OK, ""
    except grpc.RpcError as e:
        return e.code(), e.details()


class Matrix(TlsTest):
    def channel(self, at, address, token=None):
        root = (at / "root.pem").read_bytes()
        if token is not None:
            known = grpc.composite_channel_credentials(grpc.ssl_channel_credentials(root),
                                                       grpc.access_token_call_credentials(token))
        elif (at / "identity.pem").exists():
            identity = (at / "identity.pem").read_bytes()
            known = grpc.ssl_channel_credentials(root, identity, identity)
        else:
            known = grpc.ssl_channel_credentials(root)
        channel = grpc.secure_channel(address, known)
        self.addCleanup(channel.close)
        return channel

    def callers(self, c, tokens):
        """By name: the folder of its files, its principal (None: it must not get in), its token."""
        root = c.folder / "root"
        root.mkdir()
        (root / "root.pem").write_bytes((c.admin / "root.pem").read_bytes())
        other = Authority()
        self.addCleanup(other.close)
        stranger = other.join(ANNA)
        (stranger / "root.pem").write_bytes((c.admin / "root.pem").read_bytes())  # takes the services
        expired = c.authority.join_expiring("admin/expired")
        revoked = c.authority.join("admin/revoked")
        found = {"no certificate": (root, None, None), "another authority": (stranger, None, None),
                 "expired": (expired, None, None), "revoked": (revoked, None, None),
                 "wrong token": (root, None, "psgd_" + "0" * 64)}
        for who in (SUE, BOB, OTTO, ANNA, OWN, OTHER, CHIEF):
            at = c.authority.dir_of(who)
            found[who] = (at if at.exists() else c.authority.join(who), who, None)
        for who, token in tokens.items():
            found[f"token of {who}"] = (root, who, token)
        c.authority.revoke("admin/revoked")
        return found

    def expected(self, who, may, about):
        """The code, None for any that lets the caller in, and what the text has."""
        if who.split("/")[0] not in may:
            return DENIED, f"{who} may not call"
        if who == BOB and about in (SEE, CHANGE):
            return DENIED, "is not of submitter/bob"
        if who == OTHER and about == NODE:
            return DENIED, "which speaks for itself only"
        return None, ""

    def test_everybody_calls_every_method(self):
        file = self.folder() / "tokens"
        tokens = {}
        for who in (SUE, BOB, OTTO, ANNA):
            told = psgd("token", "create", who, "--tokens", file)
            tokens[who] = re.search("psgd_[0-9a-f]{64}", told.stdout).group()
        c = self.tls_cluster(workers=1, pservers=1, coordinator_args=["--tokens", file, "--log-level", "debug"],
                             node_args=["--log-level", "debug"])
        c.wait_nodes(2)
        sue = self.stub(c, SUE)
        jobs = [sue.SubmitJob(pb.SubmitJobRequest(spec=job_pb2.JobSpec(title="queued", workers=9)), timeout=60).job.id
                for _ in range(2)]
        sue.CancelJob(pb.CancelJobRequest(job_id=jobs[1]), timeout=60)
        entries = methods(*jobs)
        callers = self.callers(c, tokens)
        c.poll("the certificate has expired", lambda: ask(self.channel(
            callers["expired"][0], c.coordinator.address), "/psgd.v1.CoordinatorService/ListJobs", b"")[0] != OK)
        c.poll("the certificate is revoked", lambda: all(ask(self.channel(
            callers["revoked"][0], p.address), "/grpc.health.v1.Health/Check", b"")[0] != OK
            for p in (c.coordinator, *c.nodes)))
        wrong, cells, met = [], 0, set()
        for process in (c.coordinator, *c.nodes):
            table = re.findall(r"/([\w.]+)\.(\w+/\w+)((?:/\d+)?) may be called by ([a-z, ]+)", process.log())
            self.assertGreater(len(table), 10)
            for name, (at, who, token) in callers.items():
                if token is not None and process is not c.coordinator:
                    continue  # nodes take certificates only
                channel = self.channel(at, process.address, token)
                for package, method, instance, may in table:
                    self.assertIn(method, entries, "say in METHODS what it is about")
                    met.add(method)
                    about, request = entries[method]
                    code, text = ask(channel, f"/{package}.{method}{instance}", request)
                    if who is None:
                        passes = process is c.coordinator and name in ("no certificate", "wrong token")
                        want, has = (UNKNOWN if passes else AWAY), ""
                    else:
                        want, has = self.expected(who, may.split(", "), about)
                    cells += 1
                    if (code != want if want else code in (DENIED, UNKNOWN, AWAY)) or has not in text:
                        wrong.append(f"{process.name} {name} {method}: {code} {text!r}; {want} expected")
        self.assertEqual(wrong, [])
        self.assertEqual(met, set(entries))
        print(f"{cells} cells", file=sys.stderr)
        self.assertEqual(c.get(jobs[0]).state, job_pb2.JOB_STATE_QUEUED)
        self.assertTrue(all(n.alive for n in c.node_list()))

    def folder(self):
        at = pathlib.Path(tempfile.mkdtemp(prefix="psgd-matrix-"))
        self.addCleanup(shutil.rmtree, at, True)
        return at


if __name__ == "__main__":
    sys.exit(main())
