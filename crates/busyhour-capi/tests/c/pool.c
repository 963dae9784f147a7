/* A pool: every task runs once, every data is freed once, whatever becomes of the push. */
#include "check.h"

#include <pthread.h>

static bh_pool *pool;
static atomic_long started, stopped, alerts_high, alerts_low, hold;

static void count(void *data) { atomic_fetch_add((atomic_long *)data, 1); }
static void uncount(void *data) { atomic_fetch_sub((atomic_long *)data, 1); }

static void waits(void *data) {
  count_run(data);
  while (atomic_load(&hold)) usleep(100);
}

static void *push_many(void *data) {
  for (int i = 0; i < 2000; i++) OK(bh_pool_push(pool, count_run, counted(), drop_counted));
  return data;
}

static void every_task_runs_once(uint32_t selector) {
  bh_pool_options options = {
      .size = sizeof options, .name = "tasks", .workers = 2, .selector = selector,
      .on_thread_start = count, .on_thread_start_data = &started, .on_thread_start_drop = NULL,
      .on_thread_stop = count, .on_thread_stop_data = &stopped,
  };
  atomic_store(&ran, 0);
  atomic_store(&started, 0);
  atomic_store(&stopped, 0);
  OK(bh_pool_new(&options, &pool));
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, push_many, NULL) == 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  OK(bh_pool_push_wait(pool, count_run, counted(), drop_counted));
  bh_shutdown_report report;
  OK(bh_pool_shutdown(pool, LONG, &report));
  CHECK(atomic_load(&ran) == 6001 && atomic_load(&alive) == 0);
  CHECK(report.not_run == 0 && report.unfinished_workers == 0);
  bh_pool_stats stats;
  OK(bh_pool_get_stats(pool, &stats));
  CHECK(stats.processed == 6001 && stats.queued_len == 0 && stats.worker_count == 0);
  IS(BH_SHUT_DOWN, bh_pool_push(pool, count_run, counted(), drop_counted));
  IS(BH_SHUT_DOWN, bh_pool_push_wait(pool, count_run, counted(), drop_counted));
  CHECK(atomic_load(&alive) == 0 && atomic_load(&ran) == 6001);
  CHECK(atomic_load(&started) == 2 && atomic_load(&stopped) == 2);
  bh_pool_free(pool);
}

static void on_alert(int32_t is_high, size_t queued_len, void *data) {
  CHECK(data == &hold);
  if (is_high) CHECK(queued_len >= 50);
  atomic_fetch_add(is_high ? &alerts_high : &alerts_low, 1);
}

static int32_t count_running(const bh_worker_stats *worker, void *running) {
  CHECK(!worker->is_idle && worker->number < 4);
  *(long *)running += worker->is_running != 0;
  return 1;
}

static int32_t ends_at_once(const bh_waker *waker, uint64_t *result, void *data) {
  (void)waker;
  count_run(data);
  *result = 7;
  return 1;
}

static void it_grows_is_bounded_and_alerts(void) {
  bh_pool_options options = {
      .size = sizeof options, .name = "bounded", .workers = 1, .maximum = 4, .auto_increment = 3, .growth_threshold = 10,
      .capacity = 200, .high_watermark = 50, .low_watermark = 1, .on_alert = on_alert, .on_alert_data = &hold,
  };
  OK(bh_pool_new(&options, &pool));
  atomic_store(&ran, 0);
  atomic_store(&hold, 1);
  /* First every worker gets a task that waits, since what a worker moves from one queue to another is counted in neither. One
     runs, eleven wait, which is more than the threshold: three more workers start, and each of them takes one. */
  for (int i = 0; i < 12; i++) {
    OK(bh_pool_push(pool, waits, counted(), drop_counted));
    if (i == 0) await(&ran, 1);
  }
  await(&ran, 4);
  /* Now nothing moves and nothing begins, so the bound is exact: 4 run, and 200 wait. */
  long pushed = 12;
  bh_result result;
  while ((result = bh_pool_push(pool, waits, counted(), drop_counted)) == BH_OK) pushed++;
  CHECK(result == BH_FULL && pushed == 204);
  char why[200];
  CHECK(bh_last_error(why, sizeof why) > 0 && strstr(why, "the pool \"bounded\" is full"));
  bh_pool_stats stats;
  OK(bh_pool_get_stats(pool, &stats));
  CHECK(stats.worker_count == 4 && stats.rejected == 1);
  long running = 0;
  OK(bh_pool_list_workers(pool, count_running, &running));
  CHECK(running == 4);
  IS(BH_NULL, bh_pool_list_workers(pool, NULL, NULL));
  CHECK(stats.alerts_raised == 1 && atomic_load(&alerts_high) == 1 && atomic_load(&alerts_low) == 0);
  atomic_store(&hold, 0);
  OK(bh_pool_shutdown(pool, LONG, NULL));
  /* The last of them end it; while they move, it may end and come back. */
  CHECK(atomic_load(&alerts_high) == atomic_load(&alerts_low));
  CHECK(atomic_load(&ran) == pushed && atomic_load(&alive) == 0);
  bh_pool_free(pool);
}

static void until_it_is_empty(void) {
  bh_pool_stats stats;
  do {
    OK(bh_pool_get_stats(pool, &stats));
  } while (stats.worker_count > 0 && usleep(1000) == 0);
}

