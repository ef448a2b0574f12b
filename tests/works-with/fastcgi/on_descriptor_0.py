"""Runs a program whose descriptor 0 is a listening socket, as the specification of FastCGI has it,
and runs it again when it ends, as whoever starts such a program does. It has a process group of its
own, so that what the program has started ends with it.

python3 on_descriptor_0.py PROGRAM ARGUMENT… SOCKET
"""

import os
import signal
import socket
import subprocess
import sys
import time

os.umask(0)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[-1])
listener.listen(128)


def end(*_):
    os.killpg(os.getpid(), signal.SIGKILL)


signal.signal(signal.SIGTERM, end)
while True:
    subprocess.run(sys.argv[1:-1], stdin=listener)
    time.sleep(0.1)
