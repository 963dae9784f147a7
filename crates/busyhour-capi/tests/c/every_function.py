"""Each function of the ABI with each of its pointers NULL in turn, and with none, when all it needs is there, after the
pool's shutdown, after its parents' handles are freed, and inside of a callback: usage: every_function.py HEADER LIBRARY

Nothing may crash or hang, data is freed exactly once, an output is written only by a call that succeeds, and an option
struct of a wrong size is refused."""

import re
import sys

import cffi

header, library = sys.argv[1:]
ffi = cffi.FFI()
lines = [line for line in open(header) if not line.startswith("#")]
text = re.sub(r"^}\s*//.*$", "", "".join(lines).replace('extern "C" {', ""), flags=re.M)
text = re.sub(r"//.*", "", text)
ffi.cdef(text)
bh = ffi.dlopen(library)
# The names of parameters, by function: a `run` and a `drop` have the same type.
NAMES = {name: [re.split(r"[ *]", one.strip())[-1] for one in given.split(",")]
         for name, given in re.findall(r"\b(bh_\w+)\(([^;()]*)\);", text)}

MARK = 0x5A
given, freed = {}, {}
handles = []  # what callbacks are given stays until the end


@ffi.callback("bh_drop_fn")
def drop(data):
    number = int(ffi.cast("uintptr_t", data))
    freed[number] = freed.get(number, 0) + 1


def fresh_data(where):
    fresh_data.latest += 1
    given[fresh_data.latest] = where
    return ffi.cast("void *", fresh_data.latest)


fresh_data.latest = 1000


def callback(kind):
    """One that does nothing: 0 ends a list, and an executor's tasks are refused."""
    kind = ffi.typeof(kind) if isinstance(kind, str) else kind
    if kind not in callback.made:
        one = kind in (ffi.typeof("bh_execute_fn"), ffi.typeof("bh_poll_fn"))
        answer = None if kind.result.kind == "void" else ffi.NULL if kind.result.kind == "pointer" else int(one)
        callback.made[kind] = ffi.callback(kind, lambda *_: answer)
    return callback.made[kind]


callback.made = {}


def made(function, *arguments):
    out = ffi.new(ffi.typeof(function).args[-1])
    code = function(*arguments, out)
    assert code == bh.BH_OK, (function, code, last_error())
    return out[0]


def last_error():
    why = ffi.new("char[300]")
    bh.bh_last_error(why, 300)
    return ffi.string(why).decode()


def options(kind):
    one = ffi.new(f"bh_{kind}_options *")
    one.size = ffi.sizeof(one[0])
    return one


class World:
    """A handle of each kind that a function takes, and what these need; without a function, one of each kind. A runtime with its pool and
    timers is always there. It is a simulation, so nothing waits for another thread."""

    state = "usual"

    def __init__(self, function=None):
        self.taken = set()
        self.bh_runtime = made(bh.bh_runtime_simulated, 7)
        self.bh_pool = made(bh.bh_runtime_pool, self.bh_runtime)
        self.bh_timers = made(bh.bh_runtime_timers, self.bh_runtime)
        for kind in MAKERS if function is None else kinds_of(function):
            self.need(kind)

    def need(self, kind):
        """The handle of this kind, which is made first if there is none."""
        if kind not in vars(self):
            setattr(self, kind, MAKERS[kind](self))
        return getattr(self, kind)

    def free(self, *kinds):
        every = [name for name in vars(self) if name.startswith("bh_") or name == "other_topic"]
        for kind in [kind for kind in kinds if kind in every] if kinds else every:
            free = "bh_topic" if kind == "other_topic" else kind
            if kind not in self.taken:
                self.taken.add(kind)
                getattr(bh, f"{free}_free")(getattr(self, kind))
        while not kinds and wakers:  # of a task that was woken and polled once more
            bh.bh_waker_free(wakers.pop())


