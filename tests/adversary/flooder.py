# SPDX-License-Identifier: Apache-2.0
"""flooder.py - a client that floods one port over raw HTTP/2 connections, in a process of its own.

    flooder.py KIND HOST PORT SECONDS FROM
    flooder.py KIND twin SHARE SECONDS FROM

It opens two connections from the address FROM, opens one again as soon as it is closed, sends as
fast as it may, and prints what it did as a line of JSON. KINDS lists the floods. A twin sends the
same to a thread of its own, which reads and discards it, and takes at most SHARE of a processor."""
import collections
import contextlib
import json
import random
import select
import socket
import struct
import sys
import threading
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PING, WINDOW, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
CONNECTIONS = 2
BATCH = 500  # frames or streams that are made at a time
UNKNOWN = b"/psgd.v1.NoService/NoMethod"
REFLECT = b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
SETTINGS_ACK = struct.pack(">I", 0)[1:] + bytes([SETTINGS, ACK]) + b"\0\0\0\0"


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def literals(path):
    """A block of headers that enters each of them in the table of the receiver."""
    fields = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"x"),
              (b"te", b"trailers"), (b"content-type", b"application/grpc"))
    return b"".join(b"\x40" + bytes([len(n)]) + n + bytes([len(v)]) + v for n, v in fields)


INDEXED = bytes(0x80 | 62 + i for i in range(6))  # the same six, from the table


class Streams:
    """Opens streams; `after(id)` is what follows the headers of each."""

    def __init__(self, path, after, batch=BATCH, flags=END_HEADERS):
        self.path, self.after, self.batch, self.flags = path, after, batch, flags
        self.next = 1

    def __call__(self):
        made = []
        for _ in range(self.batch):
            block = INDEXED if self.next > 1 else literals(self.path)
            made.append(frame(HEADERS, self.flags, self.next, block) + self.after(self.next))
            self.next += 2
        return b"".join(made)


def again(part, first=b""):
    """`first`, and then the same over and over."""
    whole = part * BATCH
    parts = iter([first + whole])
    return lambda: next(parts, whole)


def opened(path=REFLECT):
    return frame(HEADERS, END_HEADERS, 1, literals(path))


def reset(stream):
    return frame(RST, 0, stream, b"\0\0\0\x08")


# A request of reflection that is answered at length: file_containing_symbol.
SYMBOL = b"psgd.v1.CoordinatorService"
ASK = struct.pack(">BIBB", 0, len(SYMBOL) + 2, 0x22, len(SYMBOL)) + SYMBOL
BODY = b"\0\0\0\x20\0" + b"x" * 8192  # a message, complete

Kind = collections.namedtuple("Kind", "make hello acks reads", defaults=(True, True, True))
# make() gives a function that makes bytes without end; with a preface, settings acknowledged, answers read?
KINDS = {
    "pings": Kind(lambda: again(frame(PING, 0, 0, b"12345678"))),
    "settings": Kind(lambda: again(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)))),
    "windows": Kind(lambda: again(frame(WINDOW, 0, 1, struct.pack(">I", 1)), opened())),
    "priorities": Kind(lambda: again(frame(PRIORITY, 0, 1, b"\0\0\0\0\1"), opened())),
    "empty data": Kind(lambda: again(frame(DATA, 0, 1), opened())),
    "tiny data": Kind(lambda: again(frame(DATA, 0, 1, b"\0"), opened())),
    "data of no call": Kind(lambda: again(frame(DATA, 0, 1, b"\0" * 16000), opened(UNKNOWN))),
    "messages without end": Kind(lambda: again(
        frame(DATA, 0, 1, b"\0\0\0\x3e\x7b" + b"x" * 15995), opened())),
    "continuation": Kind(lambda: again(
        frame(CONTINUATION, 0, 1, b"\0\1a\x7f\x80\x07" + b"v" * 1000), frame(HEADERS, 0, 1, literals(REFLECT)))),
    "resets": Kind(lambda: Streams(UNKNOWN, reset)),
    "resets unacknowledged": Kind(lambda: Streams(UNKNOWN, reset), acks=False, reads=False),
    "resets with bodies": Kind(lambda: Streams(REFLECT, lambda i: frame(DATA, 0, i, BODY) + reset(i), 50)),
    "unfinished bodies": Kind(lambda: Streams(REFLECT, lambda i: frame(DATA, 0, i, BODY[:6000]), 50),
                              reads=False),
    "unread answers": Kind(lambda: Streams(REFLECT, lambda i: frame(DATA, END_STREAM, i, ASK), 50),
                           reads=False),
    "unknown methods": Kind(lambda: Streams(UNKNOWN, lambda i: b"", flags=END_HEADERS | END_STREAM)),
    "garbage": Kind(lambda: lambda: random.randbytes(65536)),
    "http1": Kind(lambda: again(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), hello=False),
    "connect and close": Kind(None),
}


