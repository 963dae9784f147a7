// Boost.Fiber: fibers of one thread that yield in a loop.
#include "kit.hpp"
#include <boost/fiber/all.hpp>

namespace fibers = boost::fibers;

namespace {

/// Fibers with small stacks, so that ten thousand of them fit.
constexpr size_t stack_bytes = 16 << 10;

void run_queue(const kit::Args &args) {
    const uint64_t rq = args.number("rq");
    const double span = double(args.number("ms")) / 1e3;
    std::vector<uint64_t> counts(rq);
    bool stop = false;
    kit::Clock::time_point begin;
    std::vector<fibers::fiber> yielders;
    for (uint64_t i = 0; i < rq; i++)
        yielders.emplace_back(std::allocator_arg, fibers::fixedsize_stack(stack_bytes), [&, i] {
            while (!stop) {
                counts[i]++;
                // One fiber reads the clock, so that a switch does not include the cost of that.
                if (i == 0 && counts[i] % 64 == 2 && kit::seconds_since(begin) >= span)
                    stop = true;
                boost::this_fiber::yield();
            }
        });
    begin = kit::Clock::now();
    // The thread's own fiber waits here and does not yield.
    for (auto &yielder : yielders)
        yielder.join();
    const double spent = kit::seconds_since(begin);
    uint64_t total = 0;
    for (uint64_t count : counts)
        total += count;
    uint64_t zero_work = 0;
    double squares = 0;
    const double mean = double(total) / double(rq);
    for (uint64_t count : counts) {
        zero_work += count == 0;
        squares += (double(count) - mean) * (double(count) - mean);
    }
    kit::Output output;
    output.figure("switch_ns", spent * 1e9 / double(total));
    output.figure("work_deviation_percent", std::sqrt(squares / double(rq)) * 100 / std::max(mean, 1.0));
    output.check("switches", total);
    output.check("zero_work", zero_work);
    output.finish();
}

} // namespace

int main(int argc, char **argv) {
    kit::Args args(argc, argv);
    if (args.plain(0) != "run-queue")
        kit::refuse("no scenario " + args.plain(0));
    run_queue(args);
}
