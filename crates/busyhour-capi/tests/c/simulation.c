/* A runtime without threads: the same seed gives the same order, and an hour passes at once. */
#include "check.h"

#include <pthread.h>

static bh_runtime *runtime;
static bh_timers *timers;

static void traces(void *data) {
  uint64_t now;
  OK(bh_timers_now(timers, &now));
  OK(bh_simulation_trace(runtime, &now, sizeof now));
  OK(bh_simulation_trace(runtime, data, 1));
}

static uint64_t run(uint64_t seed) {
  bh_pool *pool;
  bh_executor *on[4];
  bh_serializer *serializers[4];
  uint64_t hash;
  OK(bh_runtime_simulated(seed, &runtime));
  OK(bh_runtime_pool(runtime, &pool));
  OK(bh_runtime_timers(runtime, &timers));
  for (int i = 0; i < 4; i++) {
    OK(bh_serializer_new(pool, NULL, &serializers[i]));
    OK(bh_executor_of_serializer(serializers[i], &on[i]));
  }
  static const char letters[] = "abcdefghijklmnop";
  for (int i = 0; i < 16; i++) {
    uint64_t number;
    OK(bh_simulation_random(runtime, &number));
    OK(bh_timers_after(timers, SECONDS(number % 3600), on[i % 4], traces, (void *)&letters[i], NULL, NULL));
    OK(bh_serializer_push(serializers[i % 4], traces, (void *)&letters[i], NULL));
    OK(bh_pool_push(pool, traces, (void *)&letters[i], NULL));
  }
  OK(bh_simulation_run_until_idle(runtime));
  int32_t did;
  OK(bh_simulation_step(runtime, &did));
  CHECK(did);
  OK(bh_simulation_run_until(runtime, SECONDS(1800)));
  uint64_t now;
  OK(bh_timers_now(timers, &now));
  CHECK(now >= SECONDS(1800));
  OK(bh_simulation_run_for(runtime, SECONDS(3600)));
  OK(bh_simulation_step(runtime, &did));
  CHECK(!did);
  OK(bh_simulation_trace_hash(runtime, &hash));
  bh_snapshot snapshot;
  OK(bh_runtime_snapshot(runtime, &snapshot));
  CHECK(snapshot.pool.processed == 48 && snapshot.timers.expired == 16);
  CHECK(snapshot.taken_at_ns >= SECONDS(3600) && snapshot.timers.pending_count == 0);
  for (int i = 0; i < 4; i++) {
    bh_executor_free(on[i]);
    bh_serializer_free(serializers[i]);
  }
  bh_timers_free(timers);
  bh_pool_free(pool);
  bh_runtime_free(runtime);
  return hash;
}

static void suspended_forever(void) {
  bh_pool *pool;
  bh_serializer *calls;
  bh_suspension *suspension;
  OK(bh_runtime_simulated(1, &runtime));
  OK(bh_runtime_pool(runtime, &pool));
  bh_serializer_options options = {.size = sizeof options, .name = "calls"};
  OK(bh_serializer_new(pool, &options, &calls));
  OK(bh_serializer_suspend(calls, &suspension));
  IS(BH_STALLED, bh_serializer_push_wait(calls, count_run, counted(), drop_counted));
  char *json;
  OK(bh_runtime_snapshot_json(runtime, &json));
  CHECK(strstr(json, "\"name\":\"calls\"") != NULL && strstr(json, "\"suspend_count\":1") != NULL);
  bh_text_free(json);
  bh_suspension_free(suspension);
  bh_serializer_free(calls);
  bh_pool_free(pool);
  bh_shutdown_report report;
  OK(bh_runtime_shutdown(runtime, SECONDS(1), &report));
  bh_runtime_free(runtime);
  await(&alive, 0);
}

/* Ints identify timers of the service, whichever handle was used. */
static void handles_share_ids(void) {
  bh_timers *handles[2];
  bh_timer by[2];
  int32_t ids[3];
  bh_timer_options options = {.size = sizeof options, .delay_ns = SECONDS(1)};
  OK(bh_runtime_simulated(1, &runtime));
  for (int i = 0; i < 2; i++) {
    OK(bh_runtime_timers(runtime, &handles[i]));
    options.out_id = &ids[i];
    OK(bh_timers_add(handles[i], &options, NULL, count_run, counted(), drop_counted, NULL));
  }
  CHECK(ids[0] != ids[1]);
  for (int i = 0; i < 2; i++) OK(bh_timers_by_id(handles[i], ids[0], &by[i]));
  CHECK(memcmp(&by[0], &by[1], sizeof by[0]) == 0);
  bh_timers_free(handles[0]);
  bh_timers_free(handles[1]);
  OK(bh_runtime_timers(runtime, &timers));
  options.out_id = &ids[2];
  OK(bh_timers_add(timers, &options, NULL, count_run, counted(), drop_counted, NULL));
  CHECK(ids[2] != ids[0] && ids[2] != ids[1]);
  OK(bh_simulation_run_for(runtime, SECONDS(2)));
  IS(BH_NOT_FOUND, bh_timers_by_id(timers, ids[0], &by[0]));
  bh_timers_free(timers);
  bh_runtime_free(runtime);
  await(&alive, 0);
}

static void a_real_one(void) {
  bh_runtime_options options = {.size = sizeof options, .workers = 2, .name = "real", .buffer_budget_bytes = 1 << 20};
  bh_pool *pool;
  bh_buffers *buffers;
  bh_executor *on;
  OK(bh_runtime_new(&options, &runtime));
  OK(bh_runtime_pool(runtime, &pool));
  OK(bh_runtime_timers(runtime, &timers));
  OK(bh_runtime_buffers(runtime, &buffers));
  OK(bh_executor_of_pool(pool, &on));
  atomic_store(&ran, 0);
  OK(bh_timers_after(timers, 1000, on, count_run, counted(), drop_counted, NULL));
  await(&ran, 1);
  void *found;
  OK(bh_buffers_find(buffers, 100, &found));
  bh_snapshot snapshot;
  OK(bh_runtime_snapshot(runtime, &snapshot));
  CHECK(snapshot.buffers.live_count == 1 && snapshot.buffers.budget_bytes == 1 << 20 && snapshot.pool.worker_count == 2);
  OK(bh_buffers_unpin(buffers, found));
  IS(BH_INVALID, bh_simulation_step(runtime, NULL));
  bh_timers_free(timers);
  OK(bh_runtime_timers(runtime, &timers)); /* freeing a handle has closed nothing */
  OK(bh_timers_after(timers, SECONDS(3600), on, count_run, counted(), drop_counted, NULL));
  bh_shutdown_report report;
  OK(bh_runtime_shutdown(runtime, LONG, &report));
  CHECK(report.not_run == 0 && report.unfinished_workers == 0);
  await(&alive, 0);
  bh_executor_free(on);
  bh_buffers_free(buffers);
  bh_timers_free(timers);
  bh_pool_free(pool);
  bh_runtime_free(runtime);
}

int main(void) {
  CHECK(run(7) == run(7));
  CHECK(run(7) != run(8));
  suspended_forever();
  handles_share_ids();
  a_real_one();
  return 0;
}
