/* The scheduler and the heap. */
#include "asterisk.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry { ast_sched_cb callback; const void *data; int when_ms, variable; };

static uint64_t nanoseconds(int ms) { return ms > 0 ? (uint64_t)ms * 1000000 : 1; }

struct ast_sched_context *ast_sched_context_create(void) {
  struct ast_sched_context *con = malloc(sizeof *con);
  if (con && bh_timers_new(NULL, &con->timers) == BH_OK) return con;
  free(con);
  return NULL;
}

void ast_sched_context_destroy(struct ast_sched_context *con) {
  bh_timers_free(con->timers);
  free(con);
}

int ast_sched_start_thread(struct ast_sched_context *con) { return bh_timers_spawn_driver(con->timers) == BH_OK ? 0 : -1; }

/* The label of a timer names its callback, its owner is the data: so both can be asked for. */
enum { LABEL_SIZE = 24 };
static const char *name_of(ast_sched_cb callback, char label[LABEL_SIZE]) {
  snprintf(label, LABEL_SIZE, "%#zx", (size_t)callback);
  return label;
}

static uint64_t run(void *data) {
  struct entry *entry = data;
  int again = entry->callback(entry->data);
  if (again == 0) return 0;
  return nanoseconds(entry->variable ? again : entry->when_ms);
}

int ast_sched_add_variable(struct ast_sched_context *con, int when_ms, ast_sched_cb callback, const void *data, int variable) {
  struct entry *entry = malloc(sizeof *entry);
  if (!entry) return -1;
  *entry = (struct entry){callback, data, when_ms, variable};
  int32_t id = -1;
  char label[LABEL_SIZE];
  bh_timer_options options = {.size = sizeof options, .delay_ns = nanoseconds(when_ms), .owner = (uintptr_t)data,
                              .label = name_of(callback, label), .out_id = &id};
  bh_timers_add_variable(con->timers, &options, NULL, run, entry, free, NULL);
  return id;
}

int ast_sched_add(struct ast_sched_context *con, int when_ms, ast_sched_cb callback, const void *data) {
  return ast_sched_add_variable(con, when_ms, callback, data, 0);
}

/* Waits for a callback that runs, so that the caller may free its data. */
int ast_sched_del(struct ast_sched_context *con, int id) {
  bh_timer timer;
  bh_cancel outcome;
  if (bh_timers_by_id(con->timers, id, &timer) != BH_OK) return -1;
  bh_timers_cancel_and_wait(con->timers, timer, &outcome);
  return outcome == BH_CANCEL_RUNNING ? -1 : 0; /* a callback cannot wait for itself */
}

int ast_sched_del_nonrunning(struct ast_sched_context *con, int id) {
  bh_timer timer;
  bh_cancel outcome;
  if (bh_timers_by_id(con->timers, id, &timer) != BH_OK) return -1;
  bh_timers_cancel(con->timers, timer, &outcome);
  return outcome == BH_CANCEL_PREVENTED ? 0 : outcome == BH_CANCEL_RUNNING ? -2 : -1;
}

int ast_sched_replace(int old_id, struct ast_sched_context *con, int when_ms, ast_sched_cb callback, const void *data) {
  if (old_id > -1) ast_sched_del(con, old_id);
  return ast_sched_add(con, when_ms, callback, data);
}

int ast_sched_replace_variable(int old_id, struct ast_sched_context *con, int when_ms, ast_sched_cb callback, const void *data, int variable) {
  if (old_id > -1) ast_sched_del(con, old_id);
  return ast_sched_add_variable(con, when_ms, callback, data, variable);
}

static int32_t print(const bh_pending_timer *timer, void *con) {
  uint64_t ns = 0;
  bh_timers_time_left(((struct ast_sched_context *)con)->timers, timer->timer, &ns);
  fprintf(stderr, "callback %s data %#zx in %llu ms\n", timer->label, (size_t)timer->owner, (unsigned long long)(ns / 1000000));
  return 1;
}

void ast_sched_dump(struct ast_sched_context *con) {
  char *report;
  bh_timers_list(con->timers, print, con);
  if (bh_timers_report(con->timers, &report) != BH_OK) return;
  fprintf(stderr, "%s\n", report);
  bh_text_free(report);
}

static int32_t take_data(const bh_pending_timer *timer, void *data) {
  *(const void **)data = (const void *)(uintptr_t)timer->owner;
  return 0;
}

const void *ast_sched_find_data(struct ast_sched_context *con, int id) {
  const void *data = NULL;
  bh_timer timer;
  if (bh_timers_by_id(con->timers, id, &timer) == BH_OK) bh_timers_get(con->timers, timer, take_data, &data);
  return data;
}

int ast_sched_wait(struct ast_sched_context *con) {
  uint64_t ns;
  bh_timers_next_wait(con->timers, &ns);
  return ns == UINT64_MAX ? -1 : (int)((ns + 999999) / 1000000);
}

