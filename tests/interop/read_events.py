# SPDX-License-Identifier: Apache-2.0
"""Reads TensorBoard event files by the formats' descriptions alone.

Records: u64 length, u32 masked CRC-32C of it, the bytes, u32 masked CRC-32C of
them. The bytes are protobuf messages, whose fields are taken apart by number.
"""
import struct


def crc32c(data):
    """Bit by bit, from the polynomial."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(raw):
    at = 0
    while at < len(raw):
        length, check = struct.unpack_from("<QI", raw, at)
        assert check == masked(raw[at : at + 8]), f"byte {at}: checksum of the length"
        data = raw[at + 12 : at + 12 + length]
        (check,) = struct.unpack_from("<I", raw, at + 12 + length)
        assert check == masked(data), f"byte {at}: checksum of the record"
        yield data
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """(number, value) of a message; values of varints are ints, the rest bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            length, at = {1: (8, at), 5: (4, at)}.get(key & 7) or varint(data, at)
            value, at = data[at : at + length], at + length
        yield key >> 3, value
    assert at == len(data), "a message ends within a field"


def read(path):
    """[(wall time, step, tag, value)] of a file; the first record is its version."""
    with open(path, "rb") as file:
        events = list(records(file.read()))
    version = dict(fields(events[0]))
    assert version[3] == b"brain.Event:2" and set(version) == {1, 3}, version
    points = []
    for event in events[1:]:
        event = dict(fields(event))
        (wall_s,) = struct.unpack("<d", event[1])
        for number, summary in fields(event[5]):
            assert number == 1
            value = dict(fields(summary))
            assert set(value) == {1, 2}, value
            points.append((wall_s, event[2], value[1].decode(), struct.unpack("<f", value[2])[0]))
    return points
