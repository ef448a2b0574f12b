"""The steps of the test."""

import json
import sys
import threading
import time

from fleet import MODES, TOKEN
from network import eventually, run
from visitors import Crowd, Releases

# Of each mode, beside one over TLS: more than all nodes' workers, so that a node that is missing
# is missed.
EACH = 16


def together(*actions):
    """Runs them at once, and returns what they return."""
    results = [None] * len(actions)

    def do(index):
        results[index] = actions[index]()

    threads = [threading.Thread(target=do, args=(index,)) for index in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def sessions(fleet, record, _):
    """All nodes add to one session at once, and none of it is lost. Meanwhile a worker of async
    mode serves others."""
    for mode in MODES:
        name = f"crowd-{mode}"
        response = fleet.nodes[0].asks(mode, f"/login/{name}")[1]
        cookie = {"Cookie": response.headers["Set-Cookie"].split(";")[0]}
        keys = [f"{node.name}-{client}-{turn}" for node in fleet.nodes for client in range(2)
                for turn in range(2)]

        def adds(node, client, mode=mode, cookie=cookie):
            return [node.asks(mode, f"/count/{node.name}-{client}-{turn}", cookie, "PUT", 90)[2]
                    for turn in range(2)]

        def others(mode=mode):
            time.sleep(1)
            taken = []
            for _ in range(5):
                begin = time.monotonic()
                fleet.nodes[0].asks(mode, "/plain/x")
                taken.append(time.monotonic() - begin)
            return [max(taken)]

        begin = time.monotonic()
        *answers, waited = together(*(
            lambda node=node, client=client: adds(node, client)
            for node in fleet.nodes for client in range(2)), others)
        numbers = sorted(answer.get("number", -1) for some in answers for answer in some)
        there = fleet.nodes[1].asks(mode, "/me", cookie)[2]
        whole = numbers == list(range(1, len(keys) + 1)) and set(there["keys"]) == set(keys)
        record.promises(
            f"sessions, {mode}: increments of one session by {2 * len(fleet.nodes)} clients",
            f"{len(keys)} sent, {there['count']} kept in {time.monotonic() - begin:.0f} s", whole)
        # A page takes 0.3 s; a worker that waits for the lock would take many seconds.
        text = f"{waited[0]:.2f} s"
        what = f"sessions, {mode}: longest page of others on a node meanwhile"
        if mode == "async":
            record.promises(what, text, waited[0] < 1)
        else:
            record.says(what, text)


def purge(fleet, record, _):
    """What one node removes from the content cache, all remove."""
    def made(node, name):
        return node.asks("worker", f"/kept/{name}")[2]["made"]

    longest = 0.0
    for turn in range(5):
        name = f"of-{turn}"
        old = {made(node, name) for node in fleet.nodes}
        if len(old) != 1:
            record.fails(f"nodes do not share a page: {old}")
        node = fleet.nodes[turn % len(fleet.nodes)]
        node.tokamak("cache", "purge", "--tag", "kept")
        begin = time.monotonic()
        for other in fleet.nodes:
            eventually("the purge is everywhere",
                       lambda other=other, name=name, old=old: made(other, name) not in old, 20, 0.02)
        longest = max(longest, time.monotonic() - begin)
    # It is half a second; the rest is for a busy machine.
    record.promises("purge: longest until no node has the page", f"{longest:.2f} s", longest < 2)


def roll_out(fleet, record, share, step, renew):
    """Each node gets a new release in turn, by `renew`, under load."""
    releases = fleet.releases
    number = releases.begins()
    with Crowd(fleet, step, releases, EACH) as crowd:
        time.sleep(5)
        before_begin = time.monotonic()
        time.sleep(30 * share)
        begin = time.monotonic()
        for node in fleet.nodes:
            node.release(str(number))
            renew(node)
            releases.is_on(node)
            eventually(f"the balancer has {node.name}", fleet.all_are_up, 60)
            # As long as an operator looks at it. All nodes share the processors of this machine:
            # without a pause, the starts themselves would take them from the others.
            time.sleep(3)
        end = time.monotonic()
        before, during = (crowd.tally.rate(*when) for when in ((before_begin, begin), (begin, end)))
    record.promises(
        f"{step}: answers a second before, and during {end - begin:.0f} s",
        f"{before:.0f}, {during:.0f} ({during / before:.2f})",
        during / before >= 1 - 1 / len(fleet.nodes))
    record.visitors(step, crowd)


def upgrade(fleet, record, share):
    """A new release by `tokamak upgrade`."""
    roll_out(fleet, record, share, "upgrade", lambda node: node.upgrade())
    old = {fleet.nodes[0].asks(mode, f"/page/{mode}-1")[2]["release"] for mode in MODES}
    fleet.nodes[0].tokamak("cache", "purge", "--all")
    record.says("upgrade: releases of cached pages after it", ", ".join(sorted(old)))


def replace(fleet, record, share):
    """A new release as by a package that stops the service and starts it."""
    def renew(node):
        node.stop()
        node.serve()
        eventually(f"{node.name} is ready", node.is_ready, 120)

    roll_out(fleet, record, share, "replace", renew)


def kill(fleet, record, share):
    """A node loses all of its processes at once, every ten seconds, and starts again."""
    releases, died, repeated = fleet.releases, 0, fleet.repeated()
    with Crowd(fleet, "kill", releases, EACH) as crowd:
        time.sleep(5)
        until = time.monotonic() + 90 * share
        while time.monotonic() < until:
            again = time.monotonic() + 10
            node = fleet.nodes[died % len(fleet.nodes)]
            node.switch_off()
            died += 1
            time.sleep(1)
            node.switch_on()
            node.serve()
            eventually(f"{node.name} is ready", node.is_ready, 120)
            time.sleep(max(0, again - time.monotonic()))
    record.says("kill: nodes killed", f"{died}; the balancer has repeated "
                f"{fleet.repeated() - repeated} requests or connections")
    record.visitors("kill", crowd, ("failed, not repeatable",))


def cut(fleet, record, share):
    """Redis cannot be reached for a while. A purge of that time is carried out later."""
    releases, seconds, first = fleet.releases, 60 * share, fleet.nodes[0]

    def made(node):
        return node.asks("worker", "/kept/cut")[2]["made"]

    with Crowd(fleet, "cut", releases, EACH) as crowd:
        old = {made(node) for node in fleet.nodes}
        time.sleep(10)
        for store in fleet.stores:
            store.disconnect()
        print(f"test-nodes: cut at {time.strftime('%H:%M:%S')}", file=sys.stderr)
        begin = time.monotonic()
        time.sleep(seconds / 2)
        first.tokamak("cache", "purge", "--tag", "kept-cut")
        time.sleep(seconds / 2)
        meanwhile = crowd.tally.rate(begin + 5, begin + seconds)
        others = sum(made(node) in old for node in fleet.nodes)
        for store in fleet.stores:
            store.connect()
        again = time.monotonic()
        print(f"test-nodes: connected at {time.strftime('%H:%M:%S')}", file=sys.stderr)
        eventually("there are sessions again", lambda: all(
            first.asks(mode, "/login/again")[0] == 200 for mode in MODES), 60)
        sessions_after = time.monotonic() - again
        eventually("the purge is everywhere", lambda: not any(
            made(node) in old for node in fleet.nodes), 60)
        purge_after = time.monotonic() - again
        time.sleep(10)
    before = crowd.tally.rate(begin - 8, begin)
    record.says(f"cut: answers a second before, and in {seconds:.0f} s without Redis",
                f"{before:.0f}, {meanwhile:.0f}")
    record.says("cut: longest until a visitor is told that there is no session",
                f"{crowd.tally.longest_without_session:.1f} s")
    record.promises("cut: sessions in all modes after it", f"{sessions_after:.1f} s",
                    sessions_after < 15)
    record.promises(f"cut: a purge that {others} nodes have missed", f"{purge_after:.1f} s after it",
                    purge_after < 15)
    record.visitors("cut", crowd, ("without session", "not stored"))


def isolate(fleet, record, share):
    """A node lives, and nobody reaches it, nor does it reach anybody. It has requests then. What is
    purged meanwhile it must not have when it is back."""
    seconds, node, other = 40 * share, *fleet.nodes[:2]

    def made(of):
        return of.asks("worker", "/kept/isolated")[2]["made"]

    with Crowd(fleet, "isolate", fleet.releases, EACH) as crowd:
        time.sleep(5)
        old = made(node)
        node.disconnect()
        time.sleep(seconds / 2)
        other.tokamak("cache", "purge", "--tag", "kept-isolated")
        time.sleep(seconds / 2)
        # It has the page as long as nobody tells it otherwise.
        page = run(*node.command("curl", "-sf", "-H", "Host: worker.example",
                                 "http://127.0.0.1:8080/kept/isolated"))
        if json.loads(page)["made"] != old:
            record.fails("isolate: the node has lost the page by itself")
        node.connect()
        again = time.monotonic()
        eventually("the node has heard of the purge", lambda: made(node) != old, 60)
        purge_after = time.monotonic() - again
        eventually("the balancer has it", fleet.all_are_up, 60)
        # As long as a request that the node had takes to be given up.
        time.sleep(25)
    record.promises(f"isolate: a purge that a node has missed in {seconds:.0f} s",
                    f"{purge_after:.1f} s after it", purge_after < 15)
    record.visitors("isolate", crowd, ("failed, not repeatable", "without session", "not stored"))


STEPS = {step.__name__: step for step in (sessions, purge, upgrade, replace, kill, isolate, cut)}
