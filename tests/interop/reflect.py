#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""reflect.py - a foreign client that knows no .proto file of ours.

    reflect.py HOST:PORT                          lists the services
    reflect.py HOST:PORT Service/Method [JSON]    calls a unary method, prints the answer
    reflect.py --test SERVER_PROGRAM              starts it and checks both, and health

Only the reflection service itself is known beforehand: its messages are
written down here by number. Everything else is asked of the server.
Needs python3-grpcio and python3-protobuf.
"""
import subprocess
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

DEADLINE_S = 20
TYPES = descriptor_pb2.FieldDescriptorProto


def reflection_messages(package):
    """The request and response classes of one version, from field numbers."""
    fields = {
        "Request": [("host", 1, TYPES.TYPE_STRING), ("file_by_filename", 3, TYPES.TYPE_STRING),
                    ("file_containing_symbol", 4, TYPES.TYPE_STRING),
                    ("list_services", 7, TYPES.TYPE_STRING)],
        "Service": [("name", 1, TYPES.TYPE_STRING)],
        "Services": [("service", 1, "Service", True)],
        "Files": [("file_descriptor_proto", 1, TYPES.TYPE_BYTES, True)],
        "Error": [("error_code", 1, TYPES.TYPE_INT32), ("error_message", 2, TYPES.TYPE_STRING)],
        "Response": [("valid_host", 1, TYPES.TYPE_STRING), ("original_request", 2, "Request"),
                     ("file_descriptor_response", 4, "Files"),
                     ("list_services_response", 6, "Services"), ("error_response", 7, "Error")],
    }
    file = descriptor_pb2.FileDescriptorProto(name=package + ".proto", package=package,
                                              syntax="proto3")
    for name, rows in fields.items():
        message = file.message_type.add(name=name)
        for field, number, kind, *repeated in rows:
            f = message.field.add(name=field, number=number)
            f.label = TYPES.LABEL_REPEATED if repeated else TYPES.LABEL_OPTIONAL
            if isinstance(kind, str):
                f.type, f.type_name = TYPES.TYPE_MESSAGE, f".{package}.{kind}"
            else:
                f.type = kind
                if name == "Request" and number > 1:
                    f.oneof_index = 0
        if name == "Request":
            message.oneof_decl.add(name="message_request")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [class_of(pool.FindMessageTypeByName(f"{package}.{name}"))
            for name in ("Request", "Response")]


def class_of(descriptor):
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory().GetPrototype(descriptor)


class Reflection:
    """One reflection stream, question by question."""

    def __init__(self, channel, version):
        self.request, response = reflection_messages("probe." + version)
        self.call = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=self.request.SerializeToString,
            response_deserializer=response.FromString)

    def ask(self, *questions):
        requests = [self.request(host="probe", **q) for q in questions]
        answers = list(self.call(iter(requests), timeout=DEADLINE_S))
        assert [a.original_request for a in answers] == requests, "answers echo the requests"
        return answers

    def services(self):
        answer, = self.ask({"list_services": ""})
        return [s.name for s in answer.list_services_response.service]

    def pool_of(self, symbol):
        """A descriptor pool with the file of the symbol and all it imports."""
        answer, = self.ask({"file_containing_symbol": symbol})
        if answer.HasField("error_response"):
            raise LookupError(answer.error_response.error_message)
        files = {}
        for data in answer.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            files[file.name] = file
        pool = descriptor_pool.DescriptorPool()

        def add(name):
            if name in files:
                file = files.pop(name)
                for dependency in file.dependency:
                    add(dependency)
                pool.Add(file)

        for name in list(files):
            add(name)
        return pool


def call_unary(channel, version, path, text):
    """Calls Service/Method with a JSON request; the answer as JSON."""
    service, method = path.split("/")
    pool = Reflection(channel, version).pool_of(service)
    kind = pool.FindServiceByName(service).methods_by_name[method]
    request = json_format.Parse(text, class_of(kind.input_type)())
    call = channel.unary_unary(f"/{path}", request_serializer=lambda m: m.SerializeToString(),
                               response_deserializer=class_of(kind.output_type).FromString)
    answer = call(request, timeout=DEADLINE_S)
    return json_format.MessageToJson(answer, preserving_proto_field_name=True,
                                     including_default_value_fields=True, descriptor_pool=pool)


def check_version(channel, version):
    r = Reflection(channel, version)
    assert set(r.services()) == {
        "psgd.test.KindsService", "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}
    # All files are well-formed and complete: a pool refuses what is not.
    for symbol in ("CoordinatorService", "NodeService", "ParameterService", "RecordService", "PeerService"):
        pool = r.pool_of("psgd.v1." + symbol)
        assert pool.FindServiceByName("psgd.v1." + symbol).methods
    pool = r.pool_of("psgd.v1.JobSpec")
    assert pool.FindMessageTypeByName("psgd.v1.Choice").fields_by_name["params"].number == 2
    answers = r.ask({"file_by_filename": "nobody.proto"}, {"file_containing_symbol": "no.body"},
                    {"file_by_filename": "psgd/v1/codec.proto"})
    assert [a.error_response.error_code for a in answers] == [5, 5, 0]
    assert '"SERVING"' in call_unary(channel, version, "grpc.health.v1.Health/Check",
                                     '{"service": "psgd.test.KindsService"}')
    try:
        call_unary(channel, version, "grpc.health.v1.Health/Check", '{"service": "nobody"}')
        raise AssertionError("Check of an unknown service must fail")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND


def check_watch(channel):
    pool = Reflection(channel, "v1").pool_of("grpc.health.v1.Health")
    kind = pool.FindServiceByName("grpc.health.v1.Health").methods_by_name["Watch"]
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch",
                                 request_serializer=lambda m: m.SerializeToString(),
                                 response_deserializer=class_of(kind.output_type).FromString)
    statuses = []
    for name in ("", "nobody"):
        stream = watch(class_of(kind.input_type)(service=name), timeout=DEADLINE_S)
        statuses.append(next(stream).status)
        stream.cancel()
    assert statuses == [1, 3], statuses  # SERVING, SERVICE_UNKNOWN


def test(program):
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        port = int(server.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            for version in ("v1", "v1alpha"):
                check_version(channel, version)
            check_watch(channel)
        server.stdin.close()
        code = server.wait(DEADLINE_S)
    assert code == 0, f"the server ended with {code}"
    print("ok")


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--test":
        test(arguments[1])
        return
    if not arguments:
        sys.exit(__doc__)
    with grpc.insecure_channel(arguments[0]) as channel:
        if len(arguments) == 1:
            print("\n".join(Reflection(channel, "v1").services()))
        else:
            print(call_unary(channel, "v1", arguments[1],
                             arguments[2] if len(arguments) > 2 else "{}"))


if __name__ == "__main__":
    main(sys.argv[1:])
