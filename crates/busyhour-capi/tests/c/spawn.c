/* Tasks that wait without a worker, and what a shutdown leaves, by name. */
#include "check.h"

#include <pthread.h>

enum { STEPS = 300, TASKS = 20 };

/* A task that takes so many steps; another thread wakes it between them. */
struct walk {
  long steps, taken;
  uint64_t result;
  bh_waker *waker;
  atomic_long waits;
};

static struct walk *new_walk(long steps) {
  struct walk *walk = calloc(1, sizeof *walk);
  walk->steps = steps;
  atomic_fetch_add(&alive, 1);
  return walk;
}

static void drop_walk(void *data) {
  bh_waker_free(((struct walk *)data)->waker);
  drop_counted(data);
}

static int32_t wakes_itself(const bh_waker *waker, uint64_t *result, void *data) {
  struct walk *walk = data;
  CHECK(walk->taken < walk->steps); /* no step after the last one */
  *result = (uint64_t)++walk->taken * 3;
  if (walk->taken == walk->steps) return 1;
  OK(bh_waker_wake(waker));
  OK(bh_waker_wake(waker)); /* once more counts once */
  return 0;
}

/* What the last failed call said, in the words of the header: "future" is one of Rust. */
static bool said(const char *part) {
  char why[300];
  bh_last_error(why, sizeof why);
  return strstr(why, part) != NULL && strstr(why, "future") == NULL;
}

static void every_task_ends_with_its_result(void) {
  bh_pool_options options = {.size = sizeof options, .workers = 2};
  bh_pool *pool;
  bh_serializer *serializer;
  bh_join *joins[TASKS];
  OK(bh_pool_new(&options, &pool));
  OK(bh_serializer_new(pool, NULL, &serializer));
  for (long i = 0; i < TASKS; i++) {
    struct walk *walk = new_walk(i + 1);
    if (i % 2) OK(bh_pool_spawn(pool, wakes_itself, walk, drop_walk, &joins[i]));
    else OK(bh_serializer_spawn(serializer, wakes_itself, walk, drop_walk, &joins[i]));
  }
  for (long i = 0; i < TASKS; i++) {
    uint64_t result;
    OK(bh_join_wait(joins[i], &result));
    CHECK(result == 3 * (uint64_t)(i + 1));
  }
  CHECK(atomic_load(&alive) == 0); /* the data went before the result came */
  OK(bh_pool_spawn(pool, wakes_itself, new_walk(STEPS), drop_walk, NULL)); /* nobody waits */
  await(&alive, 0);
  bh_serializer_free(serializer);
  OK(bh_pool_shutdown(pool, LONG, NULL));
  bh_join *late;
  OK(bh_pool_spawn(pool, wakes_itself, new_walk(1), drop_walk, &late));
  IS(BH_DROPPED, bh_join_wait(late, NULL));
  CHECK(said("the task was dropped"));
  CHECK(atomic_load(&alive) == 0);
  bh_pool_free(pool);
}

static struct walk *shared;
static int32_t waits_for_a_thread(const bh_waker *waker, uint64_t *result, void *data) {
  struct walk *walk = data;
  *result = 7;
  if (++walk->taken == walk->steps) return 1;
  if (walk->waker == NULL) OK(bh_waker_clone(waker, &walk->waker));
  atomic_fetch_add(&walk->waits, 1);
  return 0;
}

static void *wakes_it(void *unused) {
  for (long step = 1; step < STEPS; step++) {
    await(&shared->waits, step);
    OK(bh_waker_wake(shared->waker));
  }
  return unused;
}

static void another_thread_wakes_it(void) {
  bh_pool_options options = {.size = sizeof options, .workers = 1};
  bh_pool *pool;
  bh_join *join;
  pthread_t thread;
  OK(bh_pool_new(&options, &pool));
  shared = new_walk(STEPS);
  OK(bh_pool_spawn(pool, waits_for_a_thread, shared, drop_walk, &join));
  CHECK(!bh_join_is_finished(join));
  CHECK(pthread_create(&thread, NULL, wakes_it, NULL) == 0);
  OK(bh_join_wait(join, NULL));
  pthread_join(thread, NULL);

  /* Aborted while it waits: its data goes at once, and a wake is too late. */
  bh_waker *waker;
  shared = new_walk(2);
  OK(bh_pool_spawn(pool, waits_for_a_thread, shared, drop_walk, &join));
  await(&shared->waits, 1);
  OK(bh_waker_clone(shared->waker, &waker));
  OK(bh_join_abort(join));
  await(&alive, 0);
  CHECK(bh_join_is_finished(join));
  OK(bh_waker_wake(waker));
  bh_waker_free(waker);
  IS(BH_DROPPED, bh_join_wait(join, NULL));
  CHECK(said("the task was aborted"));
  bh_join_free(NULL);
  bh_waker_free(NULL);
  OK(bh_pool_shutdown(pool, LONG, NULL));
  bh_pool_free(pool);
}

