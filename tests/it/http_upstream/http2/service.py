"""A service of gRPC: what it is asked it answers, in all four kinds of calls.

Arguments: the address, and for TLS a certificate and its key. Messages are texts.
"""

import sys
import threading
from concurrent import futures

import grpc

STARTED = {}


def once(request, context):
    fields = dict(context.invocation_metadata())
    context.set_trailing_metadata((("x-length", str(len(request))), ("x-two-bin", b"\0\xff")))
    context.send_initial_metadata((("x-seen", fields.get("x-said", "nothing")),))
    if request == "refuse":
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now")
    return "once " + request


def several(request, context):
    for number in range(int(request)):
        yield f"{number} " + "x" * 1000
    if request == "7":
        context.abort(grpc.StatusCode.DATA_LOSS, "seven")


def collect(requests, context):
    count = sum(len(request) for request in requests)
    return f"{count} characters"


def talk(requests, context):
    for request in requests:
        if request == "bye":
            context.set_trailing_metadata((("x-last", request),))
            return
        yield "you said " + request


def waits(request, context):
    """Goes on until the client has gone."""
    gone = threading.Event()

    def note():
        STARTED[request] = "gone"
        gone.set()

    context.add_callback(note)
    yield "begun"
    gone.wait(20)


def asked(request, context):
    return STARTED.get(request, "unknown")


KINDS = {
    "Once": (grpc.unary_unary_rpc_method_handler, once),
    "Several": (grpc.unary_stream_rpc_method_handler, several),
    "Collect": (grpc.stream_unary_rpc_method_handler, collect),
    "Talk": (grpc.stream_stream_rpc_method_handler, talk),
    "Waits": (grpc.unary_stream_rpc_method_handler, waits),
    "Asked": (grpc.unary_unary_rpc_method_handler, asked),
}

server = grpc.server(futures.ThreadPoolExecutor(16))
handlers = {
    name: kind(method, request_deserializer=bytes.decode, response_serializer=str.encode)
    for name, (kind, method) in KINDS.items()
}
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", handlers),))
if len(sys.argv) > 2:
    certificate, key = (open(name, "rb").read() for name in sys.argv[2:])
    server.add_secure_port(sys.argv[1], grpc.ssl_server_credentials([(key, certificate)]))
else:
    server.add_insecure_port(sys.argv[1])
server.start()
server.wait_for_termination()
