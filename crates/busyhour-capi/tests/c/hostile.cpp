// Callbacks that do what a callback should not: each mode of this program is one.
#include "check.h"

#include <busyhour.hpp>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <thread>

static bh_pool *pool;
static bh_serializer *serializer;
static bh_executor *on;
static bh_timers *timers;
static bh_timer timer;
static atomic_long dropped, done;

static void count_drop(void *) { dropped++; }

static void make_pool(uint32_t workers) {
  bh_pool_options options = {};
  options.size = sizeof options;
  options.workers = workers;
  OK(bh_pool_new(&options, &pool));
}

static void end_pool() {
  bh_shutdown_report report;
  OK(bh_pool_shutdown(pool, LONG, &report));
  CHECK(report.unfinished_workers == 0);
  bh_pool_free(pool);
}

// Frees the handles of what runs it, and of its own timer service, from inside.
static void frees_its_handles(void *) {
  bh_serializer_free(serializer);
  bh_executor_free(on);
  bh_timers_free(timers);
  done++;
}

static void free_own_handle() {
  make_pool(1);
  OK(bh_serializer_new(pool, nullptr, &serializer));
  OK(bh_executor_of_serializer(serializer, &on));
  OK(bh_timers_new(nullptr, &timers));
  OK(bh_timers_spawn_driver(timers));
  OK(bh_timers_after(timers, 1000, on, frees_its_handles, nullptr, count_drop, &timer));
  await(&done, 1);
  await(&dropped, 1);
  end_pool();
}

// The last handles of a pool, from its only worker.
static void frees_the_pool(void *) {
  bh_pool_free(pool);
  done++;
}

static void free_own_pool() {
  make_pool(1);
  OK(bh_pool_push(pool, frees_the_pool, nullptr, count_drop));
  await(&dropped, 1);
  CHECK(done == 1);
  // The worker ends in the background.
  usleep(50000);
}

// In the thread that calls: the handle of the running call goes.
static void frees_the_service(void *) {
  bh_timers_free(timers);
  done++;
}

static void free_in_run_due() {
  bh_timers_options options = {};
  options.size = sizeof options;
  options.virtual_time = 1;
  OK(bh_timers_new(&options, &timers));
  for (int i = 0; i < 3; i++) OK(bh_timers_after(timers, i == 0 ? 1 : 2, nullptr, i == 0 ? frees_the_service : count_drop, nullptr, count_drop, nullptr));
  OK(bh_timers_advance(timers, 1));
  OK(bh_timers_run_due(timers, nullptr));
  CHECK(done == 1 && dropped == 3); // the others were dropped, not run
}

static void cancels_itself(void *) {
  bh_cancel result;
  OK(bh_timers_cancel_and_wait(timers, timer, &result));
  CHECK(result == BH_CANCEL_RUNNING);
  done++;
}

static void cancel_itself() {
  bh_timers_options options = {};
  options.size = sizeof options;
  options.virtual_time = 1;
  bh_timer_options every = {};
  every.size = sizeof every;
  every.period_ns = 5;
  OK(bh_timers_new(&options, &timers));
  OK(bh_timers_add(timers, &every, nullptr, cancels_itself, nullptr, count_drop, &timer));
  for (int i = 0; i < 50; i++) {
    OK(bh_timers_advance(timers, 1));
    OK(bh_timers_run_due(timers, nullptr));
  }
  CHECK(done == 1 && dropped == 1);
  bh_timers_free(timers);
}

static void shuts_down(void *) {
  bh_shutdown_report report;
  OK(bh_pool_shutdown(pool, LONG, &report));
  CHECK(report.not_run == 0);
  done++;
}

static void shut_down_inside() {
  make_pool(2);
  OK(bh_serializer_new(pool, nullptr, &serializer));
  OK(bh_serializer_push(serializer, shuts_down, nullptr, count_drop));
  await(&dropped, 1);
  CHECK(done == 1 && bh_pool_push(pool, count_drop, nullptr, count_drop) == BH_SHUT_DOWN);
  bh_serializer_free(serializer);
  end_pool();
}

// A destructor that pushes again, to a pool that refuses.
static void pushes_again(void *data) {
  dropped++;
  if (dropped < 5) CHECK(bh_pool_push(pool, count_drop, data, pushes_again) == BH_SHUT_DOWN);
}

