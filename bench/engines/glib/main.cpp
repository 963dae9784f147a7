// GLib's thread pool, and the timers of its main loop.
#include "kit.hpp"
#include <glib.h>

namespace {

class Pool {
public:
    explicit Pool(uint64_t workers) {
        pool = g_thread_pool_new(run, nullptr, int(workers), TRUE, nullptr);
    }

    template <class F> void push(F task) {
        g_thread_pool_push(pool, new std::function<void()>(std::move(task)), nullptr);
    }

private:
    static void run(gpointer data, gpointer) {
        std::unique_ptr<std::function<void()>> task(static_cast<std::function<void()> *>(data));
        (*task)();
    }

    GThreadPool *pool;
};

/// One source for each timer, with a ready time in microseconds. What is due is dispatched by priority, then by the order in
/// which it was added.
class Sources {
public:
    Sources() { context = g_main_context_new(); }

    GSource *add(uint64_t deadline_ns, uint64_t id) {
        static GSourceFuncs functions = {nullptr, nullptr, dispatch, nullptr, nullptr, nullptr};
        auto *source = g_source_new(&functions, sizeof(Source));
        reinterpret_cast<Source *>(source)->set(this, deadline_ns, id);
        // Further back than the window: all are due when they are asked for.
        g_source_set_ready_time(source, base + gint64(deadline_ns / 1000));
        g_source_attach(source, context);
        live++;
        return source;
    }

    bool cancel(GSource *source) {
        const bool was_live = !g_source_is_destroyed(source);
        g_source_destroy(source);
        g_source_unref(source);
        live -= was_live;
        return was_live;
    }

    void purge() {}

    void expire_all(kit::Tally &into) {
        tally = &into;
        while (live > 0)
            g_main_context_iteration(context, FALSE);
    }

    uint64_t size() const { return live; }

private:
    struct Source {
        GSource source;
        Sources *owner;
        uint64_t deadline_ns, id;

        void set(Sources *of, uint64_t due_ns, uint64_t number) {
            owner = of;
            deadline_ns = due_ns;
            id = number;
        }
    };

    static gboolean dispatch(GSource *source, GSourceFunc, gpointer) {
        auto *timer = reinterpret_cast<Source *>(source);
        timer->owner->tally->expire(timer->deadline_ns, timer->id);
        timer->owner->live--;
        g_source_unref(source);
        return G_SOURCE_REMOVE;
    }

    GMainContext *context;
    gint64 base = g_get_monotonic_time() - 120'000'000;
    kit::Tally *tally = nullptr;
    uint64_t live = 0;
};

} // namespace

int main(int argc, char **argv) {
    kit::Args args(argc, argv);
    if (args.plain(0) == "timers") {
        Sources sources;
        kit::run_timers(args, sources);
        return 0;
    }
    Pool pool(args.number("workers"));
    if (args.plain(0) == "pool-requeue")
        kit::run_requeue(args, pool);
    if (args.plain(0) == "pool-external")
        kit::run_external(args, pool);
    kit::refuse("no scenario " + args.plain(0));
}