int ast_sched_runq(struct ast_sched_context *con) {
  size_t count;
  bh_timers_run_due(con->timers, &count);
  return (int)count;
}

long ast_sched_when(struct ast_sched_context *con, int id) {
  bh_timer timer;
  uint64_t ns;
  if (bh_timers_by_id(con->timers, id, &timer) != BH_OK || bh_timers_time_left(con->timers, timer, &ns) != BH_OK) return -1;
  return (long)(ns / 1000000000);
}

struct found { bh_timer timer; const void *data; };
struct cleaning { const char *label; struct found *found; size_t count, room; int is_cut; };

static int32_t find(const bh_pending_timer *timer, void *data) {
  struct cleaning *cleaning = data;
  if (strcmp(timer->label, cleaning->label) != 0) return 1;
  if (cleaning->count == cleaning->room) {
    size_t room = cleaning->room ? 2 * cleaning->room : 64;
    struct found *more = realloc(cleaning->found, room * sizeof *more);
    if ((cleaning->is_cut = !more)) return 0; /* the others when these are gone */
    cleaning->found = more;
    cleaning->room = room;
  }
  cleaning->found[cleaning->count++] = (struct found){timer->timer, (const void *)(uintptr_t)timer->owner};
  return 1;
}

/* Waits for callbacks that run, whose data is theirs: cleaned up is what has not run. */
void ast_sched_clean_by_callback(struct ast_sched_context *con, ast_sched_cb match, ast_sched_cb cleanup) {
  char label[LABEL_SIZE];
  struct cleaning cleaning = {.label = name_of(match, label)};
  do {
    cleaning.count = 0;
    cleaning.is_cut = 0;
    bh_timers_list(con->timers, find, &cleaning);
    for (size_t i = 0; i < cleaning.count; i++) {
      bh_cancel outcome;
      bh_timers_cancel_and_wait(con->timers, cleaning.found[i].timer, &outcome);
      if (outcome == BH_CANCEL_PREVENTED) cleanup(cleaning.found[i].data);
    }
  } while (cleaning.is_cut && cleaning.count > 0);
  free(cleaning.found);
}

struct ast_heap { bh_heap *heap; ast_heap_cmp_fn compare; ssize_t index_offset; pthread_rwlock_t lock; };

static int32_t greatest_first(const void *one, const void *other, void *data) {
  int result = ((struct ast_heap *)data)->compare((void *)one, (void *)other);
  return (result < 0) - (result > 0);
}

static uint64_t *handle_in(const struct ast_heap *heap, void *element) {
  return (uint64_t *)((char *)element + heap->index_offset);
}

struct ast_heap *ast_heap_create(unsigned init_height, ast_heap_cmp_fn compare, ssize_t index_offset) {
  (void)init_height; /* it grows by itself */
  struct ast_heap *heap = malloc(sizeof *heap);
  if (!heap) return NULL;
  *heap = (struct ast_heap){.compare = compare, .index_offset = index_offset};
  pthread_rwlock_init(&heap->lock, NULL);
  if (bh_heap_new(greatest_first, heap, NULL, &heap->heap) == BH_OK) return heap;
  return ast_heap_destroy(heap);
}

struct ast_heap *ast_heap_destroy(struct ast_heap *heap) {
  bh_heap_free(heap->heap);
  pthread_rwlock_destroy(&heap->lock);
  free(heap);
  return NULL;
}

int ast_heap_push(struct ast_heap *heap, void *element) {
  uint64_t *handle = heap->index_offset >= 0 ? handle_in(heap, element) : NULL;
  return bh_heap_push(heap->heap, element, handle) == BH_OK ? 0 : -1;
}

void *ast_heap_pop(struct ast_heap *heap) {
  void *element;
  return bh_heap_pop(heap->heap, &element) == BH_OK ? element : NULL;
}

void *ast_heap_remove(struct ast_heap *heap, void *element) {
  void *removed;
  if (heap->index_offset < 0) return NULL;
  return bh_heap_remove(heap->heap, *handle_in(heap, element), &removed) == BH_OK ? removed : NULL;
}

void *ast_heap_peek(struct ast_heap *heap, unsigned index) {
  void *element;
  return index > 0 && bh_heap_peek(heap->heap, index - 1, &element) == BH_OK ? element : NULL;
}

size_t ast_heap_size(struct ast_heap *heap) { return bh_heap_len(heap->heap); }

int ast_heap_verify(struct ast_heap *heap) { return bh_heap_verify(heap->heap) == BH_OK ? 0 : -1; }

int ast_heap_wrlock(struct ast_heap *heap) { return pthread_rwlock_wrlock(&heap->lock); }
int ast_heap_rdlock(struct ast_heap *heap) { return pthread_rwlock_rdlock(&heap->lock); }
int ast_heap_unlock(struct ast_heap *heap) { return pthread_rwlock_unlock(&heap->lock); }