static void push_in_destructor() {
  make_pool(1);
  OK(bh_pool_shutdown(pool, LONG, nullptr));
  CHECK(bh_pool_push(pool, count_drop, nullptr, pushes_again) == BH_SHUT_DOWN);
  CHECK(dropped == 5);
  bh_pool_free(pool);
}

// A step of a waiting task that aborts it, and frees all that leads to it. Its data goes after the step.
static bh_join *own;
static int32_t aborts_itself(const bh_waker *waker, uint64_t *, void *) {
  OK(bh_join_abort(own));
  bh_join_free(own);
  bh_serializer_free(serializer);
  OK(bh_waker_wake(waker));
  CHECK(dropped == 0);
  done++;
  return 0;
}

static void abort_itself() {
  bh_suspension *suspension;
  make_pool(1);
  OK(bh_serializer_new(pool, nullptr, &serializer));
  OK(bh_serializer_suspend(serializer, &suspension));
  OK(bh_serializer_spawn(serializer, aborts_itself, nullptr, count_drop, &own));
  bh_suspension_free(suspension);
  await(&dropped, 1);
  CHECK(done == 1);
  end_pool();
}

static bh_runtime *runtime;
static bh_topic *topic, *target;

static void make_simulation() {
  OK(bh_runtime_simulated(7, &runtime));
  OK(bh_runtime_pool(runtime, &pool));
  OK(bh_serializer_new(pool, nullptr, &serializer));
}

static void end_simulation() {
  bh_serializer_free(serializer);
  bh_pool_free(pool);
  bh_runtime_free(runtime);
}

static void adds_one(void *number) { ++*static_cast<int *>(number); }

// A call that fails has dropped its data, which is gone with this frame.
static void fails_to_wait(void *) {
  int *number = new int(0);
  CHECK(bh_serializer_push_wait(serializer, adds_one, number, [](void *data) {
          CHECK(*static_cast<int *>(data) == 0);
          delete static_cast<int *>(data);
          dropped++;
        }) == BH_STALLED);
  done++;
}

static void withdraw() {
  bh_suspension *suspension;
  make_simulation();
  OK(bh_serializer_suspend(serializer, &suspension));
  fails_to_wait(nullptr);
  CHECK(dropped == 1);
  OK(bh_pool_push_wait(pool, fails_to_wait, nullptr, nullptr)); // inside of a task
  CHECK(dropped == 2 && done == 2);
  bh_suspension_free(suspension);
  OK(bh_simulation_run_until_idle(runtime));
  int number = 0;
  OK(bh_serializer_push_wait(serializer, adds_one, &number, nullptr));
  CHECK(number == 1);
  OK(bh_simulation_run_until_idle(runtime));
  end_simulation();
}

// A push that waits for room runs a task, which frees the handle that the push was given.
static void free_in_push() {
  bh_serializer_options options = {};
  options.size = sizeof options;
  options.name = "full";
  options.capacity = 1;
  options.overflow = BH_OVERFLOW_BLOCK;
  for (int keyed = 0; keyed < 2; keyed++) {
    OK(bh_runtime_simulated(7, &runtime));
    OK(bh_runtime_pool(runtime, &pool));
    OK(bh_serializer_new(pool, &options, &serializer));
    OK(bh_serializer_push(serializer, [](void *) { bh_serializer_free(serializer), done++; }, nullptr, nullptr));
    OK(keyed ? bh_serializer_push_keyed(serializer, 1, count_drop, nullptr, nullptr)
             : bh_serializer_push(serializer, count_drop, nullptr, nullptr));
    CHECK(done == keyed + 1 && dropped == keyed);
    OK(bh_simulation_run_until_idle(runtime));
    CHECK(dropped == keyed + 1);
    bh_pool_free(pool);
    bh_runtime_free(runtime);
  }
}

