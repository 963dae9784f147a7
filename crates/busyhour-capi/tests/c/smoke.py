"""The ABI from Python: usage: smoke.py HEADER LIBRARY"""

import re
import sys
import threading

import cffi

header, library = sys.argv[1:]
ffi = cffi.FFI()
lines = [line for line in open(header) if not line.startswith("#")]
text = "".join(lines).replace('extern "C" {', "")
text = re.sub(r'^}\s*//.*$', "", text, flags=re.M)
ffi.cdef(re.sub(r"//.*", "", text))


class Early(threading.Thread):
    """A thread that began before the library was loaded, with values of its own in there all the same."""

    loaded = threading.Event()

    def run(self):
        self.loaded.wait()
        self.numbers = [self.find_and_pin(number) for number in range(8)]

    def find_and_pin(self, number):
        out = ffi.new("void **")
        ok(bh.bh_buffers_find(buffers, 1024, out))
        ok(bh.bh_buffers_pin(buffers, out[0] + number))
        ok(bh.bh_buffers_unpin(buffers, out[0]))
        ok(bh.bh_buffers_unpin(buffers, out[0] + number))
        return number


early = [Early() for _ in range(20)]
for thread in early:
    thread.start()
bh = ffi.dlopen(library)


def ok(code):
    assert code == bh.BH_OK, ffi.string(bh.bh_strerror(code))


def made(function, *arguments):
    out = ffi.new(ffi.typeof(function).args[-1])
    ok(function(*arguments, out))
    return out[0]


buffers = made(bh.bh_buffers_new, ffi.NULL)
Early.loaded.set()
for thread in early:
    thread.join()
    assert thread.numbers == list(range(8))
stats = ffi.new("bh_buffers_stats *")
ok(bh.bh_buffers_get_stats(buffers, stats))
assert (stats.live_count, stats.found, stats.pinned) == (0, 160, 160), (stats.live_count, stats.found, stats.pinned)
bh.bh_buffers_free(buffers)

runtime = made(bh.bh_runtime_simulated, 7)
pool = made(bh.bh_runtime_pool, runtime)
timers = made(bh.bh_runtime_timers, runtime)
name = ffi.new("char[]", b"calls")  # a struct does not keep what it points to
options = ffi.new("bh_serializer_options *", {"size": ffi.sizeof("bh_serializer_options"), "name": name})
calls = made(bh.bh_serializer_new, pool, options)
on = made(bh.bh_executor_of_serializer, calls)

order, freed = [], []
run = ffi.callback("void(void *)", lambda data: order.append(ffi.from_handle(data)))
drop = ffi.callback("void(void *)", lambda data: freed.append(ffi.from_handle(data)))
handles = [ffi.new_handle(number) for number in range(10)]
for handle in handles[:5]:
    ok(bh.bh_serializer_push(calls, run, handle, drop))
for delay, handle in enumerate(handles[5:]):
    ok(bh.bh_timers_after(timers, (5 - delay) * 10**9, on, run, handle, drop, ffi.NULL))
ok(bh.bh_simulation_run_for(runtime, 60 * 10**9))
assert order == [0, 1, 2, 3, 4, 9, 8, 7, 6, 5], order
assert freed == order, freed

taken = ffi.new("bh_serializer **")
assert bh.bh_serializer_new(pool, options, taken) == bh.BH_EXISTS and taken[0] == ffi.NULL
why = ffi.new("char[200]")
bh.bh_last_error(why, 200)
assert b"calls" in ffi.string(why)

bh.bh_executor_free(on)
bh.bh_serializer_free(calls)
bh.bh_timers_free(timers)
bh.bh_pool_free(pool)
bh.bh_runtime_free(runtime)
