// Pinned buffers by address.
#include "scenarios.hpp"

namespace {

constexpr uint64_t buffer_bytes = 1024;
constexpr uint64_t budget_bytes = 8ull << 30;

/// The time of one operation, in ns, with `count` operations on each thread: from the first thread's begin to the last
/// one's end, as the threads measure it themselves.
template <class F> double on_threads(uint64_t threads, uint64_t count, uint64_t seed, F operation) {
    std::atomic<uint64_t> ready{0};
    std::vector<std::pair<kit::Clock::time_point, kit::Clock::time_point>> spans(threads);
    std::vector<std::thread> all;
    for (uint64_t index = 0; index < threads; index++)
        all.emplace_back([&, index] {
            kit::Random random(seed + index);
            ready++;
            while (ready < threads)
                std::this_thread::yield();
            spans[index].first = kit::Clock::now();
            for (uint64_t i = 0; i < count; i++)
                operation(random);
            spans[index].second = kit::Clock::now();
        });
    for (auto &thread : all)
        thread.join();
    auto begin = spans[0].first, end = spans[0].second;
    for (const auto &span : spans) {
        begin = std::min(begin, span.first);
        end = std::max(end, span.second);
    }
    return std::chrono::duration<double>(end - begin).count() * 1e9 / double(count);
}

} // namespace

void run_buffers(const kit::Args &args) {
    const uint64_t live = args.number("live"), pairs = args.number("pairs"), threads = args.number("threads");
    bh_buffers_options options = {};
    options.size = sizeof options;
    options.budget_bytes = budget_bytes;
    bh_buffers *buffers;
    must(bh_buffers_new(&options, &buffers));
    std::vector<char *> addresses(live);
    for (auto &address : addresses) {
        void *found;
        must(bh_buffers_find(buffers, buffer_bytes, &found));
        address = static_cast<char *>(found);
    }
    std::atomic<uint64_t> failures{0};
    const double find_ns = on_threads(threads, pairs, args.number("seed"), [&](kit::Random &) {
        void *buffer;
        if (bh_buffers_find(buffers, buffer_bytes, &buffer) != BH_OK || bh_buffers_unpin(buffers, buffer) != BH_OK)
            failures++;
    });
    const double pin_ns = on_threads(threads, pairs, args.number("seed"), [&](kit::Random &random) {
        const uint64_t draw = random.next();
        char *address = addresses[(draw >> 16) % live] + (draw & (buffer_bytes - 1));
        if (bh_buffers_pin(buffers, address) != BH_OK || bh_buffers_unpin(buffers, address) != BH_OK)
            failures++;
    });
    bh_buffers_stats stats;
    must(bh_buffers_get_stats(buffers, &stats));
    kit::Output output;
    output.figure("find_unpin_ns", find_ns);
    output.figure("pin_unpin_ns", pin_ns);
    output.figure("mpairs_per_s", double(threads) * 1e3 / pin_ns);
    output.check("pairs", pairs * threads);
    output.check("live_after", stats.live_count);
    output.check("failures", failures);
    output.finish();
}
