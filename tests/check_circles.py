#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_circles.py ROOT - fails on circles between units of the code.

A unit is one idea: NAME.c, NAME.h and the private NAME_impl.h or NAME_body.h. More files belong to
it if it is split over several: a file without a header of its own belongs to the unit whose header
declares most of its functions. So does one that has nothing but a private header, if that includes
the private header of another unit.

A unit needs another if one of its files includes a header of the other, or if one of its headers
declares a function that a file of the other defines. Units that need each other, directly or by a
chain, can only be read together. The check prints each such circle with what makes it.

To mend one, move the shared type or function to the lower unit, give the lower unit a callback or a
table, or split a header that holds two ideas.
"""
import os
import re
import sys
from collections import Counter, defaultdict

ROOMS = ("clients", "common", "services")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
RETURNS = r"^(?!static\b|typedef\b|return\b)[A-Za-z_][^;{}#=()]*?"
FUNCTION = re.compile(RETURNS + r"\b(ps_\w+)\([^;{}]*\)\s*\{", re.M)
DECLARED = re.compile(r"^(?:PS_PRINTF\(\d+, \d+\)\s*)?(?!typedef\b)[A-Za-z_][^;{}#=()]*?\b(ps_\w+)\([^;{}]*;", re.M)
TYPED = re.compile(r"^ps_\w+ ((?:ps_\w+,\s*)*ps_\w+);", re.M)  # "ps_handler ps_serve_get, ps_serve_list;"


def read_tree():
    """Returns the text of each file without comments."""
    texts = {}
    for room in ROOMS:
        for folder, _, names in os.walk(room):
            for name in names:
                if name.endswith((".c", ".h")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        texts[path] = COMMENT.sub("", file.read())
    return texts


def declarations(texts):
    """Returns (folder, function) -> the header that declares it."""
    declared = {}
    for path, text in texts.items():
        if path.endswith(".h"):
            names = DECLARED.findall(text)
            for several in TYPED.findall(text):
                names += re.split(r",\s*", several)
            for name in names:
                declared[os.path.dirname(path), name] = path
    return declared


def is_private(path):
    return path.endswith("_impl.h")


def group(texts):
    """Returns the unit of each file, and per file how many functions it defines for each header."""
    declared = declarations(texts)
    unit = {path: re.sub(r"(_impl|_body)?\.[ch]$", "", path) for path in texts}
    defines = defaultdict(Counter)
    for path, text in texts.items():
        if path.endswith(".c"):
            for name in FUNCTION.findall(text):
                header = declared.get((os.path.dirname(path), name))
                if header:
                    defines[path][header] += 1
    with_header = {unit[path] for path in texts if path.endswith(".h")}
    same = {}
    for path, text in texts.items():
        if path.endswith(".c") and unit[path] not in with_header and defines[path]:
            same[unit[path]] = unit[defines[path].most_common(1)[0][0]]
        if is_private(path) and unit[path] + ".h" not in texts:
            for header in INCLUDE.findall(text):
                if header in unit and is_private(header):
                    same[unit[path]] = unit[header]

    def root(name):
        return root(same[name]) if name in same else name

    return {path: root(name) for path, name in unit.items()}, defines


def needs_of(texts):
    """Returns for each unit the units that it needs, each with the reasons."""
    unit, defines = group(texts)
    needs = {name: defaultdict(list) for name in unit.values()}
    for path, text in texts.items():
        for header in INCLUDE.findall(text):
            if header in unit and unit[header] != unit[path]:
                needs[unit[path]][unit[header]].append(f"{path} includes {header}")
        for header in defines[path]:
            if unit[header] != unit[path]:
                needs[unit[header]][unit[path]].append(f"{path} defines functions of {header}")
    return needs


def circles(needs):
    """Returns the lists of units that need each other (Tarjan's algorithm)."""
    order, lowest, stack, found = {}, {}, [], []

    def visit(name):
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for other in needs[name]:
            if other not in order:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], order[other])
        if lowest[name] == order[name]:
            first = stack.index(name)
            if len(stack) - first > 1:
                found.append(sorted(stack[first:]))
            del stack[first:]

    for name in sorted(needs):
        if name not in order:
            visit(name)
    return sorted(found)


def main():
    os.chdir(sys.argv[1])
    needs = needs_of(read_tree())
    found = circles(needs)
    for circle in found:
        print("circle of " + ", ".join(circle) + ":", file=sys.stderr)
        for name in circle:
            for other in circle:
                for reason in needs[name].get(other, []):
                    print("    " + reason, file=sys.stderr)
    return 1 if found or not needs else 0


if __name__ == "__main__":
    sys.exit(main())