// A push displaces a call that another thread waits for: its data is gone before that thread goes on.
static void displace() {
  bh_suspension *suspension;
  bh_serializer_options options = {};
  options.size = sizeof options;
  options.name = "lossy";
  options.capacity = 1;
  options.overflow = BH_OVERFLOW_DROP_OLDEST;
  make_pool(1);
  OK(bh_serializer_new(pool, &options, &serializer));
  OK(bh_serializer_suspend(serializer, &suspension));
  std::thread waiter([] {
    bh_drop_fn slow = [](void *number) {
      usleep(20000);
      adds_one(number);
    };
    int number = 0;
    CHECK(bh_serializer_push_wait(serializer, count_drop, &number, slow) == BH_DROPPED);
    CHECK(number == 1);
  });
  while (bh_serializer_len(serializer) == 0) usleep(100);
  OK(bh_serializer_push(serializer, count_drop, nullptr, nullptr));
  waiter.join();
  bh_suspension_free(suspension);
  bh_serializer_free(serializer);
  end_pool();
  CHECK(dropped == 1); // by the other
}

static void frees_both_topics(const bh_delivery *, void *) {
  if (done++ > 0) return;
  bh_topic_free(topic);
  bh_topic_free(target);
}

// The handle of a topic whose subscriptions are announced, so that it has more than the topic.
static bh_topic *cached_topic(const bh_topic *announcements) {
  bh_topic *made;
  bh_topic_options options = {};
  options.size = sizeof options;
  options.cached = 1;
  options.announcements = announcements;
  OK(bh_topic_new(nullptr, &options, &made));
  return made;
}

static void publish_one(bh_topic *to, const char *subject) {
  bh_record *record;
  OK(bh_record_new(1, subject, &record));
  OK(bh_topic_publish_record(to, record, nullptr));
  bh_record_free(record);
}

static void free_topic_in_subscribe() {
  bh_topic *announced = cached_topic(nullptr);
  bh_subscription *subscription;
  bh_subscription_options options = {};
  options.size = sizeof options;
  options.replay = 1;
  topic = cached_topic(announced);
  publish_one(topic, "alice");
  OK(bh_topic_subscribe(topic, &options, frees_both_topics, nullptr, count_drop, &subscription));
  CHECK(done >= 1);
  bh_subscription_free(subscription);
  CHECK(dropped == 1);
  bh_topic_free(announced);
}

static void free_topics_in_forward() {
  bh_topic *announced = cached_topic(nullptr);
  bh_subscription *subscription;
  bh_forward *forward;
  topic = cached_topic(announced);
  target = cached_topic(announced);
  publish_one(topic, "alice");
  OK(bh_topic_subscribe(target, nullptr, frees_both_topics, nullptr, count_drop, &subscription));
  OK(bh_topic_forward(topic, target, &forward));
  CHECK(done >= 1);
  bh_forward_free(forward);
  bh_subscription_free(subscription);
  bh_topic_free(announced);
}

static bh_subscription *replayed;
static void frees_what_is_replayed(const bh_delivery *, void *) {
  if (++done <= 2) return; // what was published, the first of what is replayed
  bh_subscription_free(replayed);
  bh_topic_free(topic);
}

static void free_in_replay() {
  topic = cached_topic(nullptr);
  OK(bh_topic_subscribe(topic, nullptr, frees_what_is_replayed, nullptr, count_drop, &replayed));
  publish_one(topic, "alice");
  publish_one(topic, "bob");
  OK(bh_subscription_replay(replayed));
  CHECK(done == 3 && dropped == 1);
}

// The hook of an earlier deadline frees the service that the call was given. Each call makes an earlier one.
static void free_in_on_earlier() {
  for (int call = 0; call < 6; call++) {
    uint64_t wait;
    int32_t id = 0;
    bh_timer_options options = {};
    options.size = sizeof options;
    options.delay_ns = 1000;
    options.out_id = &id;
    bh_next_delay_fn never = [](void *) -> uint64_t { return 0; };
    OK(bh_timers_new(nullptr, &timers));
    OK(bh_timers_after(timers, SECONDS(60), nullptr, count_drop, nullptr, nullptr, &timer));
    OK(bh_timers_next_wait(timers, &wait));
    OK(bh_timers_on_earlier(timers, [](void *) { bh_timers_free(timers), done++; }, nullptr, nullptr));
    bh_result got = BH_OK;
    switch (call) {
      case 0: got = bh_timers_after(timers, 1000, nullptr, count_drop, nullptr, nullptr, nullptr); break;
      case 1: got = bh_timers_add(timers, &options, nullptr, count_drop, nullptr, nullptr, nullptr); break;
      case 2: got = bh_timers_add_variable(timers, &options, nullptr, never, nullptr, nullptr, nullptr); break;
      case 3: got = bh_timers_replace(timers, &timer, &options, nullptr, count_drop, nullptr, nullptr, nullptr); break;
      case 4: got = bh_timers_replace_variable(timers, &timer, &options, nullptr, never, nullptr, nullptr, nullptr); break;
      case 5: got = bh_timers_reschedule(timers, timer, 1); break;
    }
    CHECK(got == BH_OK && done == call + 1);
  }
}

