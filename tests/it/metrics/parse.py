"""Reads metrics with the parsers of the Prometheus project, and prints the samples as JSON.

The argument is the media type of the text on standard input. With a second one, `exemplars`, these
are printed and not the samples. A text that breaks the rules of its format is an error.
"""

import json
import sys

from prometheus_client import parser as prometheus
from prometheus_client.openmetrics import parser as openmetrics

is_open = sys.argv[1].startswith("application/openmetrics-text; version=1.0.0;")
assert is_open or sys.argv[1].startswith("text/plain; version=0.0.4;"), sys.argv[1]
parser = openmetrics if is_open else prometheus
families = parser.text_string_to_metric_families(sys.stdin.read())
samples = {}
exemplars = {}
for family in families:
    assert family.type != "unknown" and family.documentation, family
    for sample in family.samples:
        labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
        key = f"{sample.name}{{{labels}}}" if labels else sample.name
        assert key not in samples, key
        samples[key] = sample.value
        if sample.exemplar:
            labels, value, timestamp = sample.exemplar
            exemplars[key] = {"labels": labels, "value": value, "timestamp": float(timestamp)}
json.dump(exemplars if "exemplars" in sys.argv else samples, sys.stdout)
