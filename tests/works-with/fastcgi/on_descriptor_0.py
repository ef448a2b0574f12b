"""Runs a program whose descriptor 0 is a listening socket, as the specification of FastCGI has it,
and runs it again when it ends, as whoever starts such a program does.

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
running = None


def end(*_):
    if running:
        running.kill()
    sys.exit()


signal.signal(signal.SIGTERM, end)
while True:
    running = subprocess.Popen(sys.argv[1:-1], stdin=listener)
    running.wait()
    time.sleep(0.1)
