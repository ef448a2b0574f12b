#!/usr/bin/env python3
"""Prints debian/copyright in Debian's machine-readable form (DEP-5): Tokamak's own licence, and
that of each crate whose code is linked into its programs.

By what `cargo tree` and `cargo metadata` say, and by the files of licences in the crates' sources,
which cargo has fetched for the build: no network, and nothing that has to be kept by hand. It fails
where a crate has no licence whose text is known, so that a new one is looked at by somebody.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# A licence is recognised in a crate's file by these words. Of the files that have no others, the
# shortest is the text. Debian names three licences otherwise than SPDX.
WORDS = {
    "Expat": "Permission is hereby granted, free of charge, to any person obtaining a copy of "
    "this software",
    "ISC": "Permission to use, copy, modify, and/or distribute this software",
    "BSD-3-clause": "Neither the name of",
    "BSD-2-clause": "Redistributions in binary form must reproduce",
    "Zlib": "This software is provided 'as-is'",
    "Unlicense": "free and unencumbered software",
    "Unicode-3.0": "UNICODE LICENSE V3",
    "BSL-1.0": "Boost Software License - Version 1.0",
}
DEBIAN = {"MIT": "Expat", "BSD-3-Clause": "BSD-3-clause", "BSD-2-Clause": "BSD-2-clause"}
NAMES = re.compile(r"(licen[sc]e|copying|copyright|notice|unlicense)", re.I)
# Of C, the sources lie deeper: luajit-src/luajit2/COPYRIGHT, aws-lc-sys/aws-lc/LICENSE.
DEPTH = 2
# Before it, such a file says whose and which it is.
START = re.compile(
    r"^\W*(Permission (is|to)|Redistribution and use|This software is provided)", re.M
)
# These have a beginning of their own.
WHOLE = ("BSL-1.0", "Unicode-3.0")


def cargo(*arguments):
    command = ["cargo", *arguments, "--offline", "--locked"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def linked():
    """Names and versions of the crates that are linked, with those that bring sources of C."""
    tree = ("tree", "-p", "tokamak", "-p", "tokamak-php")
    tree += ("--prefix", "none", "--format", "{p}", "-e")
    normal = set(cargo(*tree, "normal,no-proc-macro").splitlines())
    build = cargo(*tree, "normal,build,no-proc-macro").splitlines()
    build = {line for line in build if "-src v" in line}
    for line in normal | build:
        words = line.split()
        # A path stands after the version of our own.
        if len(words) >= 2 and not any(word.startswith("(/") for word in words):
            yield words[0], words[1].removeprefix("v")


def licence_files(crate):
    """Each with whether it is the crate's own, or that of sources in another language."""
    for path in sorted(crate.rglob("*")):
        deep = len(path.relative_to(crate).parts)
        if deep <= DEPTH and NAMES.match(path.name) and path.suffix not in (".rs", ".h", ".c"):
            if path.is_file():
                yield deep == 1, path.read_text(errors="replace")


def kind_of(text):
    """Which licence a file is; None: several, or another one."""
    kinds = [kind for kind, words in WORDS.items() if words in " ".join(text.split())]
    if kinds == ["BSD-3-clause", "BSD-2-clause"]:
        # Three clauses have the words of two.
        kinds = kinds[:1]
    return kinds[0] if len(kinds) == 1 and "Apache License" not in text else None


def alternatives(expression):
    """What an SPDX expression asks for: all of these, each by one of its alternatives."""
    expression = expression.replace("/", " OR ")
    for part in re.split(r"\bAND\b(?![^(]*\))", expression):
        names = [name.strip(" ()") for name in part.split(" OR ")]
        yield [DEBIAN.get(name, name) for name in names]


def holders(texts, crate):
    """Who has the copyright: what the files of licences say, else the authors of the manifest."""
    lines = []
    for text in texts:
        for line in text.splitlines():
            line = line.strip(" \t*#%=")
            named = re.match(r"(copyright\b.*\d{4}|copyright \(c\)|©)", line, re.I)
            if named and "[yyyy]" not in line:
                line = re.sub(r"^(copyright|\(c\)|©|:|\s)+", "", line, flags=re.I)
                if "{" not in line and "<" not in line.split("@")[0][:1] and line not in lines:
                    lines.append(line)
    unnamed = f"the authors of {crate['name']}, {crate['repository']}"
    return tuple(lines or crate["authors"] or [unnamed])


def indented(name, text):
    """A text as a field's following lines, without the lines that say whose it is."""
    begin = None if name in WHOLE else START.search(text)
    text = re.sub(r"^//\s?", "", text[begin.start() if begin else 0 :], flags=re.M).strip()
    lines = [line.rstrip() for line in text.splitlines()]
    whose = re.compile(r"\W*(copyright\b.*\d|copyright \(c\)|all rights reserved)", re.I)
    return "\n".join(f" {line or '.'}" for line in lines if not whose.match(line))


def main():
    metadata = json.loads(cargo("metadata", "--format-version", "1"))
    crates = {(crate["name"], crate["version"]): crate for crate in metadata["packages"]}
    files, texts = defaultdict(list), {}
    for key in sorted(set(linked())):
        crate = crates[key]
        found = list(licence_files(Path(crate["manifest_path"]).parent))
        for _, text in found:
            if kind := kind_of(text):
                texts[kind] = min(texts.get(kind, text), text, key=lambda text: (len(text), text))
        if not crate["license"]:
            sys.exit(f"copyright: {key[0]} says no licence")
        # The manifest of jemalloc's crate says nothing of jemalloc's own.
        deeper = {kind_of(text) for own, text in found if not own} - {None}
        said = {name for group in alternatives(crate["license"]) for name in group}
        expression = " AND ".join([crate["license"], *sorted(deeper - said)])
        named = holders([text for _, text in found], crate)
        files[expression, named].append(f"vendor/{key[0]}-{key[1]}/*")

    used = {"Apache-2.0"}
    print("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/")
    print("Upstream-Name: Tokamak")
    print("Comment: What is below vendor are crates whose code is linked into the programs.\n")
    ours = Path("LICENSE-MIT").read_text()
    own = holders([ours], {"name": "Tokamak", "authors": [], "repository": ""})
    print(f"Files: *\nCopyright: {own[0]}")
    print("License: Expat or Apache-2.0\n")
    texts["Expat"] = ours
    texts["Apache-2.0"] = "In Debian this text is /usr/share/common-licenses/Apache-2.0."
    for (expression, who), names in sorted(files.items(), key=lambda item: item[1]):
        groups = []
        for group in alternatives(expression):
            known = [name for name in dict.fromkeys(group) if name in texts]
            if not known:
                sys.exit(f"copyright: the text of no licence of {names[0]} is known: {expression}")
            used.update(known)
            groups.append(" or ".join(known))
        print("Files: " + "\n ".join(names))
        print("Copyright: " + "\n ".join(who))
        print("License: " + ", and ".join(dict.fromkeys(groups)) + "\n")
    names = sorted(used | {"Expat"})
    print("\n\n".join(f"License: {name}\n{indented(name, texts[name])}" for name in names))


main()