def of_template():
    one = options("serializer")
    name = ffi.new("char[]", b"template")
    one.name = name
    handles.append(name)
    return one


def of_topic():
    one = options("topic")
    one.cached = 1
    return one


wakers = []


@ffi.callback("bh_poll_fn")
def wait_for_waker(waker, result, data):
    wakers.append(made(bh.bh_waker_clone, waker))
    return 0


def spawn(world):
    """A task that waits, and what wakes it."""
    join = made(bh.bh_pool_spawn, world.bh_pool, wait_for_waker, fresh_data("a spawned task"), drop)
    assert bh.bh_simulation_run_for(world.bh_runtime, 0) == bh.BH_OK
    world.bh_join, world.bh_waker = join, wakers.pop()


def join_of(world):
    spawn(world)
    return world.bh_join


def waker_of(world):
    spawn(world)
    return world.bh_waker


def serializer_of(world):
    name = ffi.new("char[]", b"one")
    handles.append(name)
    one = options("serializer")
    one.name, one.group, one.alert_group = name, world.need("bh_group"), world.need("bh_alert_group")
    return made(bh.bh_serializer_new, world.bh_pool, one)


def record_of(world):
    name = ffi.new("char[]", b"one")
    handles.append(name)
    return made(bh.bh_record_new, 1, name)


def subscription_of(world):
    out = ffi.new("bh_subscription **")
    topic = world.need("bh_topic")
    assert bh.bh_topic_subscribe(topic, ffi.NULL, callback("bh_delivery_fn"), fresh_data("a subscription"), drop, out) == bh.BH_OK, last_error()
    return out[0]


# How each handle is made, in an order in which all that one needs comes before it.
MAKERS = {
    "bh_buffers": lambda world: made(bh.bh_runtime_buffers, world.bh_runtime),
    "bh_group": lambda world: made(bh.bh_group_new),
    "bh_alert_group": lambda world: made(bh.bh_alert_group_new),
    "bh_serializer": serializer_of,
    "bh_template": lambda world: made(bh.bh_runtime_template, world.bh_runtime, of_template()),
    "bh_suspension": lambda world: made(bh.bh_serializer_suspend, world.need("bh_serializer")),
    "bh_executor": lambda world: made(bh.bh_executor_of_pool, world.bh_pool),
    "bh_topic": lambda world: made(bh.bh_topic_new, world.bh_runtime, of_topic()),
    "other_topic": lambda world: made(bh.bh_topic_new, world.bh_runtime, ffi.NULL),
    "bh_record": record_of,
    "bh_event": lambda world: made(bh.bh_event_of_record, world.need("bh_record")),
    "bh_pattern": lambda world: made(bh.bh_pattern_new),
    "bh_attribute": lambda world: made(bh.bh_attribute_of_element, 1),
    "bh_subscription": subscription_of,
    "bh_forward": lambda world: made(bh.bh_topic_forward, world.need("bh_topic"), world.need("other_topic")),
    "bh_join": join_of,
    "bh_waker": waker_of,
    "bh_heap": lambda world: made(bh.bh_heap_new, callback("bh_compare_fn"), fresh_data("a heap"), drop),
    "bh_run_queue": lambda world: made(bh.bh_run_queue_new, 0, 1000000),
    "bh_sched_state": lambda world: made(bh.bh_sched_state_new, 0),
    "bh_timer_queue": lambda world: made(bh.bh_timer_queue_new),
    "bh_task": lambda world: a_task(),
}


def kinds_of(name):
    """The kinds of handles that a function takes; of a topic's, a subscription and a second topic as well."""
    kinds = [kind.item.cname.replace("struct ", "") for kind in ffi.typeof(getattr(bh, name)).args if kind.kind == "pointer"]
    kinds = [kind for kind in kinds if kind in MAKERS]
    return kinds + ["bh_subscription", "bh_forward"] if "bh_topic" in kinds else kinds


tasks = []