/* Whatever is pushed, and from wherever, starts a worker, which ends again. */
static void it_may_have_no_worker(void) {
  bh_pool_options options = {.size = sizeof options, .workers = UINT32_MAX, .minimum = UINT32_MAX, .idle_timeout_ns = 1};
  bh_serializer *serializer;
  bh_join *join;
  uint64_t result;
  IS(BH_INVALID, bh_pool_new(&options, &pool)); /* no maximum */
  options.maximum = 2;
  OK(bh_pool_new(&options, &pool));
  OK(bh_serializer_new(pool, NULL, &serializer));
  atomic_store(&ran, 0);
  for (int i = 1; i <= rounds(25); i++) {
    until_it_is_empty();
    OK(bh_pool_push(pool, count_run, counted(), drop_counted));
    await(&ran, 4 * i - 3);
    until_it_is_empty();
    OK(bh_pool_push_wait(pool, count_run, counted(), drop_counted));
    until_it_is_empty();
    OK(bh_serializer_push_wait(serializer, count_run, counted(), drop_counted));
    until_it_is_empty();
    OK(bh_pool_spawn(pool, ends_at_once, counted(), drop_counted, &join));
    OK(bh_join_wait(join, &result));
    CHECK(result == 7 && atomic_load(&ran) == 4 * i);
  }
  until_it_is_empty();
  bh_shutdown_report report;
  OK(bh_pool_shutdown(pool, LONG, &report));
  CHECK(report.not_run == 0 && report.unfinished_workers == 0 && atomic_load(&alive) == 0);
  IS(BH_SHUT_DOWN, bh_pool_push(pool, count_run, counted(), drop_counted));
  IS(BH_SHUT_DOWN, bh_serializer_push(serializer, count_run, counted(), drop_counted));
  bh_serializer_free(serializer);
  bh_pool_free(pool);
  /* Without a shutdown, and with a worker at the start. */
  options.workers = 1;
  OK(bh_pool_new(&options, &pool));
  until_it_is_empty();
  OK(bh_pool_push(pool, count_run, counted(), drop_counted));
  bh_pool_free(pool);
  await(&alive, 0);
}

static void a_shutdown_has_a_limit(void) {
  bh_pool_options options = {.size = sizeof options, .workers = 1};
  OK(bh_pool_new(&options, &pool));
  atomic_store(&ran, 0);
  atomic_store(&hold, 1);
  for (int i = 0; i < 5; i++) OK(bh_pool_push(pool, waits, counted(), drop_counted));
  await(&ran, 1);
  bh_shutdown_report report;
  OK(bh_pool_shutdown(pool, 1000000, &report));
  CHECK(report.unfinished_workers == 1 && report.not_run == 4);
  CHECK(atomic_load(&alive) == 1); /* that of the task that runs */
  atomic_store(&hold, 0);
  await(&alive, 0);
  CHECK(atomic_load(&ran) == 1);
  OK(bh_pool_shutdown(pool, LONG, &report));
  CHECK(report.unfinished_workers == 0);
  bh_pool_free(pool);
}

static void push_inside(void *data) {
  (void)data;
  OK(bh_pool_push_wait(pool, count_run, counted(), drop_counted)); /* at once, on this worker */
}

static void others_run_while_one_blocks(void) {
  bh_pool_options options = {.size = sizeof options, .workers = 1};
  OK(bh_pool_new(&options, &pool));
  atomic_store(&ran, 0);
  OK(bh_pool_push_wait(pool, push_inside, NULL, NULL));
  CHECK(atomic_load(&ran) == 1);
  OK(bh_pool_blocking(pool, count_run, counted(), drop_counted));
  CHECK(atomic_load(&ran) == 2 && atomic_load(&alive) == 0);
  OK(bh_pool_shutdown(pool, LONG, NULL));
  bh_pool_free(pool);
}

static void bad_options_free_their_data(void) {
  atomic_long held = 3;
  bh_pool_options options = {
      .size = sizeof options, .workers = 3, .maximum = 2,
      .on_thread_start = count, .on_thread_start_data = &held, .on_thread_start_drop = uncount,
      .on_thread_stop = count, .on_thread_stop_data = &held, .on_thread_stop_drop = uncount,
      .on_alert = on_alert, .on_alert_data = &held, .on_alert_drop = uncount,
  };
  IS(BH_INVALID, bh_pool_new(&options, &pool));
  CHECK(atomic_load(&held) == 0);
  atomic_store(&held, 3);
  options.maximum = 3;
  options.selector = 3;
  IS(BH_INVALID, bh_pool_new(&options, &pool));
  CHECK(atomic_load(&held) == 0);
  atomic_store(&held, 3);
  options.selector = 0;
  IS(BH_NULL, bh_pool_new(&options, NULL));
  CHECK(atomic_load(&held) == 0);
  uint32_t nowhere = 99999;
  bh_pool_options affinity = {.size = sizeof affinity, .processors = &nowhere, .processor_count = 1};
  IS(BH_INVALID, bh_pool_new(&affinity, &pool));
  affinity.processors = NULL;
  IS(BH_NULL, bh_pool_new(&affinity, &pool));
  IS(BH_NULL, bh_pool_push(NULL, count_run, counted(), drop_counted));
  CHECK(atomic_load(&alive) == 0 && bh_pool_alert_count(NULL) == 0);
  bh_pool_free(NULL);
}

int main(void) {
  every_task_runs_once(BH_SELECTOR_DEFAULT);
  every_task_runs_once(BH_SELECTOR_LEAST_FULL);
  every_task_runs_once(BH_SELECTOR_SEQUENTIAL);
  it_grows_is_bounded_and_alerts();
  it_may_have_no_worker();
  a_shutdown_has_a_limit();
  others_run_while_one_blocks();
  bad_options_free_their_data();
  return 0;
}
