// What all C++ engines share: arguments, inputs, output, and one driver for each
// scenario, as in the Rust kit. PROTOCOL.md defines them.
#pragma once

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace kit {

using Clock = std::chrono::steady_clock;

inline constexpr uint64_t window_ns = 60'000'000'000;

inline double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

[[noreturn]] inline void refuse(const std::string &why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(3);
}

class Args {
public:
    Args(int argc, char **argv) : words(argv + 1, argv + argc) {}

    uint64_t number(const std::string &key) const {
        if (const auto found = optional(key))
            return *found;
        refuse("parameter " + key + "=NUMBER is missing");
    }

    std::optional<uint64_t> optional(const std::string &key) const {
        for (const auto &word : words)
            if (word.rfind(key + "=", 0) == 0)
                return std::strtoull(word.c_str() + key.size() + 1, nullptr, 10);
        return std::nullopt;
    }

    /// The word at `place` among those without `=`: variant and scenario.
    std::string plain(size_t place) const {
        for (const auto &word : words)
            if (word.find('=') == std::string::npos && place-- == 0)
                return word;
        return "";
    }

private:
    std::vector<std::string> words;
};

class Output {
public:
    void figure(const char *metric, double value) {
        std::printf("{\"metric\":\"%s\",\"value\":%.4f}\n", metric, value);
    }

    void check(const char *name, uint64_t value) {
        checks += (checks.empty() ? "\"" : ",\"") + std::string(name) + "\":" + std::to_string(value);
    }

    void check_real(const char *name, double value) {
        char text[40];
        std::snprintf(text, sizeof text, "%.17g", value);
        checks += (checks.empty() ? "\"" : ",\"") + std::string(name) + "\":" + text;
    }

    void finish() {
        std::printf("{\"checks\":{%s}}\n", checks.c_str());
        std::fflush(stdout);
    }

private:
    std::string checks;
};

/// The result of a digest as one number: each value counts with its series and its step.
struct DigestSum {
    uint64_t count = 0;
    double sum = 0;

    /// NaN means that there is no value.
    void add(uint64_t series, uint64_t step, double value) {
        if (std::isnan(value))
            return;
        count++;
        sum += value * double(1 + (series * 31 + step) % 97);
    }
};

class Random {
public:
    explicit Random(uint64_t seed) : state(seed) {}

    uint64_t next() {
        state += 0x9E3779B97F4A7C15u;
        uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }

    template <class T> void shuffle(std::vector<T> &things) {
        for (size_t i = things.size(); i-- > 1;)
            std::swap(things[i], things[next() % (i + 1)]);
    }

private:
    uint64_t state;
};

/// The count, sum and order of expiries.
struct Tally {
    uint64_t cancelled = 0, expired = 0, deadline_sum = 0, order_hash = 0xcbf29ce484222325u;

    void expire(uint64_t deadline_ns, uint64_t id) {
        expired++;
        deadline_sum += deadline_ns;
        order_hash = (order_hash ^ id) * 0x100000001b3u;
    }
};

/// `timers`. T has: handle add(deadline_ns, id), bool cancel(handle), void purge(),
/// void expire_all(Tally &), uint64_t size().
template <class T> void run_timers(const Args &args, T &timers) {
    using Handle = decltype(timers.add(0, 0));
    const uint64_t n = args.number("n");
    Random random(args.number("seed"));
    std::vector<uint64_t> deadlines(n), order(n);
    for (auto &deadline : deadlines)
        deadline = random.next() % window_ns;
    for (uint64_t i = 0; i < n; i++)
        order[i] = i;
    random.shuffle(order);
    const uint64_t repeats = std::max<uint64_t>(1, 100'000 / std::max<uint64_t>(1, n));
    const bool warm_up = repeats > 1;
    double add = 0, cancel = 0, purge = 0, add_again = 0, expire = 0;
    Tally tally;
    for (uint64_t repeat = 0; repeat < repeats + warm_up; repeat++) {
        if (warm_up && repeat == 1)
            add = cancel = purge = add_again = expire = 0;
        tally = Tally();
        std::vector<Handle> handles;
        handles.reserve(n);
        auto begin = Clock::now();
        for (uint64_t i = 0; i < n; i++)
            handles.push_back(timers.add(deadlines[i], i));
        add += seconds_since(begin);
        begin = Clock::now();
        for (uint64_t index : order)
            tally.cancelled += timers.cancel(handles[index]);
        cancel += seconds_since(begin);
        begin = Clock::now();
        timers.purge();
        purge += seconds_since(begin);
        begin = Clock::now();
        for (uint64_t i = 0; i < n; i++)
            timers.add(deadlines[i], i);
        add_again += seconds_since(begin);
        begin = Clock::now();
        timers.expire_all(tally);
        expire += seconds_since(begin);
    }
    const double each = 1e9 / double(n * repeats);
    Output output;
    output.figure("add_ns", add * each);
    output.figure("cancel_ns", cancel * each);
    output.figure("purge_ns", purge * each);
    output.figure("expire_ns", expire * each);
    output.figure("cancelled_life_ns", (add + cancel + purge) * each);
    output.figure("expired_life_ns", (add_again + expire) * each);
    output.check("cancelled", tally.cancelled);
    output.check("expired", tally.expired);
    output.check("remaining", timers.size());
    output.check("deadline_sum", tally.deadline_sum);
    output.check("order_hash", tally.order_hash);
    output.finish();
}

/// The counter that all tasks share, and the number of chains that have ended.
struct Load {
    alignas(128) std::atomic<uint64_t> counter{0};
    alignas(128) std::atomic<uint64_t> tasks{0};
    std::atomic<uint64_t> overlaps{0}, ended{0};
    alignas(128) std::atomic<bool> stop{false};

    bool step() {
        counter.fetch_add(1, std::memory_order_relaxed);
        return !stop.load(std::memory_order_relaxed);
    }

    void end_chain(uint64_t own_count) {
        tasks += own_count;
        ended++;
    }

    double let_run(uint64_t ms) {
        const auto begin = Clock::now();
        const uint64_t before = counter;
        std::this_thread::sleep_for(std::chrono::milliseconds(ms));
        const uint64_t count = counter - before;
        const double spent = seconds_since(begin);
        stop = true;
        return double(count) / spent;
    }

    void wait_for(uint64_t chains) {
        while (ended < chains)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }

    void report(double tasks_per_s) {
        Output output;
        output.figure("tasks_per_s", tasks_per_s);
        output.check("counter", counter);
        output.check("tasks", tasks);
        output.check("overlaps", overlaps);
        output.finish();
        std::_Exit(0);
    }
};

/// `pool-requeue`. P has: void push(F).
template <class P> void again(P &pool, Load &load, uint64_t own_count) {
    if (load.step())
        pool.push([&pool, &load, own_count] { again(pool, load, own_count + 1); });
    else
        load.end_chain(own_count);
}

template <class P> void run_requeue(const Args &args, P &pool) {
    static Load load;
    for (int i = 0; i < 200; i++)
        pool.push([&pool] { again(pool, load, 1); });
    const double rate = load.let_run(args.number("ms"));
    load.wait_for(200);
    load.report(rate);
}

template <class P> void run_external(const Args &args, P &pool) {
    static Load load;
    const uint64_t n = args.number("n");
    const auto begin = Clock::now();
    for (uint64_t i = 0; i < n; i++)
        pool.push([] { load.counter.fetch_add(1, std::memory_order_relaxed); });
    while (load.counter < n)
        std::this_thread::yield();
    Output output;
    output.figure("tasks_per_s", double(n) / seconds_since(begin));
    output.check("counter", load.counter);
    output.finish();
    std::_Exit(0);
}

/// `serializer-pingpong`. S has: void push(F).
template <class S> struct Station {
    std::unique_ptr<S> serial;
    std::atomic<bool> busy{false};
    std::atomic<uint64_t> count{0};

    bool enter(Load &load) {
        if (busy.load(std::memory_order_relaxed))
            load.overlaps++;
        busy.store(true, std::memory_order_relaxed);
        count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        const bool again = load.step();
        busy.store(false, std::memory_order_relaxed);
        return again;
    }
};

template <class S> void bounce(Station<S> &here, Station<S> &there, Load &load) {
    if (here.enter(load))
        there.serial->push([&] { bounce(there, here, load); });
    else
        load.end_chain(0);
}

template <class S> void run_pingpong(const Args &args, const std::function<std::unique_ptr<S>()> &make) {
    static Load load;
    static std::deque<Station<S>> stations(400);
    for (auto &station : stations)
        station.serial = make();
    for (size_t i = 0; i < stations.size(); i += 2)
        stations[i].serial->push([i] { bounce(stations[i], stations[i + 1], load); });
    const double rate = load.let_run(args.number("ms"));
    load.wait_for(200);
    for (auto &station : stations)
        load.tasks += station.count;
    load.report(rate);
}

} // namespace kit