@ffi.callback("bh_execute_fn")
def keep_task(task, data):
    tasks.append(task)
    return 0


def a_task():
    timers_options = options("timers")
    timers_options.virtual_time = 1
    timers = made(bh.bh_timers_new, timers_options)
    on = made(bh.bh_executor_new, keep_task, fresh_data("an executor"), drop)
    assert bh.bh_timers_after(timers, 1, on, callback("bh_run_fn"), fresh_data("a timer's task"), drop, ffi.NULL) == bh.BH_OK
    bh.bh_timers_advance(timers, 1)
    bh.bh_timers_run_due(timers, ffi.NULL)
    bh.bh_executor_free(on)
    bh.bh_timers_free(timers)
    return tasks.pop()


def argument(world, kind):
    """A valid one."""
    if kind.kind == "function" or (kind.kind == "pointer" and kind.item.kind == "function"):
        return callback(kind)
    if kind.kind == "struct":
        return ffi.new(ffi.getctype(kind, "*"))[0]
    if kind.kind != "pointer":
        return 1
    name = kind.item.cname.replace("struct ", "")
    if hasattr(world, name):
        return getattr(world, name)
    if kind.item.kind == "struct" and name.endswith("_options"):
        one = ffi.new(kind)
        one.size = ffi.sizeof(one[0])
        return one
    size = 256 if kind.item.kind in ("primitive", "enum") else 16 * ffi.sizeof(kind.item)
    memory = ffi.new("char[]", bytes([MARK]) * size + b"\0")
    handles.append(memory)
    return ffi.cast(kind, memory)


def call(name, world, null_at=None, change=None):
    function = getattr(bh, name)
    kinds = ffi.typeof(function).args
    names = NAMES[name] + [None]
    values = []
    for at, kind in enumerate(kinds):
        if names[at] == "drop":
            values.append(drop)
        elif names[at + 1] == "drop":
            # Without a drop, or without data, nothing is counted.
            values.append(ffi.cast("void *", 1) if null_at in (at, at + 1) else fresh_data(f"{name}, {null_at}, {world.state}"))
        elif kind.kind == "pointer" and kind.item.kind == "void":
            memory = ffi.new("char[64]")
            handles.append(memory)
            values.append(memory)
        else:
            values.append(argument(world, kind))
    if null_at is not None:
        values[null_at] = ffi.NULL
    if change:
        change(values)
    for kind, value in zip(kinds, values):
        item = kind.item.cname.replace("struct ", "") if kind.kind == "pointer" and kind.item.kind == "struct" else None
        frees = item and (name == f"{item}_free" or (name, item) in TAKES)
        if frees and value != ffi.NULL:
            world.taken.add(item)
    result = function(*values)
    check_text(name, kinds, names, values, result)
    check_outputs(name, kinds, values, result)
    take_back(kinds, values)
    return result


def check_text(name, kinds, names, values, length):
    """What copies a text ends it with a NUL, also if it has none."""
    if names[-3:-1] != ["text", "size"] or values[-2] == ffi.NULL or ffi.typeof(getattr(bh, name)).result.kind != "primitive":
        return
    texts.add(name)
    copied = ffi.buffer(values[-2], 1)[:]
    # One byte of room, which is that of the NUL.
    assert copied == b"\0", f"{name} says {length} and leaves {copied}"


texts = set()


def check_outputs(name, kinds, values, result):
    returns = ffi.typeof(getattr(bh, name)).result
    if returns.kind != "enum" or result == bh.BH_OK or values[-1] == ffi.NULL:
        return
    last = kinds[-1]
    if last.kind == "pointer" and last.item.kind == "pointer" and name not in WRITES_WHEN_FULL:
        assert ffi.buffer(ffi.cast("char *", values[-1]), 8)[:] == bytes([MARK]) * 8, f"{name} failed and wrote its output"


