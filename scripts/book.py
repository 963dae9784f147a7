#!/usr/bin/env python3
"""Makes the sources of the book complete, and checks them.

usage: scripts/book.py prepare PROGRAM FOLDER    copies docs/book there, with the pages that are made of PROGRAM and the sources
       scripts/book.py check PROGRAM             links, configurations, commands; every line of the log has a name
       scripts/book.py readme FOLDER             writes README.md there, where the prepared pages are in FOLDER/book, and follows all links
       scripts/book.py events                    prints the table of events

PROGRAM is a built `busyhour`. What is checked: a link leads to a page and a heading that exist; `check-config` takes each
block of toml (but for files that are named there: toml,files); each command of `busyhour` in a block of sh exists, with
its flags; each `section.name` and each `name = value` of the text, and each such name that the program says, is a setting
(or a statistic or an attribute), and takes that value.
"""
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "docs/book"
EVENT_NAMES = BOOK / "src/reference/event-names.txt"
PACKAGED = ROOT / "packaging/busyhour.toml"
CLUSTER_STATISTICS = ROOT / "crates/busyhour-server/src/server/cluster/view.rs"
# Attributes of spans, parameters of SIP, columns of a digest, and a crate: they look like settings.
OTHER_NAMES = {
    "sip.address_of_record", "sip.call_id", "sip.cancelled", "sip.status_code", "sip.method", "iax2.answer", "iax2.frame",
    "sip.instance", "sip.pns", "sip.pnsreg",
}
# Settings of other programs.
OTHER_VALUES = {"busyhour", "multi_user", "remove_existing", "synchronous", "synchronous_commit"}


def main():
    match sys.argv[1:]:
        case ["prepare", program, folder]:
            prepare(program, Path(folder))
        case ["check", program]:
            mistakes = list(check(program))
            for mistake in mistakes:
                print(f"book: {mistake}", file=sys.stderr)
            if mistakes:
                sys.exit(1)
            print("book: links, configurations and commands are right")
        case ["readme", folder]:
            readme(Path(folder))
        case ["events"]:
            print(events_table())
        case _:
            sys.exit(__doc__)


def prepare(program, folder):
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(BOOK, folder)
    for page in (folder / "src").rglob("*.md"):
        text = page.read_text()
        made = re.sub(r"<!-- made of: (.*) -->", lambda found: generated(program, found[1]), text)
        # Pages beside the book are read where they are.
        made = re.sub(r"\]\((?:\.\./)+((?:asterisk|capacity|durability|lamps|limits|busyhour)\.md)", r"](beside/\1", made) if page.parent == folder / "src" \
            else re.sub(r"\]\((?:\.\./)+((?:asterisk|capacity|durability|lamps|limits|busyhour)\.md)", r"](../beside/\1", made)
        made = made.replace("](../../pictures/", "](pictures/")
        # Sources are not beside the book.
        made = re.sub(r"\[([^\]]*)\]\((?:\.\./){4,}[^)]*\)", r"\1", made)
        page.write_text(made)
    shutil.copytree(ROOT / "docs/pictures", folder / "src/pictures")
    beside = folder / "src/beside"
    beside.mkdir()
    for name in ["asterisk.md", "capacity.md", "durability.md", "lamps.md", "limits.md", "busyhour.md"]:
        (beside / name).write_text((ROOT / "docs" / name).read_text().replace("](book/src/", "](../"))
    with open(folder / "src/SUMMARY.md", "a") as summary:
        summary.write("- [The long reference](beside/busyhour.md)\n- [Limits](beside/limits.md)\n- [Lamps that never stick](beside/lamps.md)\n"
                      "- [What a cluster keeps](beside/durability.md)\n- [How large a cluster has to be](beside/capacity.md)\n"
                      "- [For who knows Asterisk](beside/asterisk.md)\n")


def readme(folder):
    """README with links that work beside the book; what is not there keeps its name."""
    def moved(found):
        text, target = found[1], found[2]
        if target.startswith(("http", "#")):
            return found[0]
        path, mark, heading = target.partition("#")
        places = [re.sub("^docs/book/src/", "book/", path), re.sub("^docs/pictures/", "book/pictures/", path),
                  re.sub("^docs/", "book/beside/", path)]
        there = next((place for place in places if place != path and (folder / place).exists()), None)
        return f"[{text}]({there}{mark}{heading})" if there else text

    text = (ROOT / "README.md").read_text()
    (folder / "README.md").write_text(re.sub(r"\[([^\]]*)\]\(([^)]+)\)", moved, text))
    pages = [*folder.rglob("*.md")]
    mistakes = [f"{page.relative_to(folder)}: {mistake}" for page in pages for mistake in links(page, page.read_text())]
    if mistakes:
        sys.exit("\n".join(mistakes))


