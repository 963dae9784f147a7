// `buffers`: libpcp's pinned PDU buffers.
#include "scenarios.hpp"

// Declared here since the library exports them and Debian's headers do not declare them.
extern "C" {
void *__pmFindPDUBuf(int);
void __pmPinPDUBuf(void *);
int __pmUnpinPDUBuf(void *);
}

namespace {

constexpr int buffer_bytes = 1024;

/// The time of one operation on each thread, in ns.
template <class F> double on_threads(uint64_t threads, uint64_t count, uint64_t seed, F operation) {
    std::atomic<bool> go{false};
    std::vector<std::thread> all;
    for (uint64_t index = 0; index < threads; index++)
        all.emplace_back([&, index] {
            kit::Random random(seed + index);
            while (!go)
                std::this_thread::yield();
            for (uint64_t i = 0; i < count; i++)
                operation(random);
        });
    const auto begin = kit::Clock::now();
    go = true;
    for (auto &thread : all)
        thread.join();
    return kit::seconds_since(begin) * 1e9 / double(count);
}

} // namespace

void run_buffers(const kit::Args &args) {
    const uint64_t live = args.number("live"), pairs = args.number("pairs"), threads = args.number("threads");
    std::vector<char *> addresses(live);
    for (auto &address : addresses)
        address = static_cast<char *>(__pmFindPDUBuf(buffer_bytes));
    std::atomic<uint64_t> failures{0};
    const double find_ns = on_threads(threads, pairs, args.number("seed"), [&](kit::Random &) {
        void *buffer = __pmFindPDUBuf(buffer_bytes);
        if (!buffer || !__pmUnpinPDUBuf(buffer))
            failures++;
    });
    const double pin_ns = on_threads(threads, pairs, args.number("seed"), [&](kit::Random &random) {
        const uint64_t draw = random.next();
        // The library takes addresses of whole integers only.
        char *address = addresses[(draw >> 16) % live] + (draw & (buffer_bytes - 1) & ~3u);
        __pmPinPDUBuf(address);
        if (!__pmUnpinPDUBuf(address))
            failures++;
    });
    // A buffer that is still pinned once can be unpinned once more.
    uint64_t live_after = 0;
    for (auto *address : addresses)
        live_after += __pmUnpinPDUBuf(address) == 1;
    kit::Output output;
    output.figure("find_unpin_ns", find_ns);
    output.figure("pin_unpin_ns", pin_ns);
    output.figure("mpairs_per_s", double(threads) * 1e3 / pin_ns);
    output.check("pairs", pairs * threads);
    output.check("live_after", live_after);
    output.check("failures", failures);
    output.finish();
}
