// Each callback of the ABI throws, forks, frees every handle, cancels everything, and shuts everything down:
//
//     hostile_matrix list              what there is a scenario for: FUNCTION CALLBACK, a line each
//     hostile_matrix run MODE <LIST    each callback of such a list in this mode, in a process of its own
//     hostile_matrix one MODE FUNCTION CALLBACK
//
// The test makes the list from the header, so that none is forgotten.
#include "misbehave.hpp"

#include <cstring>
#include <iostream>
#include <set>

// The callback that is hostile in this run, or that is to be listed.
static std::string chosen;
static bool lists;

static bool is_chosen(const char *callback) {
  static std::set<std::string> listed;
  if (lists && listed.insert(callback).second) std::printf("%s %s\n", chosen.c_str(), callback);
  return chosen == callback;
}

template <class F> static F call(const char *callback) {
  return is_chosen(callback) ? Callback<F>::hostile : Callback<F>::quiet;
}
static bh_drop_fn gone(const char *callback) { return is_chosen(callback) ? hostile_drop : free_data; }

static void run() { bh_simulation_run_for(world.runtime, 1000); }

static void spare(void *handle) { spared.push_back(handle); }

template <class Options> static Options sized() {
  Options options = {};
  options.size = sizeof options;
  return options;
}

// ---- What makes each callback run. `run` and `drop` of one function are in one scenario.

static void pool_push() {
  bh_pool_push(world.pool, call<bh_run_fn>("run"), fresh_data(), gone("drop"));
  run();
}

static void pool_push_wait() { bh_pool_push_wait(world.pool, call<bh_run_fn>("run"), fresh_data(), gone("drop")); }

static void pool_blocking() { bh_pool_blocking(world.pool, call<bh_run_fn>("run"), fresh_data(), gone("drop")); }

// What a shutdown leaves: tasks that have not run.
static void leave_tasks() { OK(bh_serializer_push(world.serializer, do_nothing, fresh_data(), free_data)); }

static void pool_shutdown_each() {
  leave_tasks();
  bh_pool_shutdown_each(world.pool, 0, call<bh_leftover_each_fn>("each"), nullptr, nullptr);
}

static void group_shutdown_each() {
  leave_tasks();
  bh_group_shutdown_each(world.group, 0, call<bh_leftover_each_fn>("each"), nullptr, nullptr);
}

static void runtime_shutdown_each() {
  leave_tasks();
  bh_runtime_shutdown_each(world.runtime, 0, call<bh_leftover_each_fn>("each"), nullptr, nullptr);
}

static void pool_spawn() {
  give_up(world.join, bh_join_free);
  bh_pool_spawn(world.pool, call<bh_poll_fn>("poll"), fresh_data(), gone("drop"), &world.join);
  run();
}

static void serializer_spawn() {
  give_up(world.suspension, bh_suspension_free);
  give_up(world.join, bh_join_free);
  bh_serializer_spawn(world.serializer, call<bh_poll_fn>("poll"), fresh_data(), gone("drop"), &world.join);
  run();
}

template <class Push> static void push_to_serializer(Push push) {
  give_up(world.suspension, bh_suspension_free);
  push(world.serializer, call<bh_run_fn>("run"), fresh_data(), gone("drop"));
  run();
}
static void serializer_push() { push_to_serializer(bh_serializer_push); }
static void serializer_try_push() { push_to_serializer(bh_serializer_try_push); }
static void serializer_push_wait() { push_to_serializer(bh_serializer_push_wait); }
static void serializer_push_keyed() {
  push_to_serializer([](auto *to, auto... task) { return bh_serializer_push_keyed(to, 1, task...); });
}

static void buffers_each() { bh_buffers_each(world.buffers, call<bh_buffer_each_fn>("each"), nullptr); }
static void buffers_owners() { bh_buffers_owners(world.buffers, call<bh_owner_each_fn>("each"), nullptr); }
static void pool_list() { bh_pool_list(world.pool, call<bh_serializer_each_fn>("each"), nullptr); }

static void make_threads(const bh_pool_options *options) { OK(bh_pool_new(options, &world.with_threads)); }

static void pool_list_workers() {
  bh_pool_options options = sized<bh_pool_options>();
  options.workers = 1;
  make_threads(&options);
  bh_pool_list_workers(world.with_threads, call<bh_worker_each_fn>("each"), nullptr);
}

