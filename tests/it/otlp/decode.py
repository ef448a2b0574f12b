"""Reads exports of spans with OpenTelemetry's own messages, and prints the spans as JSON.

The argument is a folder with the modules; standard input has one export a line, in hexadecimal
digits.
"""

import json
import sys

sys.path.insert(0, sys.argv[1])

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def values(attributes):
    found = {}
    for attribute in attributes:
        assert attribute.key not in found, attribute.key
        kind = attribute.value.WhichOneof("value")
        found[attribute.key] = getattr(attribute.value, kind)
    return found


spans = []
for line in sys.stdin:
    export = ExportTraceServiceRequest()
    export.ParseFromString(bytes.fromhex(line))
    for resource_spans in export.resource_spans:
        resource = values(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                spans.append({
                    "resource": resource,
                    "scope": scope_spans.scope.name,
                    "trace": span.trace_id.hex(),
                    "span": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "state": span.trace_state,
                    "name": span.name,
                    "kind": span.SpanKind.Name(span.kind),
                    "begin": span.start_time_unix_nano,
                    "end": span.end_time_unix_nano,
                    "flags": span.flags,
                    "status": span.status.StatusCode.Name(span.status.code),
                    "attributes": values(span.attributes),
                })
json.dump(spans, sys.stdout)
