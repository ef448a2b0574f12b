"""What was measured where: the versions of all programs, the machine, the commit."""

import os
import platform
import re
import subprocess
from pathlib import Path

from .sites import REPO

PROGRAMS = [
    ["php-fpm8.2", "--version"],
    ["nginx", "-v"],
    ["apache2", "-v"],
    ["lighttpd", "-v"],
    ["h2o", "--version"],
    ["caddy", "version"],
    ["redis-server", "--version"],
    ["go", "version"],
    ["mariadbd", "--version"],
    ["wrk", "-v"],
    ["h2load", "--version"],
]


def first_line(command: list[str]) -> str:
    """The first line that a program prints about itself, on whichever stream."""
    try:
        # wrk ends with a failure after printing its version.
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, cwd=REPO)
    except FileNotFoundError:
        return f"{command[0]}: not installed"
    return ((done.stdout + done.stderr).strip().splitlines() or [f"{command[0]}: silent"])[0]


def commit() -> str:
    """The commit that is checked out, short; marked when files differ from it."""
    return first_line(["git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude", "*"])


def processor() -> str:
    """The name of the processor."""
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def text(tokamak: Path | None) -> str:
    """All of it, one line each."""
    lines = [
        f"commit {commit()}",
        f"{processor()}, {os.cpu_count()} processors, Linux {platform.release()}",
        *(first_line(command) for command in PROGRAMS),
    ]
    if tokamak:
        lines.append(first_line([str(tokamak), "--version"]))
    return "\n".join(lines)