// The heap is the running call's own in each comparison.
static void heap_new() {
  give_up(world.heap, bh_heap_free);
  OK(bh_heap_new(call<bh_compare_fn>("compare"), fresh_data(), gone("drop"), &world.heap));
  spare(world.heap);
  for (int i = 0; i < 3; i++) bh_heap_push(world.heap, &world, nullptr);
}

static bh_task *taken;
static int32_t take(bh_task *task, void *) {
  taken = task;
  return 0;
}
static int32_t take_and_misbehave(bh_task *task, void *) {
  taken = task;
  misbehave();
  return 0;
}

static void executor_new() {
  give_up(world.on, bh_executor_free);
  OK(bh_executor_new(is_chosen("execute") ? take_and_misbehave : take, fresh_data(), gone("drop"), &world.on));
  OK(bh_timers_after(world.timers, 1, world.on, do_nothing, fresh_data(), free_data, nullptr));
  run();
  if (taken) bh_task_run(taken);
}

static void timers_after() {
  bh_timers_after(world.timers, 1, world.on, call<bh_run_fn>("run"), fresh_data(), gone("drop"), &world.timer);
  give_up(world.suspension, bh_suspension_free);
  run();
}

// On the thread that delivers.
static bh_timer_options soon() {
  bh_timer_options options = sized<bh_timer_options>();
  options.delay_ns = 1;
  return options;
}

static void timers_add() {
  bh_timer_options options = soon();
  options.period_ns = 100;
  bh_timers_add(world.timers, &options, nullptr, call<bh_run_fn>("run"), fresh_data(), gone("drop"), &world.timer);
  run();
}

static void timers_add_variable() {
  bh_timer_options options = soon();
  bh_timers_add_variable(world.timers, &options, nullptr, call<bh_next_delay_fn>("run"), fresh_data(), gone("drop"), &world.timer);
  run();
}

static void timers_replace() {
  bh_timer_options options = soon();
  bh_cancel cancel;
  bh_timers_replace(world.timers, &world.timer, &options, nullptr, call<bh_run_fn>("run"), fresh_data(), gone("drop"), &cancel);
  run();
}

static void timers_replace_variable() {
  bh_timer_options options = soon();
  bh_cancel cancel;
  bh_timers_replace_variable(world.timers, &world.timer, &options, nullptr, call<bh_next_delay_fn>("run"), fresh_data(), gone("drop"), &cancel);
  run();
}

static void timers_cancel_where() { bh_timers_cancel_where(world.timers, call<bh_timer_wanted_fn>("is_wanted"), nullptr, nullptr); }
static void timers_list() { bh_timers_list(world.timers, call<bh_timer_each_fn>("each"), nullptr); }
static void timers_get() { bh_timers_get(world.timers, world.timer, call<bh_timer_each_fn>("each"), nullptr); }
static void timers_labels() { bh_timers_labels(world.timers, call<bh_label_each_fn>("each"), nullptr); }

// Whoever waits for the next deadline hears of an earlier one.
static void timers_on_earlier() {
  uint64_t wait;
  give_up(world.timers, bh_timers_free);
  OK(bh_timers_new(nullptr, &world.timers));
  OK(bh_timers_after(world.timers, SECONDS(60), nullptr, do_nothing, nullptr, nullptr, &world.timer));
  OK(bh_timers_next_wait(world.timers, &wait));
  OK(bh_timers_on_earlier(world.timers, call<bh_run_fn>("hook"), fresh_data(), gone("drop")));
  bh_timers_after(world.timers, 1000, nullptr, do_nothing, nullptr, nullptr, nullptr);
}

static int object;

static void topic_publish() {
  spare(world.objects);
  // Replaced values are dropped some time after.
  for (int i = 0; i < 200 && world.objects; i++) bh_topic_publish(world.objects, fresh_data(), gone("drop"), nullptr);
}

static void topic_find() {
  bh_event *found;
  if (bh_topic_find(world.topic, call<bh_event_wanted_fn>("is_wanted"), nullptr, &found) == BH_OK) bh_event_free(found);
}
static void topic_each() { bh_topic_each(world.topic, call<bh_event_wanted_fn>("each"), nullptr); }
static void topic_remove_where() { bh_topic_remove_where(world.topic, call<bh_event_wanted_fn>("is_wanted"), nullptr, nullptr); }

