"""Tries to open the memory of each process that begins, until its input ends; prints how many of
one server's it got. Its argument is the process id of that server's supervisor."""
import os, select, sys

supervisor = int(sys.argv[1])
seen, found = set(), 0


def stat(pid):
    """From the third field of its stat file on."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(") ", 1)[1].split()


def is_of_server(pid):
    parent = int(stat(pid)[1])
    return supervisor in (parent, int(stat(parent)[1]))


print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    for _ in range(200):
        with open("/proc/loadavg") as loadavg:
            last = int(loadavg.read().rsplit(" ", 1)[1])
        for pid in range(last - 2, last + 3):
            if pid in seen:
                continue
            try:
                os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR))
                # One that ends has let go of its memory already, so anybody may open what is left.
                is_ending = int(stat(pid)[6]) & 4  # PF_EXITING
                found += is_of_server(pid) and not is_ending
                seen.add(pid)
            except OSError:
                pass
print(found, flush=True)