/* Nothing is left that could wake it: it ends. */
static int32_t forgets(const bh_waker *waker, uint64_t *result, void *data) {
  (void)waker, (void)result, (void)data;
  return 0;
}

static bh_waker *kept;
static int32_t waits_for_its_waker(const bh_waker *waker, uint64_t *result, void *data) {
  (void)result, (void)data;
  OK(bh_waker_clone(waker, &kept));
  return 0;
}

static bh_serializer *own;
static int32_t waits_for_its_serializer(const bh_waker *waker, uint64_t *result, void *data) {
  (void)waker, (void)data;
  bh_join *inner;
  OK(bh_serializer_spawn(own, wakes_itself, new_walk(1), drop_walk, &inner));
  IS(BH_DEADLOCK, bh_join_wait(inner, result));
  CHECK(said("waiting would never end"));
  return 1;
}

static void a_wait_that_would_never_end(void) {
  bh_runtime *runtime;
  bh_pool *pool;
  bh_join *join;
  OK(bh_runtime_simulated(3, &runtime));
  OK(bh_runtime_pool(runtime, &pool));
  OK(bh_pool_spawn(pool, forgets, counted(), drop_counted, &join));
  IS(BH_DROPPED, bh_join_wait(join, NULL));
  CHECK(said("no waker"));
  OK(bh_pool_spawn(pool, waits_for_its_waker, counted(), drop_counted, &join));
  IS(BH_STALLED, bh_join_wait(join, NULL));
  CHECK(said("can wake the task"));
  CHECK(atomic_load(&alive) == 1);
  bh_waker_free(kept);
  CHECK(atomic_load(&alive) == 0);
  OK(bh_serializer_new(pool, NULL, &own));
  OK(bh_serializer_spawn(own, waits_for_its_serializer, NULL, NULL, &join));
  OK(bh_join_wait(join, NULL));
  bh_serializer_free(own);
  IS(BH_NULL, bh_pool_spawn(pool, NULL, counted(), drop_counted, &join));
  IS(BH_NULL, bh_pool_spawn(NULL, forgets, counted(), drop_counted, &join));
  IS(BH_NULL, bh_join_wait(NULL, NULL));
  IS(BH_NULL, bh_waker_wake(NULL));
  OK(bh_runtime_shutdown(runtime, SECONDS(1), NULL));
  bh_pool_free(pool);
  bh_runtime_free(runtime);
}

/* What a shutdown left, as a text. */
struct left { char text[400]; int room; };

static int32_t note(const bh_leftover *leftover, void *data) {
  struct left *left = data;
  static const char *const kinds[] = {"not run", "not delivered", "unfinished"};
  size_t len = strlen(left->text);
  snprintf(left->text + len, sizeof left->text - len, "%s: %lu %s; ", leftover->name, (unsigned long)leftover->count, kinds[leftover->kind]);
  CHECK(leftover->label == NULL && (leftover->kind == BH_LEFTOVER_UNFINISHED || leftover->running_for_ns == 0));
  return --left->room;
}

static void receive(const bh_delivery *delivery, void *data) { (void)delivery, (void)data; }