class Flood:
    def __init__(self, kind, address, source):
        self.kind, self.address, self.source = KINDS[kind], address, source
        self.bytes = self.connections = self.refused = 0

    def connect(self):
        s = socket.socket()
        if self.source:
            s.bind((self.source, 0))
        s.settimeout(1)
        s.connect(self.address)
        self.connections += 1
        return s

    def run_one(self, end):
        """Floods over one connection at a time. A generator, so that several take turns."""
        while time.monotonic() < end:
            try:
                s = self.connect()
            except OSError:
                self.refused += 1
                yield from self.idle(None, 0.01)
                continue
            if self.kind.make is None:
                s.close()
                yield (None, False, 0)
                continue
            s.setblocking(False)
            with s, contextlib.suppress(OSError):
                yield from self.flood(s, end)

    @staticmethod
    def idle(s, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            yield (s, False, until - time.monotonic())

    def flood(self, s, end):
        make = self.kind.make()
        pending = PREFACE + frame(SETTINGS, 0, 0) if self.kind.hello else b""
        if self.kind.hello and self.kind.acks:
            pending += SETTINGS_ACK
        pending = memoryview(pending)
        while time.monotonic() < end:
            if not pending:
                pending = memoryview(make())
            with contextlib.suppress(BlockingIOError):
                sent = s.send(pending)
                self.bytes += sent
                pending = pending[sent:]
            if self.kind.reads:
                with contextlib.suppress(BlockingIOError):
                    if not s.recv(1 << 18):
                        return
            yield (s, bool(self.kind.reads), 0.1)

    def run(self, seconds, share=1.0):
        began = time.monotonic()
        end = began + seconds
        ones = [self.run_one(end) for _ in range(CONNECTIONS)]
        waits = {one: (None, False, 0) for one in ones}
        while waits:
            for one in list(waits):
                try:
                    waits[one] = next(one)
                except StopIteration:
                    del waits[one]
            with_socket = [w for w in waits.values() if w[0] is not None and w[0].fileno() >= 0]
            if with_socket and len(with_socket) == len(waits):
                select.select([w[0] for w in with_socket if w[1]], [w[0] for w in with_socket], [],
                              min(w[2] for w in with_socket))
            elif waits and all(w[2] for w in waits.values()):
                time.sleep(min(w[2] for w in waits.values()))
            time.sleep(max(0, time.process_time() / share - (time.monotonic() - began)))
        return {"bytes": self.bytes, "connections": self.connections, "refused": self.refused,
                "share": time.process_time() / (time.monotonic() - began)}


def discard(listener):
    """Accepts connections, and reads what comes until nobody is left."""
    open_ones = [listener]
    while True:
        for s in select.select(open_ones, [], [])[0]:
            if s is listener:
                open_ones.append(s.accept()[0])
                continue
            try:
                is_over = not s.recv(1 << 18)
            except OSError:
                is_over = True
            if is_over:
                open_ones.remove(s)
                s.close()


def main(kind, host, port, seconds, source):
    random.seed(1)
    if host != "twin":
        return Flood(kind, (host, int(port)), source).run(float(seconds))
    listener = socket.create_server((source, 0), backlog=64)
    threading.Thread(target=discard, args=(listener,), daemon=True).start()
    return Flood(kind, listener.getsockname(), source).run(float(seconds), max(0.01, float(port)))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