static void event_of_object() {
  bh_event *made;
  spare(world.objects);
  OK(bh_event_of_object(world.objects, fresh_data(), gone("drop"), &made));
  bh_event_free(made);
}

static void publish() { bh_topic_publish_record(world.topic, world.record, nullptr); }

static void attribute_new() {
  bh_subscription_options options = sized<bh_subscription_options>();
  give_up(world.subscription, bh_subscription_free);
  OK(bh_attribute_new(call<bh_attribute_fn>("of"), fresh_data(), gone("drop"), &world.attribute));
  options.attribute = world.attribute;
  options.attribute_number = 1;
  OK(bh_topic_subscribe(world.topic, &options, Callback<bh_delivery_fn>::quiet, nullptr, nullptr, &world.subscription));
  publish();
}

static void topic_subscribe() {
  give_up(world.subscription, bh_subscription_free);
  OK(bh_topic_subscribe(world.topic, nullptr, call<bh_delivery_fn>("receive"), fresh_data(), gone("drop"), &world.subscription));
  publish();
}

static void topic_subscriptions() { bh_topic_subscriptions(world.topic, call<bh_subscription_each_fn>("each"), nullptr); }
static void runtime_subscriptions() { bh_runtime_subscriptions(world.runtime, call<bh_subscription_each_fn>("each"), nullptr); }

static std::atomic<bool> hold;
static void wait_for_release(void *) {
  while (hold) usleep(100);
}

// Its tasks wait, so that more than the watermark do.
static void pool_options() {
  bh_pool_options options = sized<bh_pool_options>();
  options.workers = 1;
  options.high_watermark = 4;
  options.low_watermark = 1;
  options.on_alert = call<bh_pool_alert_fn>("on_alert");
  options.on_alert_data = fresh_data();
  options.on_alert_drop = gone("on_alert_drop");
  options.on_thread_start = call<bh_run_fn>("on_thread_start");
  options.on_thread_start_data = fresh_data();
  options.on_thread_start_drop = gone("on_thread_start_drop");
  options.on_thread_stop = call<bh_run_fn>("on_thread_stop");
  options.on_thread_stop_data = fresh_data();
  options.on_thread_stop_drop = gone("on_thread_stop_drop");
  hold = true;
  bh_pool *made;
  OK(bh_pool_new(&options, &made));
  spare(world.with_threads = made);
  // Its hooks may have freed it or shut it down on their thread: no longer ours then.
  for (int i = 0; i < 8; i++) bh_pool_push(made, wait_for_release, fresh_data(), free_data);
  hold = false;
  bh_pool_shutdown(made, LONG, nullptr);
}

static void serializer_options() {
  bh_serializer_options options = sized<bh_serializer_options>();
  options.name = "watched";
  options.high_watermark = 2;
  options.low_watermark = 1;
  options.on_alert = call<bh_queue_alert_fn>("on_alert");
  options.on_alert_data = fresh_data();
  options.on_alert_drop = gone("on_alert_drop");
  give_up(world.suspension, bh_suspension_free);
  give_up(world.serializer, bh_serializer_free);
  OK(bh_serializer_new(world.pool, &options, &world.serializer));
  spare(world.serializer);
  for (int i = 0; i < 4; i++) bh_serializer_push(world.serializer, do_nothing, fresh_data(), free_data);
  run();
}

static uint64_t same_hash(const void *, void *) { return 7; }
static uint64_t same_hash_and_misbehave(const void *, void *) {
  misbehave();
  return 7;
}

// Two nodes say something of one key.
static void topic_options() {
  bh_topic_options options = sized<bh_topic_options>();
  options.node = 1;
  options.hash = is_chosen("hash") ? same_hash_and_misbehave : same_hash;
  options.equal = call<bh_equal_fn>("equal");
  options.fold = call<bh_fold_fn>("fold");
  options.fold_data = fresh_data();
  options.fold_drop = gone("fold_drop");
  give_up(world.objects, bh_topic_free);
  OK(bh_topic_new(world.runtime, &options, &world.objects));
  bh_topic *given_topic = world.objects;
  spare(given_topic);
  bh_event *made;
  for (uint64_t node = 1; node <= 2; node++) {
    OK(bh_event_of_object(given_topic, &object, nullptr, &made));
    bh_topic_publish_from(given_topic, node, made, nullptr);
    bh_event_free(made);
  }
}

