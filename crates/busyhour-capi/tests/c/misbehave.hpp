// What the callbacks of hostile_matrix.cpp do: a world of one handle of each kind, and the ways to misbehave in it.
#pragma once

#include "check.h"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Frees a handle once: what it leads to may call back into `free_all`.
template <class T> void give_up(T *&handle, void (*free)(T *)) {
  if (handle) free(std::exchange(handle, nullptr));
}

// In a simulation, so that nothing waits for another thread; only the hooks of threads need some.
struct World {
  bh_runtime *runtime = nullptr;
  bh_pool *pool = nullptr, *with_threads = nullptr;
  bh_timers *timers = nullptr;
  bh_buffers *buffers = nullptr;
  bh_serializer *serializer = nullptr;
  bh_suspension *suspension = nullptr;
  bh_template *kind = nullptr;
  bh_group *group = nullptr;
  bh_alert_group *alerts = nullptr;
  bh_executor *on = nullptr;
  bh_heap *heap = nullptr;
  bh_topic *topic = nullptr, *objects = nullptr;
  bh_subscription *subscription = nullptr;
  bh_forward *forward = nullptr;
  bh_attribute *attribute = nullptr;
  bh_join *join = nullptr;
  bh_event *event = nullptr;
  bh_record *record = nullptr;
  bh_timer timer = {};
  void *buffer = nullptr;
};
static World world;

// Of the running call, which its callback must not free: of a `drop`, an alert, a comparison, and what computes keys.
static std::vector<void *> spared;

static void free_all() {
  // Nobody could later.
  if (world.buffers) bh_buffers_unpin(world.buffers, world.buffer);
  const auto free = [](auto *&handle, auto give) {
    for (void *one : spared)
      if (one == handle) return;
    give_up(handle, give);
  };
  free(world.runtime, bh_runtime_free);
  free(world.suspension, bh_suspension_free);
  free(world.serializer, bh_serializer_free);
  free(world.kind, bh_template_free);
  free(world.group, bh_group_free);
  free(world.alerts, bh_alert_group_free);
  free(world.on, bh_executor_free);
  free(world.forward, bh_forward_free);
  free(world.subscription, bh_subscription_free);
  free(world.attribute, bh_attribute_free);
  free(world.event, bh_event_free);
  free(world.record, bh_record_free);
  free(world.topic, bh_topic_free);
  free(world.objects, bh_topic_free);
  free(world.join, bh_join_free);
  free(world.heap, bh_heap_free);
  free(world.timers, bh_timers_free);
  free(world.with_threads, bh_pool_free);
  free(world.pool, bh_pool_free);
  free(world.buffers, bh_buffers_free);
}

// Every data of a callback is freed once.
static std::atomic<int> given, freed;
static void *fresh_data() { return given++, std::malloc(8); }
static void free_data(void *data) {
  freed++;
  std::free(data);
}

static void do_nothing(void *) {}

static void cancel_all() {
  bh_cancel cancel;
  bh_timers_cancel_and_wait(world.timers, world.timer, &cancel);
  bh_timers_cancel_where(world.timers, [](const bh_pending_timer *, void *) { return 1; }, nullptr, nullptr);
  bh_join_abort(world.join);
  give_up(world.subscription, bh_subscription_free);
  give_up(world.forward, bh_forward_free);
  give_up(world.suspension, bh_suspension_free);
  bh_buffers_unpin(world.buffers, world.buffer);
  bh_published published;
  bh_topic_remove_where(world.topic, [](const bh_event *, void *) { return 1; }, nullptr, &published);
}

static void shut_all_down() {
  bh_shutdown_report report;
  bh_group_shutdown(world.group, 0, &report);
  bh_timers_close(world.timers, nullptr);
  bh_pool_shutdown(world.with_threads, 0, &report);
  bh_runtime_shutdown(world.runtime, 0, &report);
  bh_pool_shutdown(world.pool, 0, &report);
}

// A child has the handles, but no thread: it is refused, and frees nothing of them.
static void fork_here() {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const int before = freed;
    size_t count;
    const bh_result pushed = bh_pool_push(world.pool, do_nothing, fresh_data(), free_data);
    CHECK(pushed == (world.pool ? BH_FORKED : BH_NULL) && freed == before + 1);
    // Those that are freed by now are NULL.
    const auto refused = [](const void *handle, bh_result result) { CHECK(result == (handle ? BH_FORKED : BH_NULL)); };
    refused(world.serializer, bh_serializer_push(world.serializer, do_nothing, nullptr, nullptr));
    refused(world.timers, bh_timers_run_due(world.timers, &count));
    if (world.record) refused(world.topic, bh_topic_publish_record(world.topic, world.record, nullptr));
    refused(world.buffers, bh_buffers_pin(world.buffers, world.buffer));
    refused(world.runtime, bh_simulation_run_for(world.runtime, 1));
    refused(world.join, bh_join_wait(world.join, nullptr));
    spared.push_back(world.heap); // it goes on working, and may be in a comparison
    free_all();
    _exit(0);
  }
  CHECK(has_ended_well(child));
}

struct Mode {
  const char *name;
  void (*misbehave)();
};
static const Mode modes[] = {
    {"throw", [] { throw std::runtime_error("out of a callback"); }},
    {"fork", fork_here},
    {"free", free_all},
    {"cancel", cancel_all},
    {"shut-down", shut_all_down},
};

// The one of this run, and how often the hostile callback was called. It misbehaves the first time.
static const Mode *mode;
static std::atomic<int> called;
static void misbehave() {
  if (called++ == 0) mode->misbehave();
}

template <class R> R usual() { return R(1); } // goes on, is wanted, has finished
template <> inline void usual<void>() {}
template <> inline bh_event *usual<bh_event *>() { return nullptr; } // the first state

// A callback of any type that misbehaves, and one that does not.
template <class F> struct Callback;
template <class R, class... A> struct Callback<R (*)(A...)> {
  static R hostile(A...) {
    misbehave();
    return usual<R>();
  }
  static R quiet(A...) { return usual<R>(); }
};

static void hostile_drop(void *data) {
  free_data(data);
  misbehave();
}
