# SPDX-License-Identifier: Apache-2.0
"""junk_bytes.py - messages that are wrong in every way, from a random.Random."""
import struct

from google.protobuf import descriptor_pb2, json_format, symbol_database
from google.protobuf.descriptor import FieldDescriptor as F

from psgd.v1 import job_pb2

EDGES = [0, 1, 2, 127, 128, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32,
         (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
REALS = [0.0, -0.0, 1.0, -1.0, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"), 0.5]
RANGES = {kind: (low, bits) for low, bits, kinds in [
    (-(1 << 31), 31, [F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32]),
    (-(1 << 63), 63, [F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64]),
    (0, 32, [F.TYPE_UINT32, F.TYPE_FIXED32]),
    (0, 64, [F.TYPE_UINT64, F.TYPE_FIXED64])] for kind in kinds}


# Whose payload is that of parts which say how much of it is theirs.
FITTED = ("PushGradientRequest", "ExchangeRequest", "PreCommitRequest")
ROW_WIDTH = 4  # of the table of junk.py


class Pool:
    """True values by field name, so that some junk gets past the first check."""

    def __init__(self, **values):
        self.values = {
            "rank": [0, 1], "clock": [0, 1, 5], "block": [0, 1], "slice": [0, 1, 2, 3],
            "slices": [0, 1, 2], "payload_bytes": [0, 64, 640, 65536], "role": [1, 2],
            "name": ["mnist", "glyphs", "f32", "int8", "adam", "sgd", "bsp", "ssp", "asp", "../../x",
                     "TR-small-N(0).csv"],
            "title": ["junk", "../../etc", "a" * 65], "preset": ["mlp", "", "nonsense"],
            "kind": ["dense", "tanh"], "reserve_ms": [1, 1000], "request_id": ["a", "b"],
            "page_size": [0, 1, 1000, -1], **values}

    def pick(self, r, field):
        values = self.values.get(field)
        return r.choice(values) if values and r.random() < 0.8 else None


def file_proto(file):
    proto = descriptor_pb2.FileDescriptorProto()
    file.DESCRIPTOR.CopyToProto(proto)
    return proto


def number(r, field_type):
    low, bits = RANGES[field_type]
    value = r.choice(EDGES) if r.random() < 0.5 else r.getrandbits(r.randrange(1, 65))
    value &= (1 << bits) - 1
    return low + value if low and r.random() < 0.2 else value


def text(r):
    return r.choice(["", "x", "a" * 70000, "\x00", "é" * 40, "127.0.0.1:1", "[::1]:0", "host:99999",
                     "%s%n", "".join(chr(r.randrange(1, 0x500)) for _ in range(r.randrange(40)))])


def scalar(r, field, pool):
    known = pool.pick(r, field.name)
    if field.type == F.TYPE_STRING:
        return known if isinstance(known, str) else text(r)
    if field.type == F.TYPE_BYTES:
        return bytes(known) if isinstance(known, bytes) else blob(r)
    if field.type in (F.TYPE_DOUBLE, F.TYPE_FLOAT):
        return r.choice(REALS)
    if field.type == F.TYPE_BOOL:
        return r.random() < 0.5
    if field.type == F.TYPE_ENUM:
        return r.choice([0, 1, 2, 3, 7, 100, (1 << 31) - 1, -1])
    return known if isinstance(known, int) else number(r, field.type)


def blob(r):
    size = r.choice([0, 1, 64, 640, 4096, 65536, 65536, (1 << 20) - 1, 1 << 20, (1 << 20) + 1,
                     5 << 20 if r.random() < 0.1 else 17])
    if size <= 4096 and r.random() < 0.5:
        return bytes(r.getrandbits(8) for _ in range(size))
    return struct.pack("<f", r.choice(REALS[:4])) * (size // 4) + b"\0" * (size % 4)


def fill(r, message, pool, depth=0):
    """Random fields, with true values where the pool has them."""
    for field in message.DESCRIPTOR.fields:
        if field.name == "spec" and r.random() < 0.7:
            json_format.ParseDict(r.choice(pool.values["spec"]), message.spec)
            if r.random() < 0.6:
                fill(r, message.spec, pool, depth + 1)
            continue
        if r.random() < 0.2 or depth > 4:
            continue
        repeated = field.label == F.LABEL_REPEATED
        if repeated and field.message_type and field.message_type.GetOptions().map_entry:
            target = getattr(message, field.name)
            for _ in range(r.randrange(4)):
                key = r.choice(["lr", "bound", "redundancy", "units", text(r)])
                if isinstance(key, str) and field.message_type.fields_by_name["value"].type == F.TYPE_DOUBLE:
                    target[key] = r.choice(REALS)
        elif field.type == F.TYPE_MESSAGE:
            if repeated:
                for _ in range(r.choice([0, 1, 2, 8, 300 if r.random() < 0.05 else 3])):
                    fill(r, getattr(message, field.name).add(), pool, depth + 1)
            else:
                part = getattr(message, field.name)
                part.SetInParent()
                fill(r, part, pool, depth + 1)
        elif repeated:
            getattr(message, field.name).extend(scalar(r, field, pool) for _ in range(r.randrange(6)))
        else:
            setattr(message, field.name, scalar(r, field, pool))
    if message.DESCRIPTOR.name in FITTED and r.random() < 0.6:
        fit(r, message)
    if message.DESCRIPTOR.name == "PushGradientRequest" and r.random() < 0.4:
        fit_rows(r, message)
    if message.DESCRIPTOR.name == "PullWeightsRequest" and r.random() < 0.5:
        message.keys[:] = some_keys(r)
    return message


def some_keys(r):
    """Ids as a table wants them."""
    return sorted(r.sample(range(1000), r.choice([0, 1, 3, 60])))


def fit_rows(r, message):
    """Rows of a table alone: ids, and as many of everything as there are of them; mostly."""
    keys, rows = some_keys(r), message.rows
    del message.slices[:]
    rows.Clear()
    rows.keys[:] = keys
    rows.shows[:] = [1 + r.randrange(3) for _ in keys]
    rows.clicks[:] = [r.randrange(2) for _ in keys]
    rows.is_last = r.random() < 0.5
    if keys:
        head = rows.values.add(payload_bytes=len(keys) * ROW_WIDTH * 4)
        head.f32.SetInParent()
    message.payload = b"\0\0\x80\x3a" * (len(keys) * ROW_WIDTH)
    if r.random() < 0.3:
        setattr(*r.choice([(rows, "table"), (rows, "part"), (message, "block")]), r.choice(EDGES[:8]))


def fit(r, message):
    """Lets the payload have the length that the message says."""
    packets = getattr(message, "packets", [])
    for p in packets:
        p.what, p.piece, p.word_bytes = r.randrange(4), r.randrange(3), 0
        p.encoding.SetInParent()
    slices = [p.encoding for p in packets] or getattr(message, "slices", [])
    for s in slices:
        s.slice = r.randrange(6)
        s.payload_bytes = min(s.payload_bytes, 65536)
        s.f32.SetInParent()
    want = sum(s.payload_bytes for s in slices)
    if want <= 1 << 20:
        message.payload = b"\0\0\x80\x3a" * (want // 4) + b"\0" * (want % 4)


def mutate(r, data):
    """A few wounds."""
    data = bytearray(data)
    for _ in range(r.choice([1, 1, 2, 8])):
        at = r.randrange(len(data) + 1)
        kind = r.randrange(7)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << r.randrange(8)
        elif kind == 1:
            del data[at:at + r.randrange(1, 9)]
        elif kind == 2:
            data[at:at] = bytes(r.getrandbits(8) for _ in range(r.randrange(1, 9)))
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            piece = data[at:at + r.randrange(1, 200)]
            data[at:at] = piece * r.randrange(1, 20)
        elif kind == 5:  # a length or number that never ends, or is huge
            data[at:at] = r.choice([b"\xff" * 9 + b"\x01", b"\xff" * 12, b"\x7a\xff\xff\xff\x7f",
                                    b"\x0a\x80\x80\x80\x80\x08"])
        else:  # groups and wrong wire types
            data[at:at] = bytes([r.randrange(1, 16) << 3 | r.randrange(8)]) * r.randrange(1, 50)
    return bytes(data)


def message(r, descriptor, pool):
    """Bytes or a message for a method that takes `descriptor` (None: anything)."""
    kind = r.random()
    if descriptor is None or kind < 0.1:
        return blob(r) if r.random() < 0.5 else bytes(r.getrandbits(8) for _ in range(r.randrange(300)))
    made = fill(r, symbol_database.Default().GetPrototype(descriptor)()
                if hasattr(symbol_database.Default(), "GetPrototype")
                else descriptor._concrete_class(), pool)
    data = made.SerializeToString()
    if kind < 0.55:
        return data
    if kind < 0.6:  # two messages, one behind the other
        return data + data
    return mutate(r, data)


assert job_pb2  # the messages are there before any descriptor is asked for