static void subscription_options() {
  bh_subscription_options options = sized<bh_subscription_options>();
  options.is_wanted = call<bh_event_wanted_fn>("is_wanted");
  options.is_wanted_data = fresh_data();
  options.is_wanted_drop = gone("is_wanted_drop");
  give_up(world.subscription, bh_subscription_free);
  OK(bh_topic_subscribe(world.topic, &options, Callback<bh_delivery_fn>::quiet, nullptr, nullptr, &world.subscription));
  publish();
}

static const struct {
  const char *function;
  void (*scenario)();
} scenarios[] = {
    {"bh_buffers_each", buffers_each},
    {"bh_buffers_owners", buffers_owners},
    {"bh_heap_new", heap_new},
    {"bh_pool_push", pool_push},
    {"bh_pool_push_wait", pool_push_wait},
    {"bh_pool_blocking", pool_blocking},
    {"bh_pool_shutdown_each", pool_shutdown_each},
    {"bh_group_shutdown_each", group_shutdown_each},
    {"bh_pool_spawn", pool_spawn},
    {"bh_serializer_spawn", serializer_spawn},
    {"bh_serializer_push", serializer_push},
    {"bh_serializer_try_push", serializer_try_push},
    {"bh_serializer_push_keyed", serializer_push_keyed},
    {"bh_serializer_push_wait", serializer_push_wait},
    {"bh_pool_list", pool_list},
    {"bh_pool_list_workers", pool_list_workers},
    {"bh_executor_new", executor_new},
    {"bh_timers_after", timers_after},
    {"bh_timers_add", timers_add},
    {"bh_timers_add_variable", timers_add_variable},
    {"bh_timers_replace", timers_replace},
    {"bh_timers_replace_variable", timers_replace_variable},
    {"bh_timers_cancel_where", timers_cancel_where},
    {"bh_timers_list", timers_list},
    {"bh_timers_get", timers_get},
    {"bh_timers_labels", timers_labels},
    {"bh_timers_on_earlier", timers_on_earlier},
    {"bh_runtime_shutdown_each", runtime_shutdown_each},
    {"bh_topic_publish", topic_publish},
    {"bh_topic_find", topic_find},
    {"bh_topic_each", topic_each},
    {"bh_topic_remove_where", topic_remove_where},
    {"bh_event_of_object", event_of_object},
    {"bh_attribute_new", attribute_new},
    {"bh_topic_subscribe", topic_subscribe},
    {"bh_topic_subscriptions", topic_subscriptions},
    {"bh_runtime_subscriptions", runtime_subscriptions},
    {"bh_pool_options", pool_options},
    {"bh_serializer_options", serializer_options},
    {"bh_topic_options", topic_options},
    {"bh_subscription_options", subscription_options},
};

