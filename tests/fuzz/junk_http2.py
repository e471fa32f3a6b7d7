# SPDX-License-Identifier: Apache-2.0
"""junk_http2.py - one raw TCP connection with something that is not gRPC."""
import contextlib
import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
OPEN_MAX = 40  # connections that are left hanging at a time
SETTINGS, DATA, HEADERS, RST, PING, GOAWAY, WINDOW, CONTINUATION = 4, 0, 1, 3, 6, 7, 8, 9


def frame(kind, flags, stream, body):
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def header(name, value):
    """Literal, not indexed; short ones only."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def headers(path, *more):
    block = b"".join(header(n, v) for n, v in [
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"x"),
        (b"te", b"trailers"), (b"content-type", b"application/grpc"), *more])
    return frame(HEADERS, 4, 1, block)


def noise(r, most=2000):
    return bytes(r.getrandbits(8) for _ in range(r.randrange(most)))


def something(r):
    """What is sent on one connection."""
    begin = PREFACE + frame(SETTINGS, 0, 0, b"")
    path = r.choice([b"/psgd.v1.CoordinatorService/GetServerInfo", b"/psgd.v1.NodeService/GetStatus",
                     b"/psgd.v1.ParameterService/PushGradient", b"/x", b"", b"/psgd.v1.NodeService/"])
    kind = r.randrange(13)
    if kind == 0:
        return noise(r, 20000)
    if kind == 1:
        return r.choice([b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
                         PREFACE[:r.randrange(len(PREFACE))], b"\0" * 100000])
    if kind == 2:
        return begin + noise(r)
    if kind == 3:  # frames of random kinds
        return begin + b"".join(frame(r.randrange(16), r.randrange(256), r.choice([0, 1, 3, 1 << 30]),
                                      noise(r, 60)) for _ in range(r.randrange(50)))
    if kind == 4:  # a message cut short, then silence or a reset
        return begin + headers(path) + frame(DATA, 0, 1, struct.pack(">BI", 0, 5000) + noise(r, 100))
    if kind == 5:  # a message of 4 GiB is announced
        return begin + headers(path) + frame(DATA, 1, 1, struct.pack(">BI", 0, 0xffffffff) + noise(r))
    if kind == 6:  # compressed, without a codec named
        return begin + headers(path) + frame(DATA, 1, 1, struct.pack(">BI", 1, 10) + b"0123456789")
    if kind == 7:  # a compression that there is
        return begin + headers(path, (b"grpc-encoding", b"gzip")) + frame(
            DATA, 1, 1, struct.pack(">BI", 1, 64) + noise(r, 64).ljust(64, b"\0"))
    if kind == 8:  # bad metadata
        return begin + headers(path, (b"grpc-timeout", b"99999999999H"), (b"grpc-x-bin", b"!!!"),
                               (b"Upper", b"\x01\x02")) + frame(DATA, 1, 1, b"\0\0\0\0\0")
    if kind == 9:  # pings, settings and resets in rows
        return begin + b"".join(r.choice([
            frame(PING, 0, 0, b"12345678"), frame(SETTINGS, 0, 0, struct.pack(">HI", r.randrange(9), r.getrandbits(32))),
            frame(RST, 0, 1, struct.pack(">I", r.randrange(16))), frame(WINDOW, 0, 0, struct.pack(">I", r.getrandbits(32)))])
            for _ in range(200))
    if kind == 10:  # headers that go on and on
        return begin + frame(HEADERS, 0, 1, header(b"a", b"b")) + b"".join(
            frame(CONTINUATION, 0, 1, header(b"k%d" % i, b"v" * 100)) for i in range(300))
    if kind == 11:  # streams opened and reset at once
        return begin + b"".join(headers(path).replace(b"\0\0\0\1", struct.pack(">I", 2 * i + 1), 1)
                                + frame(RST, 0, 2 * i + 1, b"\0\0\0\x08") for i in range(100))
    return begin + headers(path) + b"".join(  # many empty messages
        frame(DATA, 0, 1, b"\0\0\0\0\0" * 100) for _ in range(20)) + frame(GOAWAY, 0, 0, b"\0" * 8)


def attack(r, address, open_ones):
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        s = stack.enter_context(socket.create_connection(address, timeout=2))
        s.settimeout(0.2)
        s.sendall(something(r))
        end = r.randrange(4)
        if end == 0:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        elif end == 1:
            s.recv(10000)
        elif end == 2:  # left hanging
            stack.pop_all()
            open_ones.append(s)
            if len(open_ones) > OPEN_MAX:
                open_ones.pop(0).close()
