/* Serializers: their order against counters, their bounds, and how they end. */
#include "check.h"

#include <pthread.h>
#include <sched.h>

enum { SERIALIZERS = 4, PUSHERS = 3, PUSHES = 500 };

static bh_pool *pool;
static bh_serializer *serializers[SERIALIZERS];

/* One number of one pusher to one serializer. */
struct numbered {
  int serializer, pusher;
  long number;
};
static long last[SERIALIZERS][PUSHERS]; /* without a lock: the serializer's tasks run one at a time */
static atomic_long inside[SERIALIZERS];

static void in_order(void *data) {
  struct numbered *task = data;
  CHECK(atomic_fetch_add(&inside[task->serializer], 1) == 0);
  CHECK(last[task->serializer][task->pusher]++ == task->number);
  CHECK(atomic_fetch_sub(&inside[task->serializer], 1) == 1);
}

static void *push_numbers(void *data) {
  int pusher = (int)(intptr_t)data;
  for (long number = 0; number < PUSHES; number++)
    for (int i = 0; i < SERIALIZERS; i++) {
      struct numbered *task = malloc(sizeof *task);
      *task = (struct numbered){i, pusher, number};
      OK(bh_serializer_push(serializers[i], in_order, task, free));
    }
  return NULL;
}

static void nothing(void *data) { (void)data; }

static int32_t in_order_of_names(const bh_serializer_stats *stats, void *data) {
  long *listed = data;
  char expected[32];
  snprintf(expected, sizeof expected, "calls-%ld", (*listed)++);
  CHECK(strcmp(stats->name, expected) == 0);
  CHECK(stats->processed >= PUSHERS * PUSHES && stats->queued_len == 0);
  return *listed < SERIALIZERS;
}

static void they_keep_the_order_of_each_pusher(void) {
  for (int i = 0; i < SERIALIZERS; i++) {
    char name[32];
    snprintf(name, sizeof name, "calls-%d", i);
    bh_serializer_options options = {.size = sizeof options, .name = name, .priority = i == 1 ? 150 : 0};
    OK(bh_serializer_new(pool, &options, &serializers[i]));
    bh_serializer *taken;
    IS(BH_EXISTS, bh_serializer_new(pool, &options, &taken));
  }
  pthread_t threads[PUSHERS];
  for (intptr_t i = 0; i < PUSHERS; i++) CHECK(pthread_create(&threads[i], NULL, push_numbers, (void *)i) == 0);
  for (int i = 0; i < PUSHERS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < SERIALIZERS; i++) {
    OK(bh_serializer_push_wait(serializers[i], nothing, NULL, NULL));
    for (int pusher = 0; pusher < PUSHERS; pusher++) CHECK(last[i][pusher] == PUSHES);
  }
  long listed = 0;
  OK(bh_pool_list(pool, in_order_of_names, &listed));
  CHECK(listed == SERIALIZERS);
  bh_serializer *found;
  OK(bh_pool_find_serializer(pool, "calls-2", &found));
  CHECK(bh_serializer_is_same(found, serializers[2]) && !bh_serializer_is_same(found, serializers[1]));
  bh_serializer_free(found);
  char name[4];
  CHECK(bh_serializer_name(serializers[3], name, sizeof name) == 7 && strcmp(name, "cal") == 0);
  for (int i = 0; i < SERIALIZERS; i++) bh_serializer_free(serializers[i]);
  // The worker that ran its last task holds it until its turn ends.
  while (bh_pool_find_serializer(pool, "calls-2", &found) == BH_OK) {
    bh_serializer_free(found);
    sched_yield();
  }
  IS(BH_NOT_FOUND, bh_pool_find_serializer(pool, "calls-2", &found));
}

static bh_serializer *one, *other;

static void waits_for_itself(void *data) {
  bh_serializer *current;
  OK(bh_serializer_current(&current));
  CHECK(bh_serializer_is_same(current, one));
  IS(BH_DEADLOCK, bh_serializer_push_wait(current, count_run, counted(), drop_counted));
  char why[200];
  bh_last_error(why, sizeof why);
  CHECK(strstr(why, "one") != NULL);
  OK(bh_serializer_push_wait(other, count_run, counted(), drop_counted));
  bh_serializer_free(current);
  *(bool *)data = true;
}

static void a_wait_in_a_circle_is_refused(void) {
  bool was_inside = false;
  bh_serializer_options options = {.size = sizeof options, .name = "one"};
  OK(bh_serializer_new(pool, &options, &one));
  OK(bh_serializer_new(pool, NULL, &other));
  atomic_store(&ran, 0);
  OK(bh_serializer_push_wait(one, waits_for_itself, &was_inside, NULL));
  CHECK(was_inside && atomic_load(&ran) == 1 && atomic_load(&alive) == 0);
  bh_serializer *current;
  IS(BH_NOT_FOUND, bh_serializer_current(&current));
  bh_serializer_free(one);
  bh_serializer_free(other);
}

