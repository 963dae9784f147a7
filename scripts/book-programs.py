#!/usr/bin/env python3
"""Runs the Python programs of a page of the book against the server BUSYHOUR with TOKEN.

usage: BUSYHOUR=http://ADDRESS TOKEN=TOKEN scripts/book-programs.py PAGE

The address and the token of the page are replaced by those of the server. A block `text` behind a program is what it prints.
"""
import contextlib
import io
import os
import re
import sys
from pathlib import Path


def main():
    page = Path(sys.argv[1])
    blocks = re.findall(r"^```(python|text)\n(.*?)^```", page.read_text(), re.M | re.S)
    names, said, count = {}, None, 0
    for kind, text in blocks:
        if kind == "python":
            text = text.replace("http://127.0.0.1:8080", os.environ["BUSYHOUR"]).replace("bh_...", os.environ["TOKEN"])
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, str(page), "exec"), names)
            said, count = out.getvalue(), count + 1
        elif said is not None and said != text:
            sys.exit(f"{page}: a program prints {said!r} instead of {text!r}")
    print(f"{page}: {count} programs do what the page says")


main()
