// The pool and its serializers. A task is a function and the struct that it is about, which lives as long as its chain of
// tasks: so nothing is allocated for a task, as in C programs that queue their own structs.
#include "scenarios.hpp"

namespace {

kit::Load load;
bh_pool *pool;

void start(const kit::Args &args) {
    bh_pool_options options = {};
    options.size = sizeof options;
    options.workers = uint32_t(args.number("workers"));
    // Whoever pushes from outside is never told to wait, as in pools without a bound; 0 is the default.
    options.capacity = args.optional("n").value_or(0);
    must(bh_pool_new(&options, &pool));
}

/// On a cache line of its own, since workers count in several chains at a time.
struct alignas(64) Chain {
    uint64_t own_count;
};

void again(void *data) {
    auto *chain = static_cast<Chain *>(data);
    chain->own_count++;
    if (load.step())
        must(bh_pool_push(pool, again, chain, nullptr));
    else
        load.end_chain(chain->own_count);
}

void add_one(void *) { load.counter.fetch_add(1, std::memory_order_relaxed); }

/// One serializer of a pair, and what the pair's task needs to go to the other one.
struct Station {
    bh_serializer *serializer;
    Station *other;
    std::atomic<bool> busy{false};
    std::atomic<uint64_t> count{0};

    bool enter() {
        if (busy.load(std::memory_order_relaxed))
            load.overlaps++;
        busy.store(true, std::memory_order_relaxed);
        count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        const bool again = load.step();
        busy.store(false, std::memory_order_relaxed);
        return again;
    }
};

void bounce(void *data) {
    auto *here = static_cast<Station *>(data);
    if (here->enter())
        must(bh_serializer_push(here->other->serializer, bounce, here->other, nullptr));
    else
        load.end_chain(0);
}

} // namespace

void run_pool_requeue(const kit::Args &args) {
    static Chain chains[200];
    start(args);
    for (auto &chain : chains)
        must(bh_pool_push(pool, again, &chain, nullptr));
    const double rate = load.let_run(args.number("ms"));
    load.wait_for(200);
    load.report(rate);
}

void run_pool_external(const kit::Args &args) {
    start(args);
    const uint64_t n = args.number("n");
    const auto begin = kit::Clock::now();
    for (uint64_t i = 0; i < n; i++)
        must(bh_pool_push(pool, add_one, nullptr, nullptr));
    while (load.counter < n)
        std::this_thread::yield();
    kit::Output output;
    output.figure("tasks_per_s", double(n) / kit::seconds_since(begin));
    output.check("counter", load.counter);
    output.finish();
    std::_Exit(0);
}

void run_pingpong(const kit::Args &args) {
    static Station stations[400];
    start(args);
    for (size_t i = 0; i < 400; i++) {
        const std::string name = "station-" + std::to_string(i);
        bh_serializer_options options = {};
        options.size = sizeof options;
        options.name = name.c_str();
        must(bh_serializer_new(pool, &options, &stations[i].serializer));
        stations[i].other = &stations[i ^ 1];
    }
    for (size_t i = 0; i < 400; i += 2)
        must(bh_serializer_push(stations[i].serializer, bounce, &stations[i], nullptr));
    const double rate = load.let_run(args.number("ms"));
    load.wait_for(200);
    for (auto &station : stations)
        load.tasks += station.count;
    load.report(rate);
}