// Options of a later version, which this one refuses: what it knows of them is the library's nevertheless.
template <class Options, class Call>
static void refuse(int data, Options options, Call call) {
  struct { Options known; uint64_t unknown; } later = {options, 1};
  later.known.size = sizeof later;
  dropped = 0;
  CHECK(call(&later.known) == BH_VERSION && dropped == data);
  later.known.size = sizeof(Options) - 1; // no options at all
  CHECK(call(&later.known) == BH_INVALID && dropped == data);
}

static void refuse_options() {
  bh_template *kind;
  bh_subscription *subscription;
  make_simulation();
  topic = cached_topic(nullptr);
  bh_pool_options of_pool = {};
  of_pool.on_alert_drop = of_pool.on_thread_start_drop = of_pool.on_thread_stop_drop = count_drop;
  refuse(3, of_pool, [](bh_pool_options *options) { return bh_pool_new(options, &pool); });
  refuse(3, of_pool, [](bh_pool_options *options) {
    bh_runtime_options of_runtime = {};
    of_runtime.size = sizeof of_runtime;
    of_runtime.pool = options;
    return bh_runtime_new(&of_runtime, &runtime);
  });
  of_pool.size = sizeof of_pool;
  bh_runtime_options of_runtime = {};
  of_runtime.pool = &of_pool;
  refuse(3, of_runtime, [](bh_runtime_options *options) { return bh_runtime_new(options, &runtime); });
  bh_serializer_options of_serializer = {};
  of_serializer.name = "refused";
  of_serializer.on_alert_drop = count_drop;
  refuse(1, of_serializer, [](bh_serializer_options *options) { return bh_serializer_new(pool, options, &serializer); });
  refuse(1, of_serializer, [&](bh_serializer_options *options) { return bh_template_new(pool, options, &kind); });
  refuse(1, of_serializer, [](bh_serializer_options *options) { return bh_runtime_serializer(runtime, options, &serializer); });
  refuse(1, of_serializer, [&](bh_serializer_options *options) { return bh_runtime_template(runtime, options, &kind); });
  bh_topic_options of_topic = {};
  of_topic.fold_drop = count_drop;
  refuse(1, of_topic, [](bh_topic_options *options) { return bh_topic_new(nullptr, options, &target); });
  bh_subscription_options of_subscription = {};
  of_subscription.is_wanted_drop = count_drop;
  refuse(1, of_subscription, [&](bh_subscription_options *options) {
    return bh_topic_subscribe(topic, options, frees_both_topics, nullptr, nullptr, &subscription);
  });
  bh_topic_free(topic);
  end_simulation();
}

// A fold that makes an event of another key, or of another sort: the first state counts.
static bh_event *of_other_key(const bh_node_state *states, size_t count, void *is_object) {
  static int object;
  static bh_topic *objects;
  bh_record *record;
  bh_event *made;
  CHECK(count == 2 && states[0].node == 1);
  if (is_object) {
    bh_topic_options options = {};
    options.size = sizeof options;
    options.hash = [](const void *, void *) -> uint64_t { return 1; };
    options.equal = [](const void *, const void *, void *) -> int32_t { return 1; };
    OK(bh_topic_new(nullptr, &options, &objects));
    OK(bh_event_of_object(objects, &object, nullptr, &made));
    bh_topic_free(objects);
    return made;
  }
  OK(bh_record_new(1, "mallory", &record));
  OK(bh_event_of_record(record, &made));
  bh_record_free(record);
  return made;
}

