"""Runs the steps of scripts/test-nodes and prints their record."""

import argparse
import sys
import time
import traceback

import steps
from fleet import PROGRAM, REDIS, Fleet
from network import run
from record import Record


def main():
    parser = argparse.ArgumentParser(prog="test-nodes")
    parser.add_argument("folder", help=argparse.SUPPRESS)
    parser.add_argument("step", nargs="*", help=f"all if none: {', '.join(steps.STEPS)}")
    parser.add_argument("--short", action="store_true", help="everything lasts a third as long")
    parser.add_argument("--nodes", type=int, default=8)
    options = parser.parse_intermixed_args()
    unknown = set(options.step) - set(steps.STEPS)
    if unknown:
        parser.error(f"no such step: {', '.join(unknown)}")
    fleet = Fleet(options.folder, options.nodes)
    record = Record()
    record.says("versions", "; ".join((
        run(PROGRAM, "--version").strip(),
        run("haproxy", "-v").split(" 20")[0],
        run(REDIS, "--version").split(" sha")[0],
        run("php", "-r", 'echo "PHP ", PHP_VERSION, "; phpredis ", phpversion("redis");'))))
    try:
        begin = time.monotonic()
        fleet.start()
        record.says("nodes", f"{options.nodes}, all there after {time.monotonic() - begin:.0f} s")
        for name in options.step or steps.STEPS:
            print(f"test-nodes: {name}", file=sys.stderr)
            steps.STEPS[name](fleet, record, 1 / 3 if options.short else 1)
    except Exception:
        traceback.print_exc()
        for machine in (fleet.balancer, *fleet.nodes):
            log = "".join(machine.log().splitlines(True)[-3:]) if machine.first else ""
            print(f"--- {machine.name}\n{log}", file=sys.stderr)
        record.fails("it broke off")
    return record.ends()


sys.exit(main())
