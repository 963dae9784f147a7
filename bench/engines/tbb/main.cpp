// oneTBB: a task group inside an arena, an arena that is enqueued into, and serial nodes of a flow graph.
#include "kit.hpp"
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

namespace {

/// Tasks of one group, pushed by its own tasks.
struct Group {
    explicit Group(int workers) : arena(workers, 0) {}
    template <class F> void push(F task) {
        arena.execute([&] { group.run(std::move(task)); });
    }
    tbb::task_arena arena;
    tbb::task_group group;
};

/// The same for pushes from inside the arena.
struct Inside {
    template <class F> void push(F task) { outer->group.run(std::move(task)); }
    Group *outer;
};

struct Arena {
    explicit Arena(int workers) : arena(workers, 0) {}
    template <class F> void push(F task) { arena.enqueue(std::move(task)); }
    tbb::task_arena arena;
};

/// A node of a flow graph that runs one task at a time, in the order in which it got them.
struct Node {
    using Task = std::shared_ptr<std::function<void()>>;
    explicit Node(tbb::flow::graph &graph)
        : node(graph, tbb::flow::serial, [](const Task &task) { (*task)(); return tbb::flow::continue_msg(); }) {}
    template <class F> void push(F task) { node.try_put(std::make_shared<std::function<void()>>(std::move(task))); }
    tbb::flow::function_node<Task, tbb::flow::continue_msg> node;
};

void requeue_in_group(const kit::Args &args, Group &group) {
    static kit::Load load;
    static Inside inside{&group};
    for (int i = 0; i < 200; i++)
        group.push([] { kit::again(inside, load, 1); });
    const double rate = load.let_run(args.number("ms"));
    load.wait_for(200);
    load.report(rate);
}

} // namespace

int main(int argc, char **argv) {
    kit::Args args(argc, argv);
    const std::string variant = args.plain(0), scenario = args.plain(1);
    const int workers = int(args.number("workers"));
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, size_t(workers) + 1);
    if (variant == "group" && scenario == "pool-requeue") {
        static Group group(workers);
        requeue_in_group(args, group);
    }
    static Arena arena(workers);
    if (variant == "arena" && scenario == "pool-requeue")
        kit::run_requeue(args, arena);
    if (variant == "arena" && scenario == "pool-external")
        kit::run_external(args, arena);
    if (variant == "graph" && scenario == "serializer-pingpong")
        arena.arena.execute([&] {
            static tbb::flow::graph graph;
            kit::run_pingpong<Node>(args, [] { return std::make_unique<Node>(graph); });
        });
    kit::refuse(variant + " does not do " + scenario);
}