static void watermarks_move(void) {
  bh_pool *pool;
  bh_serializer *with, *without;
  bh_suspension *suspension;
  OK(bh_pool_new(NULL, &pool));
  bh_serializer_options options = {.size = sizeof options, .name = "moves", .high_watermark = 10, .low_watermark = 1};
  OK(bh_serializer_new(pool, &options, &with));
  OK(bh_serializer_new(pool, NULL, &without));
  OK(bh_serializer_suspend(with, &suspension));
  for (int i = 0; i < 5; i++) OK(bh_serializer_push(with, count_run, counted(), drop_counted));
  CHECK(bh_pool_alert_count(pool) == 0);
  OK(bh_serializer_set_watermarks(with, 1, 5));
  CHECK(bh_pool_alert_count(pool) == 1); /* too many wait now */
  IS(BH_INVALID, bh_serializer_set_watermarks(with, 7, 7));
  OK(bh_serializer_set_watermarks(with, 5, 6));
  CHECK(bh_pool_alert_count(pool) == 0); /* few enough again */
  IS(BH_NOT_FOUND, bh_serializer_set_watermarks(without, 1, 5));
  bh_suspension_free(suspension);
  bh_serializer_free(with);
  bh_serializer_free(without);
  OK(bh_pool_shutdown(pool, LONG, NULL));
  bh_pool_free(pool);
}

static long alert_high, alert_low;
static void on_alert(const bh_queue_alert *alert, void *data) {
  (void)data;
  CHECK(strcmp(alert->name, "bounded") == 0 && alert->number == 0);
  CHECK(alert->queued_len == (alert->is_high ? 3 : 1));
  if (alert->is_high) alert_high++; else alert_low++;
}

/* Suspended, so that what waits is known. */
static void each_overflow_policy_drops_what_it_says(void) {
  bh_suspension *suspension;
  bh_alert_group *signalling;
  bh_serializer_stats stats;
  OK(bh_alert_group_new(&signalling));
  for (uint32_t overflow = BH_OVERFLOW_REJECT; overflow <= BH_OVERFLOW_CONFLATE; overflow++) {
    if (overflow == BH_OVERFLOW_BLOCK) continue;
    bh_serializer_options options = {
        .size = sizeof options, .name = "bounded", .capacity = 4, .overflow = overflow, .high_watermark = 3,
        .low_watermark = 1, .alert_group = signalling, .on_alert = on_alert, .on_alert_data = counted(), .on_alert_drop = drop_counted,
    };
    OK(bh_serializer_new(pool, &options, &one));
    OK(bh_serializer_suspend(one, &suspension));
    alert_high = alert_low = 0;
    atomic_store(&ran, 0);
    for (uint64_t key = 0; key < 6; key++) {
      bh_result expected = BH_OK;
      if (key >= 4 && overflow != BH_OVERFLOW_DROP_OLDEST) expected = BH_FULL;
      if (overflow == BH_OVERFLOW_CONFLATE) IS(expected, bh_serializer_push_keyed(one, key, count_run, counted(), drop_counted));
      else IS(expected, bh_serializer_try_push(one, count_run, counted(), drop_counted));
      char why[200];
      bh_last_error(why, sizeof why);
      if (expected == BH_FULL) CHECK(strstr(why, "the serializer \"bounded\" is full: 4 tasks wait"));
    }
    if (overflow == BH_OVERFLOW_CONFLATE) OK(bh_serializer_push_keyed(one, 2, count_run, counted(), drop_counted));
    CHECK(bh_serializer_len(one) == 4 && !bh_serializer_is_idle(one) && atomic_load(&alive) == 5);
    CHECK(bh_alert_group_count(signalling) == 1 && bh_pool_alert_count(pool) == 1 && alert_high == 1);
    OK(bh_serializer_get_stats(one, &stats));
    CHECK(stats.suspend_count == 1 && stats.is_high && stats.high_watermark == 3 && stats.name == NULL);
    CHECK(stats.rejected == (overflow == BH_OVERFLOW_DROP_OLDEST ? 0 : 2));
    CHECK(stats.dropped == (overflow == BH_OVERFLOW_DROP_OLDEST ? 2 : 0));
    CHECK(stats.conflated == (overflow == BH_OVERFLOW_CONFLATE));
    bh_suspension_free(suspension);
    await(&ran, 4);
    OK(bh_serializer_push_wait(one, nothing, NULL, NULL));
    CHECK(alert_low == 1 && bh_alert_group_count(signalling) == 0);
    uint64_t high_water;
    OK(bh_serializer_reset_high_water(one, &high_water));
    CHECK(high_water == 4);
    bh_serializer_free(one);
    await(&alive, 0);
  }
  CHECK(bh_alert_group_raised(signalling) == 3);
  watermarks_move();
  bh_alert_group_free(signalling);
}