static void a_shutdown_names_what_it_left(void) {
  bh_runtime *runtime;
  bh_pool *pool;
  bh_executor *on;
  bh_topic *topic;
  bh_subscription *subscription;
  bh_serializer *one, *other, *grouped;
  bh_group *group;
  bh_record *record;
  OK(bh_runtime_simulated(5, &runtime));
  OK(bh_runtime_pool(runtime, &pool));
  OK(bh_executor_of_pool(pool, &on));
  OK(bh_group_new(&group));
  OK(bh_serializer_new(pool, &(bh_serializer_options){.size = sizeof(bh_serializer_options), .name = "one"}, &one));
  OK(bh_serializer_new(pool, &(bh_serializer_options){.size = sizeof(bh_serializer_options), .name = "other"}, &other));
  OK(bh_serializer_new(pool, &(bh_serializer_options){.size = sizeof(bh_serializer_options), .name = "grouped", .group = group}, &grouped));
  OK(bh_topic_new(NULL, NULL, &topic));
  OK(bh_topic_subscribe(topic, &(bh_subscription_options){.size = sizeof(bh_subscription_options), .name = "slow", .on = on}, receive, NULL, NULL, &subscription));
  OK(bh_record_new(1, "x", &record));
  for (int i = 0; i < 5; i++) OK(bh_topic_publish_record(topic, record, NULL));
  for (int i = 0; i < 3; i++) OK(bh_serializer_push(one, count_run, counted(), drop_counted));
  for (int i = 0; i < 4; i++) OK(bh_serializer_push(grouped, count_run, counted(), drop_counted));
  OK(bh_serializer_push(other, count_run, counted(), drop_counted));
  for (int i = 0; i < 2; i++) OK(bh_pool_push(pool, count_run, counted(), drop_counted));
  bh_group_stats stats;
  OK(bh_group_get_stats(group, &stats));
  CHECK(stats.serializer_count == 1 && stats.busy_count == 1 && stats.queued_len == 4 && stats.longest_queued_len == 4);
  bh_shutdown_report report;
  struct left left = {.room = 100};
  atomic_store(&ran, 0);
  OK(bh_group_shutdown_each(group, 0, note, &left, &report));
  CHECK(report.not_run == 4 && strcmp(left.text, "grouped: 4 not run; ") == 0);
  CHECK(atomic_load(&alive) == 6); /* each dropped task's data is freed */
  IS(BH_NULL, bh_pool_shutdown_each(pool, 0, NULL, NULL, NULL));
  CHECK(atomic_load(&alive) == 6); /* a call that fails shuts nothing down */
  left = (struct left){.room = 100};
  OK(bh_pool_shutdown_each(pool, 0, note, &left, &report));
  CHECK(report.not_run == 7 && report.not_delivered == 5 && atomic_load(&ran) == 0 && atomic_load(&alive) == 0);
  CHECK(strstr(left.text, "one: 3 not run; ") && strstr(left.text, "other: 1 not run; ") && strstr(left.text, "slow: 5 not delivered; "));
  CHECK(strstr(left.text, "; : 3 not run; ") != NULL); /* the plain tasks and the turn of the subscription, as one */
  left = (struct left){.room = 100};
  OK(bh_runtime_shutdown_each(runtime, 0, note, &left, NULL));
  CHECK(left.text[0] == 0);
  bh_subscription_free(subscription);
  bh_topic_free(topic);
  bh_record_free(record);
  bh_serializer_free(one), bh_serializer_free(other), bh_serializer_free(grouped);
  bh_group_free(group);
  bh_executor_free(on);
  bh_pool_free(pool);
  bh_runtime_free(runtime);
}

static atomic_long hold;
static void holds_on(void *data) {
  count_run(data);
  while (atomic_load(&hold)) usleep(100);
}

static void a_task_that_still_runs_is_named(void) {
  bh_pool_options options = {.size = sizeof options, .workers = 1};
  bh_pool *pool;
  bh_serializer *stuck;
  OK(bh_pool_new(&options, &pool));
  OK(bh_serializer_new(pool, &(bh_serializer_options){.size = sizeof(bh_serializer_options), .name = "stuck"}, &stuck));
  atomic_store(&hold, 1), atomic_store(&ran, 0);
  OK(bh_serializer_push(stuck, holds_on, counted(), drop_counted));
  for (int i = 0; i < 3; i++) OK(bh_serializer_push(stuck, count_run, counted(), drop_counted));
  await(&ran, 1);
  CHECK(bh_serializer_running(stuck, NULL, 0) == 0); /* its task has no label */
  struct left left = {.room = 1};
  OK(bh_pool_shutdown_each(pool, 1000000, note, &left, NULL));
  CHECK(strcmp(left.text, "stuck: 3 not run; ") == 0); /* 0 ends the list */
  left = (struct left){.room = 100};
  OK(bh_pool_shutdown_each(pool, 0, note, &left, NULL));
  CHECK(strcmp(left.text, "stuck: 1 unfinished; ") == 0);
  atomic_store(&hold, 0);
  await(&alive, 0);
  OK(bh_pool_shutdown(pool, LONG, NULL));
  bh_serializer_free(stuck);
  bh_pool_free(pool);
}

int main(void) {
  every_task_ends_with_its_result();
  another_thread_wakes_it();
  a_wait_that_would_never_end();
  a_shutdown_names_what_it_left();
  a_task_that_still_runs_is_named();
  await(&alive, 0);
  return 0;
}