static void make_world() {
  OK(bh_runtime_simulated(7, &world.runtime));
  OK(bh_runtime_pool(world.runtime, &world.pool));
  OK(bh_runtime_timers(world.runtime, &world.timers));
  bh_buffers *buffers;
  OK(bh_runtime_buffers(world.runtime, &buffers));
  OK(bh_buffers_owned_by(buffers, "the world", &world.buffers));
  bh_buffers_free(buffers);
  OK(bh_buffers_find(world.buffers, 100, &world.buffer));
  OK(bh_group_new(&world.group));
  OK(bh_alert_group_new(&world.alerts));
  bh_serializer_options of_serializer = sized<bh_serializer_options>();
  of_serializer.name = "one";
  of_serializer.group = world.group;
  of_serializer.alert_group = world.alerts;
  OK(bh_serializer_new(world.pool, &of_serializer, &world.serializer));
  OK(bh_serializer_suspend(world.serializer, &world.suspension));
  of_serializer = sized<bh_serializer_options>();
  of_serializer.name = "kind";
  OK(bh_template_new(world.pool, &of_serializer, &world.kind));
  OK(bh_executor_of_serializer(world.serializer, &world.on));
  OK(bh_heap_new(Callback<bh_compare_fn>::quiet, fresh_data(), free_data, &world.heap));
  bh_topic_options of_topic = sized<bh_topic_options>();
  of_topic.cached = 1;
  of_topic.name = "records";
  OK(bh_topic_new(world.runtime, &of_topic, &world.topic));
  of_topic.name = "objects";
  of_topic.hash = same_hash;
  of_topic.equal = Callback<bh_equal_fn>::quiet;
  OK(bh_topic_new(world.runtime, &of_topic, &world.objects));
  OK(bh_record_new(1, "alice", &world.record));
  OK(bh_event_of_record(world.record, &world.event));
  OK(bh_topic_subscribe(world.topic, nullptr, Callback<bh_delivery_fn>::quiet, fresh_data(), free_data, &world.subscription));
  bh_topic *target;
  OK(bh_topic_new(nullptr, nullptr, &target));
  OK(bh_topic_forward(world.topic, target, &world.forward));
  bh_topic_free(target);
  publish();
  OK(bh_timers_after(world.timers, SECONDS(60), nullptr, do_nothing, fresh_data(), free_data, &world.timer));
  OK(bh_pool_spawn(world.pool, [](const bh_waker *, uint64_t *, void *) -> int32_t { return 0; }, fresh_data(), free_data, &world.join));
  run();
}

static int run_one(const Mode &of, const char *function, const char *callback) {
  mode = &of;
  chosen = callback;
  for (auto &one : scenarios) {
    if (std::strcmp(one.function, function) != 0) continue;
    make_world();
    one.scenario();
    spared.clear();
    free_all();
    for (int spin = 0; (freed != given || called == 0) && spin < 6000000; spin++) usleep(100);
    CHECK(called > 0 && freed == given);
    return 0;
  }
  std::fprintf(stderr, "no scenario for %s\n", function);
  return 2;
}

static void list() {
  lists = true;
  for (auto &one : scenarios) {
    // In a process of its own, as a run is.
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      chosen = one.function;
      make_world();
      one.scenario();
      std::fflush(stdout);
      _exit(0);
    }
    CHECK(has_ended_well(child));
  }
}

// One in each process. The exception ends it with a message.
static bool holds(const Mode &of, const char *function, const char *callback) {
  int said[2];
  CHECK(pipe(said) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const bool throws = std::strcmp(of.name, "throw") == 0;
    if (throws) dup2(said[1], 2);
    close(said[0]);
    close(said[1]);
    std::exit(run_one(of, function, callback));
  }
  close(said[1]);
  std::string text;
  char part[512];
  for (ssize_t got; (got = read(said[0], part, sizeof part)) > 0;) text.append(part, size_t(got));
  close(said[0]);
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  const bool throws = std::strcmp(of.name, "throw") == 0;
  const bool as_said = throws ? WIFSIGNALED(status) && WTERMSIG(status) == 6 && text.find("an exception has left a callback") != text.npos
                              : WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!as_said) std::fprintf(stderr, "%s %s %s: status %#x\n%s", of.name, function, callback, unsigned(status), text.c_str());
  return as_said;
}

int main(int count, char **words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments == std::vector<std::string>{"list"}) return list(), 0;
  const auto find = [](const std::string &name) -> const Mode & {
    for (auto &one : modes)
      if (one.name == name) return one;
    std::exit(2);
  };
  if (arguments.size() == 4 && arguments[0] == "one")
    return run_one(find(arguments[1]), arguments[2].c_str(), arguments[3].c_str());
  if (arguments.size() != 2 || arguments[0] != "run") return 2;
  // What to run, as `list` gives it: FUNCTION CALLBACK, a line each.
  std::vector<std::pair<std::string, std::string>> callbacks;
  for (std::string function, callback; std::cin >> function >> callback;) callbacks.emplace_back(function, callback);
  // Once here, so that valgrind, which the children inherit, has translated most of it.
  make_world();
  free_all();
  CHECK(freed == given);
  int failed = 0;
  for (auto &[function, callback] : callbacks) failed += !holds(find(arguments[1]), function.c_str(), callback.c_str());
  std::printf("%s: %zu callbacks, %d not as they should be\n", arguments[1].c_str(), callbacks.size(), failed);
  return callbacks.empty() || failed > 0;
}
