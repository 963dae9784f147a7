#!/usr/bin/env python3
"""What a folder may have after a power cut, by the system calls of the one program that wrote there.

usage: scripts/traced_disk.py --self-test      a few programs whose outcome is known

`traced(command, …)` runs a program under strace, `events_of` reads what strace wrote, and `Disk` follows it, a call at a time. At any
event `Disk.after_cut` gives one of the folders that the power cut may leave, by a random generator, and `make_folder` makes it. This is the model:

- **Sectors.** A write may be on the disk or not, for each 512 bytes by itself, also while its call is under way (a call that never returns is left
  out, since it may have failed). 512 bytes are the least that
  a disk writes at once; one that writes 4,096 leaves fewer outcomes, all of which are among these. Of several writes to a sector since it was
  last synchronised each one may be the last that arrived. Between sectors and between files there is no order.
- **Lengths.** A file has one of the lengths that it had since it was last synchronised. What lies within and was never written is zeroes.
- **fsync, fdatasync** keep all that was written to the file by calls that had returned before they began, and the length. Writes with O_DSYNC,
  O_SYNC, RWF_DSYNC or RWF_SYNC are kept once they have returned: their own sectors, and a length that has them. O_DIRECT alone
  keeps nothing, as the disk has a cache. sync_file_range keeps nothing.
- **Names**, model `ext4` (its default, data=ordered): made, renamed and removed names reach the disk in their order, so that a cut leaves the
  first so many of them. A rename is one step. fsync of a folder keeps all changes in it, and fsync of a file those of its names; both keep all earlier
  ones as well. fdatasync of a file keeps that it was made. A file that replaces another one by rename and was not synchronised may be empty
  or torn, although ext4 writes it first: no program should rely on that.
- **Names**, model `posix`: only fsync of a folder keeps the changes in it, and of the others any may be there. Common file systems
  keep more.

Left out: disks that lie about synchronising or damage what was not written, and writing less than 512 bytes. What is written by a mapping of memory
is not seen. SQLite's index of its log (`-shm`) is mapped, and SQLite makes it anew after a cut; any other mapped file is named in `Disk.unseen`. Ways
to write that are not followed (io_uring, sendfile, a second program) end with `NotFollowed`.
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile

SECTOR = 512
CALLS = ("open openat openat2 creat close dup dup2 dup3 fcntl lseek read readv write writev pwrite64 pwritev pwritev2 truncate ftruncate fallocate "
         "fsync fdatasync sync syncfs rename renameat renameat2 unlink unlinkat rmdir mkdir mkdirat link linkat symlink symlinkat mmap execve chdir "
         "io_uring_setup io_submit copy_file_range sendfile splice").split()


class NotFollowed(Exception):
    """The program does what the model does not have."""


def traced(command, trace, **options):
    """Runs a program to its end under strace, in the folder `/`, so that a relative path has one meaning."""
    calls = ",".join("?" + name for name in CALLS)
    tracer = ["strace", "-f", "--seccomp-bpf", "-q", "-xx", "-s", str(1 << 26), "-e", "signal=none", "-e", "trace=" + calls, "-o", trace]
    return subprocess.run([*tracer, *command], cwd="/", check=False, **options)


class Call:
    """`begun` and `ended` are places in one order of all begins and ends; a call that did not return has no end."""

    def __init__(self, name, words, begun):
        self.name, self.begun, self.ended, self.result = name, begun, None, None
        parts = words.split(b'"')
        if any(part.startswith(b"...") for part in parts[2::2]):
            raise NotFollowed(f"strace has shortened what {name} wrote")
        # Strings are in hexadecimal digits, so no other text is like them.
        self.strings = [bytes.fromhex(part.decode().replace("\\x", "")) for part in parts[1::2]]
        self.words = b'""'.join(parts[0::2]).decode().split(", ")

    def returned(self, text, ended):
        word = text.split()[0]
        if word != b"?":
            self.ended, self.result = ended, int(word, 0)

    @property
    def has_failed(self):
        return self.result is None or self.result < 0


def events_of(trace):
    """(place, call, whether it is its end), in order, from what strace wrote."""
    events, under_way = [], {}
    with open(trace, "rb") as lines:
        for number, line in enumerate(lines):
            thread, _, text = line.rstrip(b"\n").partition(b" ")
            text, place = text.lstrip(), 2 * number
            if text.startswith((b"+++", b"---")):
                continue
            if text.startswith(b"<... "):
                call = under_way.pop(thread)
            else:
                name, _, words = text.partition(b"(")
                is_under_way = text.endswith(b"<unfinished ...>")
                words = words.rpartition(b" <" if is_under_way else b" = ")[0].rstrip(b" ,")
                call = Call(name.decode(), words if is_under_way else words[:-1], place)
                events.append((place, call, False))
                if is_under_way:
                    under_way[thread] = call
                    continue
            call.returned(text.rpartition(b" = ")[2], place + 1)
            if call.ended is not None:
                events.append((place + 1, call, True))
    return events


class File:
    def __init__(self, content=b""):
        self.now, self.durable = bytearray(content), bytearray(content)
        self.durable_length = len(content)
        # What each sector, and the length, has been since it was last durable: (call, value).
        self.sectors, self.lengths = {}, []

    def write(self, call, begin, content):
        end = begin + len(content)
        if end > len(self.now):
            self.now.extend(bytes(end - len(self.now)))
            self.lengths.append((call, end))
        self.now[begin:end] = content
        self._changed(call, begin, end)

    def truncate(self, call, length):
        before = len(self.now)
        if length == before:
            return
        del self.now[length:]
        self.now.extend(bytes(length - len(self.now)))
        self.lengths.append((call, length))
        self._changed(call, length, before)

    def _changed(self, call, begin, end):
        for number in sectors_of(begin, end):
            content = bytes(self.now[number * SECTOR:(number + 1) * SECTOR])
            self.sectors.setdefault(number, []).append((call, content.ljust(SECTOR, b"\0")))

    def keep_write(self, call, begin, end):
        """What a write left that has returned is durable, with a length that has it."""
        self.keep(lambda other: other is call, sectors_of(begin, end))
        if self.durable_length < end:
            index = next(index for index, (_, length) in enumerate(self.lengths) if length >= end)
            self.durable_length, self.lengths = self.lengths[index][1], self.lengths[index + 1:]

    def keep(self, is_kept, numbers=None):
        """What the last of these calls left in each sector is durable."""
        for number in list(self.sectors) if numbers is None else numbers:
            content, later = split(self.sectors.get(number, []), is_kept)
            if content is not None:
                begin = number * SECTOR
                self.durable.extend(bytes(max(0, begin + SECTOR - len(self.durable))))
                self.durable[begin:begin + SECTOR] = content
                self.sectors[number] = later
                if not later:
                    del self.sectors[number]
        length, later = split(self.lengths, is_kept)
        if length is not None:
            self.durable_length, self.lengths = length, later

    def after_cut(self, generator):
        share = generator.choice((0, .1, .5, .9, 1))
        content = bytearray(self.durable)
        for number, changes in self.sectors.items():
            chosen = choose(None, changes, share, generator)
            if chosen is not None:
                begin = number * SECTOR
                content.extend(bytes(max(0, begin + SECTOR - len(content))))
                content[begin:begin + SECTOR] = chosen
        length = choose(self.durable_length, self.lengths, share, generator)
        content.extend(bytes(max(0, length - len(content))))
        del content[length:]
        return content


def sectors_of(begin, end):
    return range(begin // SECTOR, -(-end // SECTOR))


def split(changes, is_kept):
    """The value that the last of the kept calls left, and the changes behind it."""
    for index in range(len(changes) - 1, -1, -1):
        if is_kept(changes[index][0]):
            return changes[index][1], changes[index + 1:]
    return None, changes


def choose(before, changes, share, generator):
    if changes and generator.random() < share:
        return changes[-1][1]
    return generator.choice([before, *(value for _, value in changes[:-1])])


class Folder:
    pass


class NameChange:
    """A step that changes names: each path of it has this node from then on, or none."""

    def __init__(self, paths, made=None):
        self.paths, self.made = paths, made
        self.folders = {os.path.dirname(path) for path in paths}


class OpenFile:
    def __init__(self, node, path, flags):
        self.node, self.path, self.position = node, path, 0
        self.is_appended = "O_APPEND" in flags
        self.is_synchronous = "O_SYNC" in flags or "O_DSYNC" in flags


class Disk:
    """What is in a folder, and what of it is durable. Begins with what lies there now."""

    def __init__(self, folder, model="ext4"):
        self.folder, self.model = str(folder), model
        self.names = {self.folder: Folder()}
        for path in pathlib.Path(folder).rglob("*"):
            self.names[str(path)] = Folder() if path.is_dir() else File(path.read_bytes())
        self.durable_names, self.changes = dict(self.names), []
        self.open_files, self.programs, self.unseen = {}, 0, set()
        # For which paths synchronising has no effect, so that the check of a program must fail.
        self.forgets = lambda path: False

    def take(self, call, is_end):
        """Calls act at their end, writes at their begin, since a part of them may be on the disk before they return."""
        if call.has_failed:
            return
        act = getattr(self, f"_{call.name}", None)
        if act is None:
            raise NotFollowed(f"{call.name} is not followed")
        if call.name in AT_BEGIN and not is_end:
            act(call)
        elif call.name in AT_BEGIN and "write" in call.name:
            self._written(call)
        elif call.name not in AT_BEGIN and is_end:
            act(call)

    def after_cut(self, generator):
        """One of the folders that a cut may leave: the content of each file by its path, and None of each folder; and whether anything is not there
        that was written."""
        names, contents, lacks = self._names_after_cut(generator), {}, False
        for path in sorted(names):
            node = names[path]
            content = None if isinstance(node, Folder) else node.after_cut(generator)
            contents[os.path.relpath(path, self.folder)] = content
            lacks = lacks or content is not None and content != node.now
        return contents, lacks or names != self.names

    def _names_after_cut(self, generator):
        names = dict(self.durable_names)
        if self.model == "ext4":
            count = generator.choice((0, len(self.changes), generator.randint(0, len(self.changes))))
            happened = self.changes[:count]
        else:
            happened = [change for change in self.changes if generator.random() < .5]
        for change in happened:
            apply(names, change)
        for path in sorted(names):
            if path != self.folder and os.path.dirname(path) not in names:
                del names[path]
        return names

    # Names.

    def _path(self, call, index=0):
        path = call.strings[index].decode()
        at = call.words[2 * index] if call.name in FROM_A_FOLDER else "AT_FDCWD"
        base = "/" if at == "AT_FDCWD" else getattr(self.open_files.get(int(at)), "path", "/")
        return os.path.normpath(os.path.join(base, path))

    def _is_ours(self, path):
        return path == self.folder or path.startswith(self.folder + "/")

    def _change(self, change):
        apply(self.names, change)
        self.changes.append(change)

    def _openat(self, call):
        path = self._path(call)
        self.open_files.pop(call.result, None)
        if not self._is_ours(path):
            return
        flags = call.words[-1] if "O_" in call.words[-1] else call.words[-2]
        flags = "O_CREAT|O_TRUNC" if call.name == "creat" else flags
        node = self.names.get(path)
        if node is None and "O_CREAT" in flags and "O_TMPFILE" not in flags:
            node = File()
            self._change(NameChange({path: node}, node))
        if node is None:
            raise NotFollowed(f"{path} was opened, and is not known")
        if "O_TRUNC" in flags:
            node.truncate(call, 0)
        self.open_files[call.result] = OpenFile(node, path, flags)

    _open = _creat = _openat

    def _mkdir(self, call):
        if self._is_ours(path := self._path(call)):
            node = Folder()
            self._change(NameChange({path: node}, node))

    def _unlink(self, call):
        if self._is_ours(path := self._path(call)):
            self._change(NameChange({path: None}))

    def _rename(self, call):
        before, after = self._path(call), self._path(call, 1)
        if "RENAME_EXCHANGE" in call.words[-1]:
            raise NotFollowed("two files were exchanged")
        if not self._is_ours(before) and not self._is_ours(after):
            return
        node = self.names.get(before)
        if node is None or isinstance(node, Folder) or not self._is_ours(after):
            raise NotFollowed(f"{before} was renamed, and is a folder or not known")
        self._change(NameChange({before: None, after: node}))

    def _link(self, call):
        if self._is_ours(after := self._path(call, 1)):
            self._change(NameChange({after: self.names[self._path(call)]}))

    _mkdirat, _unlinkat, _rmdir = _mkdir, _unlink, _unlink
    _renameat = _renameat2 = _rename
    _linkat = _link

    # Open files.

    def _file(self, call):
        return self.open_files.get(int(call.words[0]))

    def _close(self, call):
        self.open_files.pop(int(call.words[0]), None)

    def _dup(self, call):
        if file := self._file(call):
            self.open_files[call.result] = file
        else:
            self.open_files.pop(call.result, None)

    def _fcntl(self, call):
        if "F_DUPFD" in call.words[1]:
            self._dup(call)

    def _lseek(self, call):
        if file := self._file(call):
            file.position = call.result

    def _read(self, call):
        if file := self._file(call):
            file.position += call.result

    _dup2 = _dup3 = _dup
    _readv = _read

    # Contents.

    def _write(self, call):
        file = self._file(call)
        if file is None:
            return
        offset = self._offset(call)
        call.offset = offset
        if offset is None:
            call.offset = len(file.node.now) if file.is_appended else file.position
            file.position = call.offset + call.result
        file.node.write(call, call.offset, b"".join(call.strings)[:call.result])

    _writev = _pwrite64 = _pwritev = _pwritev2 = _write

    @staticmethod
    def _offset(call):
        if call.name in ("write", "writev"):
            return None
        offset = int(call.words[-2 if call.name == "pwritev2" else -1])
        return None if offset == -1 else offset

    def _written(self, call):
        file = self._file(call)
        flags = call.words[-1] if call.name == "pwritev2" else ""
        if file and not self.forgets(file.path) and (file.is_synchronous or "RWF_DSYNC" in flags or "RWF_SYNC" in flags):
            file.node.keep_write(call, call.offset, call.offset + call.result)

    def _ftruncate(self, call):
        if file := self._file(call):
            file.node.truncate(call, int(call.words[1]))

    def _truncate(self, call):
        if self._is_ours(path := self._path(call)):
            self.names[path].truncate(call, int(call.words[1]))

    def _fallocate(self, call):
        file = self._file(call)
        if file is None:
            return
        flags, offset, length = call.words[1], int(call.words[2]), int(call.words[3])
        if flags == "0" and offset + length > len(file.node.now):
            file.node.truncate(call, offset + length)
        elif flags not in ("0", "FALLOC_FL_KEEP_SIZE"):
            raise NotFollowed(f"fallocate with {flags}")

    def _fsync(self, call):
        file = self._file(call)
        if file is None or self.forgets(file.path):
            return
        if isinstance(file.node, Folder):
            self._keep_names(lambda change: file.path in change.folders or change.made is file.node)
            return
        file.node.keep(lambda other: other.ended is not None and other.ended < call.begun)
        if self.model == "ext4":
            is_whole = call.name == "fsync"
            self._keep_names(lambda change: change.made is file.node or is_whole and file.node in change.paths.values())

    _fdatasync = _fsync

    def _keep_names(self, is_kept):
        kept = [index for index, change in enumerate(self.changes) if is_kept(change)]
        if self.model == "ext4" and kept:
            kept = range(kept[-1] + 1)
        for index in kept:
            apply(self.durable_names, self.changes[index])
        self.changes = [change for index, change in enumerate(self.changes) if index not in kept]

    def _mmap(self, call):
        descriptor = int(call.words[4])
        if "MAP_SHARED" in call.words[3] and (file := self.open_files.get(descriptor)) and not file.path.endswith("-shm"):
            self.unseen.add(os.path.relpath(file.path, self.folder))

    def _execve(self, _call):
        self.programs += 1
        if self.programs > 1:
            raise NotFollowed("a second program was started")


# Before each path they have the number of the folder from which it goes on.
FROM_A_FOLDER = {"openat", "renameat", "renameat2", "unlinkat", "mkdirat", "linkat", "symlinkat"}
AT_BEGIN = {"close", "write", "writev", "pwrite64", "pwritev", "pwritev2", "ftruncate", "truncate", "fallocate"}


def apply(names, change):
    for path, node in change.paths.items():
        if node is None:
            names.pop(path, None)
        else:
            names[path] = node


def make_folder(folder, contents):
    for path, content in contents.items():
        if content is None:
            (folder / path).mkdir(exist_ok=True)
        else:
            write_sparse(folder / path, content)


def write_sparse(path, content, block=4096):
    with open(path, "wb") as file:
        file.truncate(len(content))
        for begin in range(0, len(content), block):
            some = content[begin:begin + block]
            if any(some):
                file.seek(begin)
                file.write(some)


def self_test():
    for name, (program, wanted) in PROGRAMS.items():
        for model, found in outcomes(program).items():
            if found != wanted[model]:
                sys.exit(f"traced_disk: {name}, {model}: {sorted(found)} instead of {sorted(wanted[model])}")
    print(f"traced_disk: the outcomes of {len(PROGRAMS)} programs are as they should be, by both models", flush=True)


def outcomes(program):
    """What the file `a` has after cuts at the end of a program, by each model: the first byte of each sector, for all of it."""
    with tempfile.TemporaryDirectory() as folder:
        folder, trace, found = pathlib.Path(folder, "disk"), str(pathlib.Path(folder, "trace")), {}
        folder.mkdir()
        disks = {model: Disk(folder, model) for model in ("ext4", "posix")}
        traced([sys.executable, "-S", "-E", "-c", "import os\n" + program, str(folder)], trace).check_returncode()
        for _, call, is_end in events_of(trace):
            for disk in disks.values():
                disk.take(call, is_end)
        for model, disk in disks.items():
            found[model] = {outcome(disk, random.Random(number)) for number in range(400)}
        return found


def outcome(disk, generator):
    content = disk.after_cut(generator)[0].get("a")
    return "no file" if content is None else content[::SECTOR].decode()


BEGIN = """
import sys
f = os.path.join(sys.argv[1], 'a')
d = os.open(sys.argv[1], os.O_RDONLY)
a = os.open(f, os.O_RDWR | os.O_CREAT, 0o600)
os.write(a, b'.' * 1024)
os.fsync(a)
os.fsync(d)
"""
PROGRAMS = {
    "what was synchronised stays": (BEGIN + "os.pwrite(a, b'1' * 1024, 0); os.fdatasync(a)", dict.fromkeys(("ext4", "posix"), {"11"})),
    "a write is torn between sectors": (BEGIN + "os.pwrite(a, b'1' * 1024, 0)", dict.fromkeys(("ext4", "posix"), {"..", ".1", "1.", "11"})),
    "any of several writes is the last": (BEGIN + "os.pwrite(a, b'1', 0); os.pwrite(a, b'2', 0)", dict.fromkeys(("ext4", "posix"), {"..", "1.", "2."})),
    "a synchronous write keeps itself alone": (
        BEGIN + "os.pwrite(a, b'1', 512); os.pwritev(a, [b'2'], 0, os.RWF_DSYNC)", dict.fromkeys(("ext4", "posix"), {"2.", "21"})),
    "so does a file that is opened so": (
        BEGIN + "b = os.open(f, os.O_WRONLY | os.O_DSYNC); os.pwrite(a, b'1', 512); os.write(b, b'2')", dict.fromkeys(("ext4", "posix"), {"2.", "21"})),
    "a longer file has zeroes or its old length": (
        BEGIN + "os.pwrite(a, b'1', 1024)", dict.fromkeys(("ext4", "posix"), {"..", "..\0", "..1"})),
    "a rename is one step": (
        BEGIN + "b = os.open(f + 'b', os.O_WRONLY | os.O_CREAT); os.write(b, b'1'); os.fsync(b); os.rename(f + 'b', f)",
        {"ext4": {"..", "1"}, "posix": {"..", "1"}}),
    "fsync of the folder keeps a rename": (
        BEGIN + "b = os.open(f + 'b', os.O_WRONLY | os.O_CREAT); os.write(b, b'1'); os.fsync(b); os.rename(f + 'b', f); os.fsync(d)",
        dict.fromkeys(("ext4", "posix"), {"1"})),
    "fsync of a new file keeps its name on ext4": (
        BEGIN.replace("os.fsync(d)", ""), {"ext4": {".."}, "posix": {"..", "no file"}}),
    "a name that was removed may be there": (BEGIN + "os.unlink(f)", dict.fromkeys(("ext4", "posix"), {"..", "no file"})),
    "nothing is kept without synchronising": (
        BEGIN.replace("os.fsync(a)", "").replace("os.fsync(d)", ""),
        dict.fromkeys(("ext4", "posix"), {"no file", "", "\0\0", ".\0", "\0.", ".."})),
}

if __name__ == "__main__":
    if sys.argv[1:] != ["--self-test"]:
        sys.exit(__doc__)
    self_test()
