# SPDX-License-Identifier: Apache-2.0
"""messages.py FOLDER - compiles proto/psgd/v1 to Python modules below FOLDER."""
import pathlib
import sys

import grpc_tools
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]


def compile_to(folder):
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    if not well_known.exists():
        well_known = pathlib.Path("/usr/include")
    files = sorted((ROOT / "proto/psgd/v1").glob("*.proto"))
    code = protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"-I{well_known}", f"--python_out={folder}",
                        f"--grpc_python_out={folder}", *map(str, files)])
    if code != 0:
        raise RuntimeError("protoc failed")


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    compile_to(sys.argv[1])