static atomic_long hold;
static void holds(void *data) {
  count_run(data);
  while (atomic_load(&hold)) usleep(100);
}

static void a_group_shuts_down_within_a_limit(void) {
  bh_group *group;
  bh_template *devices;
  bh_serializer *device[10];
  bh_shutdown_report report;
  OK(bh_group_new(&group));
  bh_serializer_options options = {.size = sizeof options, .name = "device", .group = group, .capacity = 100};
  OK(bh_template_new(pool, &options, &devices));
  for (int i = 0; i < 10; i++) OK(bh_template_serializer(devices, &device[i]));
  bh_template_free(devices);
  CHECK(bh_group_len(group) == 10);
  atomic_store(&ran, 0);
  atomic_store(&hold, 1);
  OK(bh_serializer_push(device[0], holds, counted(), drop_counted));
  OK(bh_serializer_push(device[0], count_run, counted(), drop_counted));
  await(&ran, 1);
  for (int i = 1; i < 10; i++) OK(bh_serializer_push(device[i], count_run, counted(), drop_counted));
  await(&ran, 10);
  OK(bh_group_shutdown(group, 1000000, &report));
  CHECK(report.not_run == 1 && report.unfinished_workers == 1);
  CHECK(atomic_load(&ran) == 10 && atomic_load(&alive) == 1);
  IS(BH_SHUT_DOWN, bh_serializer_push(device[3], count_run, counted(), drop_counted));
  atomic_store(&hold, 0);
  await(&alive, 0);
  for (int i = 0; i < 10; i++) bh_serializer_free(device[i]);
  bh_group_free(group);
}

static void bad_arguments_free_their_data(void) {
  bh_serializer_options nameless = {.size = sizeof nameless, .capacity = 7, .on_alert = on_alert, .on_alert_data = counted(), .on_alert_drop = drop_counted};
  IS(BH_INVALID, bh_serializer_new(pool, &nameless, &one));
  bh_serializer_options marks = {.size = sizeof marks, .name = "x", .high_watermark = 2, .low_watermark = 2, .on_alert = on_alert, .on_alert_data = counted(), .on_alert_drop = drop_counted};
  IS(BH_INVALID, bh_serializer_new(pool, &marks, &one));
  marks.on_alert_data = counted();
  IS(BH_NULL, bh_serializer_new(NULL, &marks, &one));
  marks.on_alert_data = counted();
  IS(BH_NULL, bh_serializer_new(pool, &marks, NULL));
  bh_serializer_options overflow = {.size = sizeof overflow, .name = "x", .overflow = 4};
  IS(BH_INVALID, bh_serializer_new(pool, &overflow, &one));
  overflow = (bh_serializer_options){.size = sizeof overflow, .name = "x", .priority = 60};
  IS(BH_INVALID, bh_serializer_new(pool, &overflow, &one));
  IS(BH_NULL, bh_serializer_push(NULL, count_run, counted(), drop_counted));
  OK(bh_serializer_new(pool, NULL, &one));
  IS(BH_NULL, bh_serializer_push(one, NULL, counted(), drop_counted));
  OK(bh_serializer_set_priority(one, 40));
  IS(BH_INVALID, bh_serializer_set_priority(one, 99));
  OK(bh_serializer_clone(one, &other));
  CHECK(bh_serializer_is_same(one, other));
  bh_serializer_free(one);
  OK(bh_serializer_push_wait(other, count_run, counted(), drop_counted));
  bh_serializer_free(other);
  CHECK(atomic_load(&alive) == 0);
}

int main(void) {
  bh_pool_options options = {.size = sizeof options, .workers = 3};
  OK(bh_pool_new(&options, &pool));
  they_keep_the_order_of_each_pusher();
  a_wait_in_a_circle_is_refused();
  each_overflow_policy_drops_what_it_says();
  a_group_shuts_down_within_a_limit();
  bad_arguments_free_their_data();
  OK(bh_pool_reset_high_waters(pool));
  bh_shutdown_report report;
  OK(bh_pool_shutdown(pool, LONG, &report));
  CHECK(report.not_run == 0 && report.unfinished_workers == 0);
  bh_pool_free(pool);
  return 0;
}
