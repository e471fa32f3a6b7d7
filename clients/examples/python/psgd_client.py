#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""psgd_client.py - submits a job to a psgd coordinator, follows it, saves its files.

    psgd_client.py [--coordinator HOST:PORT] [--tls-dir DIR] [--output DIR] JOB.json

With --tls-dir the link is TLS: DIR has root.pem, and identity.pem unless the environment has a
token of 'psgd token' in PSGD_TOKEN.
JOB.json is a JobSpec in protobuf's JSON form. Nothing of psgd is needed but its
.proto files; python3-grpcio and python3-grpc-tools (or pip's grpcio and
grpcio-tools) are. Exit code: 0 done, 1 the job failed, 2 no connection,
4 a bad job.
"""
import argparse
import hashlib
import os
import pathlib
import re
import sys
import tempfile
import time
import zlib

import grpc
import grpc_tools
from google.protobuf import json_format
from grpc_tools import protoc

PROTO = pathlib.Path(__file__).resolve().parents[3] / "proto"


def load_messages(proto=PROTO):
    """Makes Python of the .proto files, in a folder of its own, and imports it.

    In a project of your own, run protoc once and keep what it makes.
    """
    out = tempfile.mkdtemp(prefix="psgd-client-")
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"  # pip's; Debian's is in /usr
    include = well_known if well_known.exists() else pathlib.Path("/usr/include")
    files = [str(f) for f in sorted((proto / "psgd" / "v1").glob("*.proto"))]
    if protoc.main(["protoc", f"-I{proto}", f"-I{include}", f"--python_out={out}",
                    f"--grpc_python_out={out}", *files]) != 0:
        sys.exit("protoc failed")
    sys.path.insert(0, out)


def connect(address, tls_dir):
    """A channel to the coordinator. Under TLS its certificate must name the host of `address`."""
    if tls_dir is None:
        return grpc.insecure_channel(address)
    root, token = (tls_dir / "root.pem").read_bytes(), os.environ.get("PSGD_TOKEN")
    if token:  # every call brings "authorization: Bearer TOKEN"
        return grpc.secure_channel(address, grpc.composite_channel_credentials(
            grpc.ssl_channel_credentials(root), grpc.access_token_call_credentials(token)))
    identity = (tls_dir / "identity.pem").read_bytes()  # both the key and the certificate
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(root, identity, identity))


PATIENCE = 90  # seconds; the next of several coordinators leads after 1 min at the latest


def watch(api, pb, job_pb2, job_id):
    """Prints a job's events until it is over; opens the stream again when it breaks."""
    sequence, lost_at = 0, None
    while True:
        try:
            if lost_at is not None:  # a stream may be silent for long, so ask whether it is back
                api.GetJob(pb.GetJobRequest(job_id=job_id), timeout=10)
                lost_at = None
            for event in api.WatchJob(pb.WatchJobRequest(job_id=job_id, after_sequence=sequence)):
                sequence, job = event.sequence, event.job
                if event.kind == pb.JOB_EVENT_KIND_STATE:
                    print(job_pb2.JobState.Name(job.state), job.reason, job.message, flush=True)
                elif event.kind == pb.JOB_EVENT_KIND_PROGRESS and job.progress.step:
                    p = job.progress
                    print(f"step {p.step}/{p.total_steps}  loss {p.loss:.4f}  "
                          f"accuracy {p.accuracy:.3f}  {p.samples_per_second:.0f} samples/s",
                          flush=True)
                elif event.kind == pb.JOB_EVENT_KIND_METRICS:
                    print("test set:", dict(job.result), flush=True)
            return api.GetJob(pb.GetJobRequest(job_id=job_id), timeout=10).job
        except grpc.RpcError as error:
            now = time.monotonic()
            lost_at = now if lost_at is None else lost_at
            may_pass = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
            if error.code() not in may_pass or now - lost_at > PATIENCE:
                raise
            time.sleep(0.5)


def save_files(api, pb, job_id, folder):
    """Writes all files of a job; every chunk and every file is checked."""
    folder.mkdir(parents=True, exist_ok=True)
    data = bytearray()
    for chunk in api.ReclaimLogs(pb.ReclaimLogsRequest(job_id=job_id)):
        name = chunk.artifact.name
        if not re.fullmatch(r"([A-Za-z0-9_()-][A-Za-z0-9._()-]*/)?[A-Za-z0-9_()-][A-Za-z0-9._()-]*", name) or ".." in name:
            raise ValueError(f"not a name for a file: {name!r}")
        if chunk.offset != len(data) or zlib.crc32(chunk.payload) != chunk.crc32:
            raise ValueError(f"{name}: a chunk is missing or damaged")
        data += chunk.payload
        if chunk.last:
            if chunk.artifact.sha256 not in ("", hashlib.sha256(data).hexdigest()):
                raise ValueError(f"{name}: wrong SHA-256")
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
            print(f"saved {folder / name} ({len(data)} bytes)", flush=True)
            data = bytearray()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coordinator", default="127.0.0.1:15386", metavar="HOST:PORT")
    parser.add_argument("--tls-dir", type=pathlib.Path, metavar="DIR",
                        help="root.pem, and identity.pem if there is no PSGD_TOKEN; default: plaintext")
    parser.add_argument("--output", type=pathlib.Path, metavar="DIR", help="default: the job's id")
    parser.add_argument("job", type=pathlib.Path, metavar="JOB.json")
    arguments = parser.parse_args()

    load_messages()
    from psgd.v1 import coordinator_pb2 as pb
    from psgd.v1 import coordinator_pb2_grpc, job_pb2

    try:
        spec = json_format.Parse(arguments.job.read_text(), job_pb2.JobSpec())
    except (OSError, json_format.ParseError) as error:
        print(f"{arguments.job}: {error}", file=sys.stderr)
        return 4
    with connect(arguments.coordinator, arguments.tls_dir) as channel:
        api = coordinator_pb2_grpc.CoordinatorServiceStub(channel)
        try:
            job = api.SubmitJob(pb.SubmitJobRequest(spec=spec), timeout=10).job
            print("job", job.id, flush=True)
            job = watch(api, pb, job_pb2, job.id)
            save_files(api, pb, job.id, arguments.output or pathlib.Path(job.id))
        except grpc.RpcError as error:
            print(f"{error.code().name}: {error.details()}", file=sys.stderr)
            return {"UNAVAILABLE": 2, "INVALID_ARGUMENT": 4}.get(error.code().name, 1)
    print(job_pb2.JobState.Name(job.state), dict(job.result))
    return 0 if job.state == job_pb2.JOB_STATE_DONE else 1


if __name__ == "__main__":
    sys.exit(main())