def generated(program, what):
    if what == "events":
        return events_table()
    if what == "metrics":
        return metrics_table(program)
    if what == "api":
        return operations(program)
    return tell(shlex.split(what.replace("busyhour", shlex.quote(program), 1)))


def tell(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def asked(program, path):
    """What a server that has just started answers to GET."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["serve", "--quiet", "--sip-listen", "127.0.0.1:0", "--iax2-listen", "off", "--http-socket", "off",
                 "--http-listen", "127.0.0.1:0", "--store-path", f"{folder}/busyhour.db"]
        server = subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            ready = next(line for line in server.stdout if line.startswith("ready "))
            address = re.search(r"http=(\S+)", ready)[1]
            time.sleep(1.5)  # the first sample
            with urllib.request.urlopen(f"http://{address}{path}") as answer:
                return answer.read().decode()
        finally:
            server.terminate()
            server.wait()


def metrics_table(program):
    text = asked(program, "/metrics")
    rows = ["| metric | kind | in `/api/v1/stats` |", "|---|---|---|"]
    paths = dict(re.findall(r"^# HELP (\S+) (\S+) of /api/v1/stats", text, re.M))
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
        ending = "_total" if kind == "counter" else ""
        rows.append(f"| `{name}{ending}` | {kind} | `{paths.get(name, '')}` |")
    return "\n".join(rows)


def operations(program):
    """Each operation of the HTTP interface, by what it is about."""
    document = json.loads(asked(program, "/api/v1/openapi.json"))
    always = {"400", "401", "403", "408", "421", "429", "503"}
    tags, text = {}, []
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            tags.setdefault(one["tags"][0], []).append((path, method, one))
    for tag, some in tags.items():
        text += [f"## {tag}", ""]
        for path, method, one in some:
            scope = one["security"][0]["token"][0]
            text += [f"### `{method.upper()} {path}`", "", f"{one['summary']}. Scope `{scope}`.", ""]
            if one["parameters"]:
                text += ["| parameter | in | what |", "|---|---|---|"]
                for part in one["parameters"]:
                    values = ", ".join(f"`{value}`" for value in part["schema"].get("enum", []))
                    text.append(f"| `{part['name']}` | {part['in']} | {part['description']}{': ' if values else ''}{values} |")
                text.append("")
            body = one.get("requestBody")
            if body:
                fields = body["content"]["application/json"]["schema"].get("properties", {})
                named = ", ".join(f"`{name}`" for name in fields)
                text += [f"Body: a JSON object{' with ' if named else ''}{named}.", ""]
            answers = [f"{status}: {answer['description']}" for status, answer in one["responses"].items() if status not in always]
            text += [*(f"- {answer}" for answer in answers), ""]
    return "\n".join(text)


def events_table():
    rows = sorted(set(events()))
    lines = ["| `event` | text | level | fields | said by |", "|---|---|---|---|---|"]
    return "\n".join(lines + [
        f"| `{event}` | {text} | {level} | {', '.join(f'`{field}`' for field in fields if field != 'event') or '–'} | {crate} |"
        for event, text, level, fields, crate in rows])


def events():
    """Each line that the server can write: its name, text, level and fields. The library's own events are behind a feature
    that the server does not ask for; library/observing.md has them."""
    library = ROOT / "crates/busyhour"
    for source in sorted(ROOT.glob("crates/*/src/**/*.rs")):
        if source.is_relative_to(library):
            continue
        # Tests stand at the end of a file.
        text = source.read_text().split("#[cfg(test)]\nmod ")[0]
        for found in re.finditer(r"tracing::(error|warn|info|debug|trace)!\(", text):
            arguments = split(inside(text, found.end()))
            said = arguments[-1] if arguments else ""
            # A text in braces is filled in: such a line has the sentence of whoever writes it.
            literal = re.match(r'^"((?:[^"\\]|\\.)*)"$', said, re.S)
            if literal is None and not any('"' in argument for argument in arguments):
                yield "(no text)", str(source.relative_to(ROOT)), found[1], (), source.relative_to(ROOT).parts[1]
                continue
            if literal is None:
                position = max(index for index, argument in enumerate(arguments) if argument.startswith('"'))
                literal, arguments = re.match(r'^"((?:[^"\\]|\\.)*)"', arguments[position], re.S), arguments[: position + 1]
            name = re.sub(r"\\\n\s*", "", literal[1]).replace("|", "\\|")
            fields = tuple(re.match(r"[%?]?\s*([a-z_0-9]+)", argument)[1] for argument in arguments[:-1] if re.match(r"[%?]?\s*[a-z]", argument))
            given = [match[1] for argument in arguments if (match := re.match(r'event\s*=\s*"([^"]*)"', argument))]
            yield given[0] if given else event_name(name), name, found[1], fields, source.relative_to(ROOT).parts[1]


def event_name(text):
    """As `event_name::of_text` of the server makes it."""
    words = re.findall(r"[A-Za-z0-9]+", re.split(r"; |: | \(|\. |, ", text)[0])
    words = [word.lower() for word in words]
    return "_".join(words[1:] if words[:1] and words[0] in ("a", "an", "the") else words)


def event_mistakes():
    """Names are for programs, so they stay: the list of those that were released only grows."""
    said = {}
    for event, text, *_ in events():
        if event == "(no text)":
            yield f"{text}: no literal text, so the line has no name"
        elif "{" in text and event == event_name(text):
            yield f"`{text}`: its text varies, so it needs a field event"
        said.setdefault(event, set()).add(text)
    yield from (f"the event {event} has several texts: {sorted(texts)}; give each a field event" for event, texts in said.items() if len(texts) > 1)
    released = set(EVENT_NAMES.read_text().split())
    yield from (f"nothing says the event {event} any more: programs may wait for it" for event in sorted(released - set(said)))
    yield from (f"the event {event} is not in {EVENT_NAMES.relative_to(ROOT)}" for event in sorted(set(said) - released - {"(no text)"}))


def inside(text, begin):
    """What stands between the parentheses that are open at `begin`."""
    depth, index, is_text = 1, begin, False
    while depth:
        one = text[index]
        if is_text:
            if one == "\\":
                index += 1
            elif one == '"':
                is_text = False
        elif one == '"':
            is_text = True
        elif one in "([{":
            depth += 1
        elif one in ")]}":
            depth -= 1
        index += 1
    return text[begin : index - 1]


def split(text):
    """Arguments, at the commas that are in nothing else."""
    parts, depth, is_text, begin, index = [], 0, False, 0, 0
    while index < len(text):
        one = text[index]
        if is_text:
            if one == "\\":
                index += 1
            elif one == '"':
                is_text = False
        elif one == '"':
            is_text = True
        elif one in "([{":
            depth += 1
        elif one in ")]}":
            depth -= 1
        elif one == "," and depth == 0:
            parts.append(text[begin:index].strip())
            begin = index + 1
        index += 1
    return [part for part in [*parts, text[begin:].strip()] if part]


def check(program):
    pages = sorted(BOOK.glob("src/**/*.md"))
    for page in pages:
        text = page.read_text()
        name = page.relative_to(ROOT)
        yield from (f"{name}: {mistake}" for mistake in links(page, text))
        for language, block in re.findall(r"^```(\S+)\n(.*?)^```", text, re.M | re.S):
            if language.startswith("toml"):
                yield from (f"{name}: {mistake}" for mistake in configuration(program, block, "files" in language))
            if language == "sh":
                yield from (f"{name}: {mistake}" for line in block.splitlines() for mistake in command(program, line))
    listed = set(re.findall(r"\]\(([^)]+)\)", (BOOK / "src/SUMMARY.md").read_text()))
    for page in pages:
        place = str(page.relative_to(BOOK / "src"))
        if place != "SUMMARY.md" and place not in listed:
            yield f"docs/book/src/SUMMARY.md does not list {place}"
    yield from setting_mistakes(program)
    yield from event_mistakes()


def setting_mistakes(program):
    """Names and values of settings that a reader meets, in pages and in what the program says."""
    keys = settings(program)
    statistics = set(re.findall(r"^# HELP \S+ (\S+) of /api/v1/stats", asked(program, "/metrics"), re.M))
    # `queues.list[].length` is the metric of a member of `queues`.
    others = OTHER_NAMES | {part for path in statistics for part in prefixes(path)}
    # Which only a server of several has.
    others |= {f"cluster.{field}" for field in re.findall(r"pub (\w+):", CLUSTER_STATISTICS.read_text())}
    sections = {key.split(".")[0] for key in keys}
    name = re.compile(rf"(?<![\w./-])({'|'.join(sections)})\.([a-z0-9_]*[a-z0-9])(?![\w.(*/…-])")
    for file, begin, said in spoken():
        for found in name.finditer(said):
            if found[0] not in keys and found[0] not in others and found[2] not in ("rs", "js", "toml", "md", "csv"):
                yield f"{place(file, begin)}: there is no setting `{found[0]}`"
        value = re.fullmatch(r"([a-z0-9_.]+) = ([^…]+)", said)
        if value and file.suffix == ".md":
            yield from (f"{place(file, begin)}: {mistake}" for mistake in value_mistakes(program, keys, *value.groups()))


def place(file, begin):
    line = file.read_text().count("\n", 0, begin) + 1
    return f"{file.relative_to(ROOT)}:{line}"


def settings(program):
    """The path of every setting."""
    section, keys = "", set()
    for line in tell([program, "reference", "settings"]).splitlines():
        if heading := re.match(r"## `\[(\w+)\]`", line):
            section = heading[1]
        elif row := re.match(r"\| `(\w+)` \|", line):
            keys.add(f"{section}.{row[1]}")
    return keys


def prefixes(path):
    parts = path.replace("[]", "").split(".")
    return [".".join(parts[: count + 1]) for count in range(1, len(parts))]


def spoken():
    """Each span of code of a page, and each text of the commands and of what tells of health: its file and place."""
    for page in [*BOOK.glob("src/**/*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]:
        yield from ((page, found.start(1), found[1]) for found in re.finditer(r"`([^`\n]+)`", page.read_text()))
    server = ROOT / "crates/busyhour-server/src"
    for source in [*server.glob("cli/**/*.rs"), server / "web/findings.rs", server / "server/stats.rs"]:
        yield from ((source, found.start(1), found[1]) for found in re.finditer(r'"((?:[^"\\]|\\.)*)"', without_comments(source.read_text()), re.S))


def without_comments(source):
    """`source` with as many characters, and no quotation marks that begin no text."""
    return re.sub(r"^ *//.*|'\"'|r#\".*?\"#", lambda found: " " * len(found[0]), source, flags=re.M)


def value_mistakes(program, keys, name, value):
    """`value` as one of the settings called `name`, or as a field of a table."""
    paths = [key for key in keys if key == name or key.split(".")[1] == name]
    if not paths:
        if "." not in name and name not in OTHER_VALUES and not re.search(rf"^#? *{name} = ", PACKAGED.read_text(), re.M):
            yield f"`{name} = {value}`: there is no such setting"
        return
    refusals = []
    for path in paths:
        section, key = path.split(".")
        refusals.append(list(configuration(program, f"[{section}]\n{key} = {value}\n", False)))
    if all(refusals):
        yield f"`{name} = {value}`: {refusals[0][0]}"


def links(page, text):
    for target in re.findall(r"\]\(([^)#][^)]*|#[^)]*)\)", text):
        if target.startswith("http"):
            continue
        path, _, heading = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        if not other.exists():
            yield f"the link {target} leads nowhere"
        elif heading and heading not in headings(other.read_text()):
            yield f"the link {target} leads to no heading"


def headings(text):
    return {slug(line) for line in re.findall(r"^#+ (.*)$", text, re.M)} | set(re.findall(r'<a id="([^"]+)">', text))


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def configuration(program, block, names_files):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "busyhour.toml"
        file.write_text(block)
        told = subprocess.run([program, "check-config", str(file)], capture_output=True, text=True)
        for line in told.stderr.splitlines() if told.returncode else []:
            if not (names_files and "No such file" in line):
                yield f"a configuration is refused: {line}"


def command(program, line):
    """A subcommand that exists, with flags that its help names."""
    words = shlex.split(line, comments=True)
    starts = [index for index, word in enumerate(words) if word == "busyhour" and (index == 0 or words[index - 1] == "|")]
    if not starts:
        return
    words = words[starts[0] + 1 :]
    words = words[: next((index for index, word in enumerate(words) if word in "|>"), len(words))]
    path, told = [], tell([program, "--help"])
    for word in words:
        if word.startswith("-") or not re.search(rf"^  {re.escape(word)}(\s|$)", told, re.M):
            break
        path.append(word)
        told = tell([program, *path, "--help"])
    if words and not path:
        yield f"there is no command in `{line}`"
    for flag in (word.split("=")[0] for word in words if word.startswith("--")):
        if not re.search(rf"{re.escape(flag)}\b", told):
            yield f"`busyhour {' '.join(path)}` has no {flag}"


main()
