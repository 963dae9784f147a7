// Boost.Asio: waitable timers on a virtual clock, the thread pool, strands.
#include "kit.hpp"
#include <boost/asio.hpp>

namespace asio = boost::asio;

namespace {

/// A clock that stands still until the driver moves it.
struct VirtualClock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<VirtualClock>;
    static constexpr bool is_steady = true;
    static inline time_point current{};
    static time_point now() { return current; }
};

/// Makes the reactor check its timers at once, since it could only wait for real time.
struct LookAtOnce {
    static VirtualClock::duration to_wait_duration(const VirtualClock::duration &) { return {}; }
    static VirtualClock::duration to_wait_duration(const VirtualClock::time_point &) { return {}; }
};

using Timer = asio::basic_waitable_timer<VirtualClock, LookAtOnce>;

class Timers {
public:
    explicit Timers(uint64_t n) {
        for (uint64_t i = 0; i < n; i++)
            timers.emplace_back(context);
    }

    Timer *add(uint64_t deadline_ns, uint64_t id) {
        Timer *timer = &timers[id];
        timer->expires_at(VirtualClock::current + std::chrono::nanoseconds(deadline_ns));
        live++;
        timer->async_wait([this, deadline_ns, id](const boost::system::error_code &error) {
            if (!error) {
                live--;
                tally->expire(deadline_ns, id);
            }
        });
        return timer;
    }

    bool cancel(Timer *timer) {
        const bool was_waiting = timer->cancel() == 1;
        live -= was_waiting;
        return was_waiting;
    }

    void purge() { run(); }

    void expire_all(kit::Tally &into) {
        tally = &into;
        VirtualClock::current += std::chrono::nanoseconds(kit::window_ns);
        while (live > 0)
            run();
    }

    uint64_t size() const { return live; }

private:
    void run() {
        context.restart();
        context.poll();
    }

    asio::io_context context{1};
    std::deque<Timer> timers;
    kit::Tally *tally = nullptr;
    uint64_t live = 0;
};

struct Pool {
    explicit Pool(uint64_t workers) : pool(workers) {}
    template <class F> void push(F task) { asio::post(pool, std::move(task)); }
    asio::thread_pool pool;
};

struct Strand {
    explicit Strand(Pool &pool) : strand(asio::make_strand(pool.pool)) {}
    template <class F> void push(F task) { asio::post(strand, std::move(task)); }
    asio::strand<asio::thread_pool::executor_type> strand;
};

} // namespace

int main(int argc, char **argv) {
    kit::Args args(argc, argv);
    const std::string scenario = args.plain(0);
    if (scenario == "timers") {
        Timers timers(args.number("n"));
        kit::run_timers(args, timers);
        return 0;
    }
    static Pool pool(args.number("workers"));
    if (scenario == "pool-requeue")
        kit::run_requeue(args, pool);
    if (scenario == "pool-external")
        kit::run_external(args, pool);
    if (scenario == "serializer-pingpong")
        kit::run_pingpong<Strand>(args, [] { return std::make_unique<Strand>(pool); });
    kit::refuse("no scenario " + scenario);
}
