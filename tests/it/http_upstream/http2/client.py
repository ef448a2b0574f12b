"""A client of gRPC. It says what calls of the kind that is named give, one line for each thing.

Arguments: the address, the kind, and for TLS the certificate of the authority.
"""

import queue
import sys
import time

import grpc

address, kind = sys.argv[1:3]
if len(sys.argv) > 3:
    trust = grpc.ssl_channel_credentials(open(sys.argv[3], "rb").read())
    name = (("grpc.ssl_target_name_override", "localhost"),)
    channel = grpc.secure_channel(address, trust, name)
else:
    channel = grpc.insecure_channel(address)


def method(kind, name):
    make = getattr(channel, kind)
    path = "/test.Test/" + name
    return make(path, request_serializer=str.encode, response_deserializer=bytes.decode)


def trailers(call):
    fields = dict(call.trailing_metadata())
    return {name: value for name, value in fields.items() if name.startswith("x-")}


def once():
    ask = method("unary_unary", "Once")
    answer, call = ask.with_call("a" * 3, timeout=30, metadata=(("x-said", "hello"),))
    print(answer, dict(call.initial_metadata())["x-seen"], trailers(call))
    answer, call = ask.with_call("b" * 3_000_000, timeout=30)
    print(len(answer), trailers(call)["x-length"])
    try:
        ask("refuse", timeout=30)
    except grpc.RpcError as error:
        print(error.code().name, error.details())


def several():
    ask = method("unary_stream", "Several")
    print(sum(len(answer) for answer in ask("2000", timeout=30)))
    try:
        for answer in ask("7", timeout=30):
            print(answer[:1], end=" ")
    except grpc.RpcError as error:
        print(error.code().name, error.details())


def collect():
    ask = method("stream_unary", "Collect")
    print(ask(("x" * 1000 for _ in range(3000)), timeout=30))


def talk():
    """Each message is said when the answer to the one before has come."""
    ask = method("stream_stream", "Talk")
    said = queue.Queue()
    call = ask(iter(said.get, None), timeout=30)
    for number in range(5):
        said.put(f"word {number}")
        print(next(call))
    said.put("bye")
    print(list(call), trailers(call), call.code().name)
    said.put(None)


def gone():
    """What becomes of a call whose client cancels it."""
    call = method("unary_stream", "Waits")("it", timeout=30)
    print(next(call))
    call.cancel()
    asked, until = method("unary_unary", "Asked"), time.monotonic() + 20
    while asked("it", timeout=30) != "gone" and time.monotonic() < until:
        time.sleep(0.01)
    print(asked("it", timeout=30))


def unreachable():
    try:
        method("unary_unary", "Once")("a", timeout=30)
    except grpc.RpcError as error:
        print(error.code().name)


globals()[kind]()
