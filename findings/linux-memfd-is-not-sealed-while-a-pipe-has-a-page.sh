#!/usr/bin/env bash
# Linux refuses to seal a memfd against writing while a pipe has one of its pages, though nobody has
# it mapped and nobody could write to it by the pipe.
#
# Software: Linux 6.18.44 (fcntl F_ADD_SEALS with F_SEAL_WRITE), by Python 3.11.2 of Debian 12.
#
# The manual names a shared and writable mapping as what a file is not sealed for (EBUSY). A program
# that has none sees no reason to look at the result. A page that is referred to from elsewhere
# counts as well, because somebody might write to it: spliced into a pipe that nobody reads, or held
# by a direct read of a disk.
#
# Seen: with a page in a pipe the call takes 0.15 to 0.2 s of waiting and fails with EBUSY; as soon
# as the pipe has been read it works, at once. F_SEAL_GROW and F_SEAL_SHRINK work with a page in a
# pipe, and so does F_SEAL_FUTURE_WRITE, which is enough where no mapping is writable.
set -euo pipefail

timeout 60 python3 - <<'PYTHON'
import errno
import fcntl
import os
import sys
import time

ADD_SEALS, SHRINK, GROW, WRITE, FUTURE_WRITE = 1033, 2, 4, 8, 16


def add(file, seals):
    """What the kernel says, and whether it took a while."""
    begun = time.monotonic()
    try:
        fcntl.fcntl(file, ADD_SEALS, seals)
        said = "sealed"
    except OSError as error:
        said = errno.errorcode[error.errno]
    return said, "after a wait" if time.monotonic() - begun > 0.1 else "at once"


def in_a_pipe():
    """A file of two pages, the first of them in a pipe that nobody has read."""
    file = os.memfd_create("file", os.MFD_ALLOW_SEALING)
    os.write(file, b"x" * 8192)
    reader, writer = os.pipe()
    os.splice(file, writer, 4096, offset_src=0)
    return file, reader


file, reader = in_a_pipe()
found = [("size, a page in a pipe", add(file, SHRINK | GROW)), ("writes, the same", add(file, WRITE))]
os.read(reader, 4096)
found.append(("writes, the pipe has been read", add(file, WRITE)))
found.append(("writes to come, a page in a pipe", add(in_a_pipe()[0], FUTURE_WRITE)))
for what, seen in found:
    print(f"{what}: {', '.join(seen)}")
expected = [("sealed", "at once"), ("EBUSY", "after a wait"), ("sealed", "at once"), ("sealed", "at once")]
if [seen for _, seen in found] != expected:
    sys.exit("this is not what was recorded")
PYTHON
