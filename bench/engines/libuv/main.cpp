// libuv: one handle for each timer, deadlines in whole milliseconds; and its thread pool, which only the loop's thread feeds.
#include "kit.hpp"
#include <uv.h>

namespace {

struct Timer {
    uv_timer_t handle;
    uint64_t deadline_ns, id;
};

class Loop {
public:
    explicit Loop(uint64_t n) : timers(n) {
        uv_loop_init(&loop);
        for (auto &timer : timers)
            uv_timer_init(&loop, &timer.handle);
        set_back();
    }

    Timer *add(uint64_t deadline_ns, uint64_t id) {
        Timer *timer = &timers[id];
        timer->deadline_ns = deadline_ns;
        timer->id = id;
        timer->handle.data = this;
        uv_timer_start(&timer->handle, on_expire, deadline_ns / 1'000'000, 0);
        return timer;
    }

    bool cancel(Timer *timer) {
        const bool was_active = uv_is_active(reinterpret_cast<uv_handle_t *>(&timer->handle));
        uv_timer_stop(&timer->handle);
        return was_active;
    }

    void purge() {}

    void expire_all(kit::Tally &into) {
        tally = &into;
        uv_run(&loop, UV_RUN_NOWAIT);
        set_back();
    }

    uint64_t size() {
        uint64_t count = 0;
        for (auto &timer : timers)
            count += uv_is_active(reinterpret_cast<uv_handle_t *>(&timer.handle)) != 0;
        return count;
    }

private:
    static void on_expire(uv_timer_t *handle) {
        auto *timer = reinterpret_cast<Timer *>(handle);
        static_cast<Loop *>(handle->data)->tally->expire(timer->deadline_ns, timer->id);
    }

    // The loop reads the machine's clock when it runs. So timers are started at a
    // time that is further back than the window, and all are due.
    void set_back() {
        uv_update_time(&loop);
        loop.time = loop.time > 120'000 ? loop.time - 120'000 : 0;
    }

    uv_loop_t loop;
    std::vector<Timer> timers;
    kit::Tally *tally = nullptr;
};

/// The memory of each piece of work is the caller's, as is that of the timers. The loop hears of the ends in the end.
void run_external(const kit::Args &args) {
    static std::atomic<uint64_t> counter{0};
    setenv("UV_THREADPOOL_SIZE", std::to_string(args.number("workers")).c_str(), 1);
    const uint64_t n = args.number("n");
    std::vector<uv_work_t> works(n);
    uv_loop_t loop;
    uv_loop_init(&loop);
    const auto begin = kit::Clock::now();
    for (auto &work : works)
        uv_queue_work(&loop, &work, [](uv_work_t *) { counter.fetch_add(1, std::memory_order_relaxed); }, nullptr);
    while (counter < n)
        std::this_thread::yield();
    kit::Output output;
    output.figure("tasks_per_s", double(n) / kit::seconds_since(begin));
    output.check("counter", counter);
    output.finish();
    std::_Exit(0);
}

} // namespace

int main(int argc, char **argv) {
    kit::Args args(argc, argv);
    if (args.plain(0) == "pool-external")
        run_external(args);
    if (args.plain(0) != "timers")
        kit::refuse("no scenario " + args.plain(0));
    Loop loop(args.number("n"));
    kit::run_timers(args, loop);
}
