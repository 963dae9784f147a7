// Busyhour as a C program uses it.
#include "scenarios.hpp"

namespace {

/// `timers` with the queue alone, which is exact by deadline, then by insertion.
class Timers {
public:
    Timers() { must(bh_timer_queue_new(&queue)); }

    uint64_t add(uint64_t deadline_ns, uint64_t id) {
        uint64_t handle;
        must(bh_timer_queue_add(queue, deadline_ns, reinterpret_cast<void *>(id), &handle));
        return handle;
    }

    bool cancel(uint64_t handle) { return bh_timer_queue_cancel(queue, handle, nullptr) == BH_OK; }

    void purge() {}

    void expire_all(kit::Tally &tally) {
        bh_due_entry due[64];
        size_t count;
        do {
            must(bh_timer_queue_drain_due(queue, UINT64_MAX, due, 64, &count));
            for (size_t i = 0; i < count; i++)
                tally.expire(due[i].deadline_ns, reinterpret_cast<uint64_t>(due[i].entry));
        } while (count > 0);
    }

    uint64_t size() { return bh_timer_queue_len(queue); }

private:
    bh_timer_queue *queue;
};

} // namespace

int main(int argc, char **argv) {
    kit::Args args(argc, argv);
    const std::string scenario = args.plain(0);
    if (scenario == "timers") {
        Timers timers;
        kit::run_timers(args, timers);
    } else if (scenario == "pool-requeue")
        run_pool_requeue(args);
    else if (scenario == "pool-external")
        run_pool_external(args);
    else if (scenario == "serializer-pingpong")
        run_pingpong(args);
    else if (scenario == "buffers")
        run_buffers(args);
    else
        kit::refuse("no scenario " + scenario);
}