def take_back(kinds, values):
    """Frees the handles that a call gave."""
    for kind, value in zip(kinds, values):
        if kind.kind == "pointer" and kind.item.kind == "pointer" and kind.item.item.kind == "struct" and value != ffi.NULL:
            name = kind.item.item.cname.replace("struct ", "")
            if hasattr(bh, f"{name}_free") and ffi.buffer(ffi.cast("char *", value), 8)[:] != bytes([MARK]) * 8:
                getattr(bh, f"{name}_free")(value[0])


TAKES = {("bh_task_run", "bh_task"), ("bh_join_wait", "bh_join")}
WRITES_WHEN_FULL = set()
# Texts and bytes that only the library can have made; `abort`s of what is not its own; the version.
LEFT_OUT = {"bh_text_free", "bh_strerror", "bh_version", "bh_last_error"}
FUNCTIONS = [name for name in dir(bh) if name.startswith("bh_") and name not in LEFT_OUT]


def pointers(name):
    kinds = ffi.typeof(getattr(bh, name)).args
    return [at for at, kind in enumerate(kinds) if kind.kind in ("pointer", "function")]


def in_each_state(name):
    for null_at in [None, *pointers(name)]:
        for prepare in (leave, shut_down, free_parents):
            # With nothing else NULL or gone, every handle is there.
            world = World(None if null_at is None and prepare is leave else name)
            world.state = prepare.__name__
            prepare(world)
            code = call(name, world, null_at)
            if null_at == 0 and prepare is not free_parents and ffi.typeof(getattr(bh, name)).result.cname == "enum bh_result":
                kind = ffi.typeof(getattr(bh, name)).args[0]
                if kind.item.cname.replace("struct ", "") in vars(world):
                    assert code == bh.BH_NULL, (name, code)
            world.free()


def leave(world):
    pass


def shut_down(world):
    bh.bh_timers_close(world.bh_timers, ffi.NULL)
    bh.bh_pool_shutdown(world.bh_pool, 0, ffi.NULL)


def free_parents(world):
    world.free("bh_runtime", "bh_pool", "bh_timers", "bh_topic", "other_topic", "bh_group", "bh_alert_group")
    for kind in ("bh_runtime", "bh_pool", "bh_timers", "bh_topic", "bh_group", "bh_alert_group"):
        if kind in vars(world):
            setattr(world, kind, ffi.NULL)


def inside(name):
    world = World(name)

    @ffi.callback("bh_run_fn")
    def run(data):
        call(name, world)

    bh.bh_pool_push(world.bh_pool, run, fresh_data(f"{name}, inside"), drop)
    assert bh.bh_simulation_run_for(world.bh_runtime, 1) == bh.BH_OK
    world.free()


def sizes(name):
    for at, kind in enumerate(ffi.typeof(getattr(bh, name)).args):
        if kind.kind == "pointer" and kind.item.kind == "struct" and kind.item.cname.endswith("_options"):
            for size, code in ((1, bh.BH_INVALID), (12, bh.BH_INVALID), (ffi.sizeof(kind.item) - 1, bh.BH_INVALID), (ffi.sizeof(kind.item) + 8, bh.BH_VERSION)):
                memory = ffi.new("char[]", ffi.sizeof(kind.item) + 16)
                ffi.cast("size_t *", memory)[0] = size
                ffi.cast("char *", memory)[ffi.sizeof(kind.item)] = b"\1"
                world = World(name)
                result = call(name, world, change=lambda values: values.__setitem__(at, ffi.cast(kind, memory)))
                assert result == code, (name, size, result, last_error())
                world.free()


for name in FUNCTIONS:
    print(name, flush=True)
    in_each_state(name)
    inside(name)
    sizes(name)
assert len(texts) >= 6, texts
wrong = {where: freed.get(number, 0) for number, where in given.items() if freed.get(number, 0) != 1}
assert not wrong, wrong
print(len(FUNCTIONS), "functions,", len(given), "data freed once")
