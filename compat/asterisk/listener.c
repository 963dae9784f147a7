/* Task processors with a listener: the tasks wait in a queue of deadlines that are all equal, which is first in, first out. */
#include "taskprocessor.h"

#include <pthread.h>
#include <stdlib.h>

struct ast_taskprocessor_listener {
  const struct ast_taskprocessor_listener_callbacks *callbacks;
  void *user_data;
  struct ast_taskprocessor *tps; /* NULL before it begins */
  pthread_mutex_t lock;
  bh_timer_queue *queue;
  bh_run_fn run;
  int is_executing, is_high;
  pthread_t thread; /* that executes */
  long low, high;
  atomic_uint *alerts;
};

struct ast_taskprocessor_listener *ast_taskprocessor_listener_alloc(const struct ast_taskprocessor_listener_callbacks *callbacks, void *user_data) {
  struct ast_taskprocessor_listener *listener = calloc(1, sizeof *listener);
  if (!listener) return NULL;
  *listener = (struct ast_taskprocessor_listener){
      .callbacks = callbacks, .user_data = user_data,
      .high = AST_TASKPROCESSOR_HIGH_WATER_LEVEL, .low = AST_TASKPROCESSOR_HIGH_WATER_LEVEL * 9 / 10};
  pthread_mutex_init(&listener->lock, NULL);
  if (bh_timer_queue_new(&listener->queue) == BH_OK) return listener;
  pthread_mutex_destroy(&listener->lock);
  free(listener);
  return NULL;
}

void *ast_taskprocessor_listener_get_user_data(const struct ast_taskprocessor_listener *listener) { return listener->user_data; }
struct ast_taskprocessor *ast_taskprocessor_listener_get_tps(const struct ast_taskprocessor_listener *listener) { return listener->tps; }

int listened_begin(struct ast_taskprocessor_listener *listener, struct ast_taskprocessor *tps, atomic_uint *alerts) {
  listener->alerts = alerts;
  if (listener->callbacks->start) {
    listener->tps = tps;
    if (listener->callbacks->start(listener) != 0) return listener->tps = NULL, 0;
  }
  listener->tps = tps;
  return 1;
}

/* After each change of the length, under the lock. */
static void look_at_levels(struct ast_taskprocessor_listener *listener) {
  long len = (long)bh_timer_queue_len(listener->queue);
  int is_high = listener->is_high ? len > listener->low : len >= listener->high;
  if (is_high == listener->is_high) return;
  if (is_high) atomic_fetch_add(listener->alerts, 1);
  else atomic_fetch_sub(listener->alerts, 1);
  listener->is_high = is_high;
}

static void *take(struct ast_taskprocessor_listener *listener) {
  bh_due_entry due;
  size_t count = 0;
  bh_timer_queue_drain_due(listener->queue, 0, &due, 1, &count);
  return count > 0 ? due.entry : NULL;
}

void listened_end(struct ast_taskprocessor_listener *listener) {
  void *task;
  if (listener->tps && listener->callbacks->shutdown) listener->callbacks->shutdown(listener);
  while ((task = take(listener))) free(task);
  if (listener->tps) look_at_levels(listener);
  if (listener->callbacks->dtor) listener->callbacks->dtor(listener);
  bh_timer_queue_free(listener->queue);
  pthread_mutex_destroy(&listener->lock);
  free(listener);
}

int listened_push(struct ast_taskprocessor_listener *listener, bh_run_fn run, void *task) {
  pthread_mutex_lock(&listener->lock);
  int was_empty = bh_timer_queue_len(listener->queue) == 0 && !listener->is_executing;
  listener->run = run;
  bh_result added = bh_timer_queue_add(listener->queue, 0, task, NULL);
  look_at_levels(listener);
  pthread_mutex_unlock(&listener->lock);
  if (added != BH_OK) return free(task), -1;
  if (listener->callbacks->task_pushed) listener->callbacks->task_pushed(listener, was_empty);
  return 0;
}

int ast_taskprocessor_execute(struct ast_taskprocessor *tps) {
  struct ast_taskprocessor_listener *listener = tps->listener;
  if (!listener) return 0; /* its serializer runs its tasks */
  pthread_mutex_lock(&listener->lock);
  void *task = take(listener);
  listener->is_executing = task != NULL;
  listener->thread = pthread_self();
  look_at_levels(listener);
  pthread_mutex_unlock(&listener->lock);
  if (!task) return 0;
  listener->run(task);
  free(task);
  pthread_mutex_lock(&listener->lock);
  listener->is_executing = 0;
  size_t left = bh_timer_queue_len(listener->queue);
  pthread_mutex_unlock(&listener->lock);
  if (left == 0 && listener->callbacks->emptied) listener->callbacks->emptied(listener);
  return left > 0;
}

long listened_size(struct ast_taskprocessor_listener *listener) {
  pthread_mutex_lock(&listener->lock);
  long len = (long)bh_timer_queue_len(listener->queue);
  pthread_mutex_unlock(&listener->lock);
  return len;
}

int listened_is_task(struct ast_taskprocessor_listener *listener) {
  pthread_mutex_lock(&listener->lock);
  int is_task = listener->is_executing && pthread_equal(listener->thread, pthread_self());
  pthread_mutex_unlock(&listener->lock);
  return is_task;
}

int listened_levels(struct ast_taskprocessor_listener *listener, long low, long high) {
  if (low >= high) return -1;
  pthread_mutex_lock(&listener->lock);
  listener->low = low;
  listener->high = high;
  look_at_levels(listener);
  pthread_mutex_unlock(&listener->lock);
  return 0;
}

void listened_stats(struct ast_taskprocessor_listener *listener, bh_serializer_stats *stats) {
  pthread_mutex_lock(&listener->lock);
  *stats = (bh_serializer_stats){
      .queued_len = bh_timer_queue_len(listener->queue), .low_watermark = (uint64_t)listener->low,
      .high_watermark = (uint64_t)listener->high, .is_high = (uint32_t)listener->is_high, .running_for_ns = (uint64_t)listener->is_executing};
  pthread_mutex_unlock(&listener->lock);
}