static void fold_to_another_key() {
  for (int is_object = 0; is_object < 2; is_object++) {
    bh_topic_options options = {};
    options.size = sizeof options;
    options.node = 1;
    options.fold = of_other_key;
    options.fold_data = is_object ? &done : nullptr;
    OK(bh_topic_new(nullptr, &options, &topic));
    publish_one(topic, "alice");
    bh_event *state, *folded;
    OK(bh_topic_get_record(topic, 1, "alice", &state));
    OK(bh_topic_publish_from(topic, 2, state, nullptr));
    OK(bh_topic_get_record(topic, 1, "alice", &folded));
    CHECK(bh_event_record(folded) == bh_event_record(state) && bh_topic_len(topic) == 1);
    CHECK(bh_topic_get_record(topic, 1, "mallory", &state) == BH_NOT_FOUND);
    bh_event_free(state);
    bh_event_free(folded);
    bh_topic_free(topic);
  }
}

static void throws(void *) { throw std::runtime_error("from a callback"); }

static void throw_from_task() {
  make_pool(1);
  OK(bh_pool_push(pool, throws, nullptr, nullptr));
  sleep(60);
}

// Closures of busyhour.hpp: std::terminate, before the exception leaves them.
static void throw_from_executor_closure() {
  std::set_terminate([] { _exit(7); });
  auto on = busyhour::executor::of_program([](busyhour::task &&) { throw std::runtime_error("from an executor"); });
  OK(bh_timers_new(nullptr, &timers));
  OK(bh_timers_after(timers, 0, on->get(), throws, nullptr, nullptr, nullptr));
  bh_timers_run_due(timers, nullptr);
}

static void throw_from_attribute_closure() {
  std::set_terminate([] { _exit(7); });
  auto of = busyhour::attribute::make([](const bh_event *) -> uint64_t { throw std::runtime_error("from an attribute"); });
  auto records = busyhour::record_topic::make();
  bh_subscription_options options = {};
  options.attribute = of->get();
  auto subscription = records->subscribe(options, [](const bh_delivery &) {});
  publish_one(records->get(), "alice");
}

static void throw_from_subscription_closure() {
  std::set_terminate([] { _exit(7); });
  auto records = busyhour::record_topic::make();
  auto subscription = records->subscribe({}, [](const bh_delivery &) { throw std::runtime_error("from a subscription"); });
  publish_one(records->get(), "alice");
}

static void throw_in_run_due() {
  OK(bh_timers_new(nullptr, &timers));
  OK(bh_timers_after(timers, 0, nullptr, throws, nullptr, nullptr, nullptr));
  try {
    bh_timers_run_due(timers, nullptr);
  } catch (...) {
    std::puts("caught");
  }
}

static void throw_from_destructor() {
  bh_pool_push(nullptr, throws, nullptr, throws);
}

// An event loop of the program that keeps one task.
static bh_task *kept;
static bh_timers *of_loop;
static int32_t keeps(bh_task *task, void *) {
  kept = task;
  return 0;
}

static void keep_a_task() {
  bh_timers_options options = {};
  options.size = sizeof options;
  options.virtual_time = 1;
  OK(bh_timers_new(&options, &of_loop));
  OK(bh_executor_new(keeps, nullptr, nullptr, &on));
  OK(bh_timers_after(of_loop, 0, on, count_drop, nullptr, nullptr, nullptr));
  OK(bh_timers_run_due(of_loop, nullptr));
  bh_executor_free(on);
  CHECK(kept);
}

// What has no threads goes on, in both.
static bh_record *record;
static bh_event *event;
static void use_values() {
  uint32_t number;
  bh_pattern *pattern;
  OK(bh_record_set_u32(record, 7, 40));
  OK(bh_record_get_u32(record, 7, &number));
  OK(bh_pattern_new(&pattern));
  OK(bh_pattern_u32(pattern, 7, 40));
  CHECK(number == 40 && bh_pattern_matches(pattern, record) && !bh_pattern_matches(pattern, bh_event_record(event)));
  bh_pattern_free(pattern);
  bh_event_free(event);
  bh_record_free(record);
}

