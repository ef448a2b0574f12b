"""flup, with threads, on a socket of its own."""

import os
import sys

from flup.server.fcgi import WSGIServer
from wsgi import application

WSGIServer(application, bindAddress=sys.argv[1], umask=0).run()
