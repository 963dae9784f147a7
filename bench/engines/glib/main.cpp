// GLib's thread pool.
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

} // namespace

int main(int argc, char **argv) {
    kit::Args args(argc, argv);
    Pool pool(args.number("workers"));
    if (args.plain(0) == "pool-requeue")
        kit::run_requeue(args, pool);
    if (args.plain(0) == "pool-external")
        kit::run_external(args, pool);
    kit::refuse("no scenario " + args.plain(0));
}