// A child of fork has the handles, but not the threads.
static void in_the_child() {
  size_t count;
  CHECK(bh_task_run(kept) == BH_FORKED && dropped == 0);
  bh_task_free(kept);
  use_values();
  CHECK(bh_pool_push(pool, count_drop, nullptr, count_drop) == BH_FORKED);
  CHECK(dropped == 1);
  CHECK(bh_pool_push_wait(pool, count_drop, nullptr, nullptr) == BH_FORKED);
  CHECK(bh_serializer_push_wait(serializer, count_drop, nullptr, nullptr) == BH_FORKED);
  CHECK(bh_timers_run_due(timers, &count) == BH_FORKED);
  CHECK(bh_pool_shutdown(pool, LONG, nullptr) == BH_FORKED);
  CHECK(bh_serializer_len(serializer) == 0);
  CHECK(bh_join_wait(own, nullptr) == BH_FORKED && bh_join_abort(own) == BH_FORKED && !bh_join_is_finished(own));
  bh_join_free(own);
  char why[200];
  bh_last_error(why, sizeof why);
  CHECK(std::strstr(why, "_exit") != nullptr);
  bh_timers_free(timers); // they return, and wait for no thread
  bh_serializer_free(serializer);
  bh_pool_free(pool);
  _exit(0);
}

static void fork_with_a_pool() {
  make_pool(2);
  keep_a_task();
  OK(bh_record_new(1, "alice", &record));
  OK(bh_event_of_record(record, &event));
  OK(bh_serializer_new(pool, nullptr, &serializer));
  OK(bh_timers_new(nullptr, &timers));
  OK(bh_timers_spawn_driver(timers));
  OK(bh_pool_push_wait(pool, count_drop, nullptr, nullptr));
  OK(bh_pool_spawn(pool, [](const bh_waker *, uint64_t *, void *) { return 1; }, nullptr, nullptr, &own));
  dropped = 0;
  pid_t child = fork();
  if (child == 0) in_the_child();
  CHECK(has_ended_well(child));
  OK(bh_pool_push_wait(pool, count_drop, nullptr, nullptr)); // the parent goes on
  OK(bh_join_wait(own, nullptr));
  use_values();
  dropped = 0;
  OK(bh_task_run(kept));
  CHECK(dropped == 1);
  bh_timers_free(of_loop);
  bh_timers_free(timers);
  bh_serializer_free(serializer);
  end_pool();
}

// A daemon: the library is loaded, then the process forks, then it starts.
static void fork_before_a_pool() {
  pid_t child = fork();
  if (child == 0) {
    make_pool(1);
    OK(bh_pool_push_wait(pool, count_drop, nullptr, count_drop));
    CHECK(dropped == 2);
    end_pool();
    _exit(0);
  }
  CHECK(has_ended_well(child));
}

int main(int, char **arguments) {
  struct { const char *name; void (*run)(); } modes[] = {
      {"free-own-handle", free_own_handle}, {"free-own-pool", free_own_pool}, {"free-in-run-due", free_in_run_due},
      {"cancel-itself", cancel_itself}, {"shut-down-inside", shut_down_inside}, {"push-in-destructor", push_in_destructor},
      {"abort-itself", abort_itself}, {"withdraw", withdraw}, {"displace", displace}, {"free-in-push", free_in_push},
      {"refuse-options", refuse_options}, {"fold-to-another-key", fold_to_another_key},
      {"free-topic-in-subscribe", free_topic_in_subscribe},
      {"free-topics-in-forward", free_topics_in_forward}, {"free-in-replay", free_in_replay}, {"free-in-on-earlier", free_in_on_earlier},
      {"throw-from-task", throw_from_task}, {"throw-in-run-due", throw_in_run_due}, {"throw-from-destructor", throw_from_destructor},
      {"throw-from-executor-closure", throw_from_executor_closure},
      {"throw-from-attribute-closure", throw_from_attribute_closure},
      {"throw-from-subscription-closure", throw_from_subscription_closure},
      {"fork-with-a-pool", fork_with_a_pool}, {"fork-before-a-pool", fork_before_a_pool},
  };
  auto run = [&](const char *name) {
    for (auto &mode : modes)
      if (std::strcmp(mode.name, name) == 0) return mode.run(), 0;
    return 2;
  };
  if (arguments[2] == nullptr) return run(arguments[1]);
  // Each of several in a process of its own; the checkers look at each as it ends.
  for (char **name = arguments + 1; *name; name++) {
    pid_t child = fork();
    if (child == 0) return run(*name);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) != 0) return std::fprintf(stderr, "%s: code %d\n", *name, WEXITSTATUS(status)), 1;
  }
  return 0;
}
