/* Task processors are serializers of one pool; those of a task pool are serializers of that pool. */
#include "taskprocessor.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct ast_taskpool { bh_pool *pool; struct ast_taskpool_options options; };
struct task { ast_task_fn function; ast_task_local_fn local_function; struct ast_taskprocessor *tps; void *data; };

/* The part of a name before the slash, and its alerts. */
struct subsystem { bh_alert_group *alerts; atomic_uint of_listeners; struct subsystem *next; char name[]; };

static bh_pool *processors;
static struct subsystem *subsystems;
static struct ast_taskprocessor *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int ast_tps_init(void) { return bh_pool_new(NULL, &processors) == BH_OK ? 0 : -1; }

void ast_tps_shutdown(void) {
  bh_pool_shutdown(processors, UINT64_MAX, NULL);
  bh_pool_free(processors);
  for (struct subsystem *one = subsystems, *next; one; one = next) {
    next = one->next;
    bh_alert_group_free(one->alerts);
    free(one);
  }
  subsystems = NULL;
}

static struct subsystem *find_subsystem(const char *name, size_t len) {
  for (struct subsystem *one = subsystems; one; one = one->next)
    if (strlen(one->name) == len && memcmp(one->name, name, len) == 0) return one;
  return NULL;
}

/* That of a task processor with this name; it stays. */
static struct subsystem *subsystem_of(const char *name) {
  const char *slash = strchr(name, '/');
  size_t len = slash ? (size_t)(slash - name) : 0;
  struct subsystem *found = find_subsystem(name, len);
  if (found || !(found = calloc(1, sizeof *found + len + 1))) return found;
  if (bh_alert_group_new(&found->alerts) != BH_OK) return free(found), NULL;
  memcpy(found->name, name, len);
  found->next = subsystems;
  return subsystems = found;
}

static struct ast_taskprocessor *referenced(int (*is_meant)(struct ast_taskprocessor *, const void *), const void *what) {
  for (struct ast_taskprocessor *tps = all; tps; tps = tps->next)
    if (is_meant(tps, what)) return tps;
  return NULL;
}

static int has_name(struct ast_taskprocessor *tps, const void *name) { return strcmp(tps->name, name) == 0; }
static int is_handle(struct ast_taskprocessor *tps, const void *handle) {
  return tps->serializer && bh_serializer_is_same(tps->serializer, handle);
}

/* A serializer has its name until its last task has run. A new task processor may have the name of one that is given up
   already: then its serializer is called by a number too. */
static bh_result make_serializer(bh_pool *pool, bh_serializer_options *options, bh_serializer **out) {
  char other[AST_TASKPROCESSOR_MAX_NAME + 20];
  const char *name = options->name;
  bh_result result = bh_serializer_new(pool, options, out);
  if (result != BH_EXISTS) return result;
  snprintf(other, sizeof other, "%.*s#%u", AST_TASKPROCESSOR_MAX_NAME, name, ast_taskprocessor_seq_num());
  options->name = other;
  result = bh_serializer_new(pool, options, out);
  options->name = name;
  return result;
}

static struct ast_taskprocessor *make(bh_pool *pool, const char *name, bh_group *group) {
  struct ast_taskprocessor *tps = referenced(has_name, name) ? NULL : calloc(1, sizeof *tps);
  struct subsystem *subsystem = subsystem_of(name);
  bh_serializer_options options = {
      .size = sizeof options, .name = name, .group = group, .alert_group = subsystem ? subsystem->alerts : NULL,
      .high_watermark = AST_TASKPROCESSOR_HIGH_WATER_LEVEL, .low_watermark = AST_TASKPROCESSOR_HIGH_WATER_LEVEL * 9 / 10,
  };
  if (!tps || make_serializer(pool, &options, &tps->serializer) != BH_OK) {
    free(tps);
    return NULL;
  }
  snprintf(tps->name, sizeof tps->name, "%s", name);
  tps->references = 1;
  tps->next = all;
  return all = tps;
}

struct ast_taskprocessor *ast_taskprocessor_create_with_listener(const char *name, struct ast_taskprocessor_listener *listener) {
  struct ast_taskprocessor *tps = NULL;
  pthread_mutex_lock(&lock);
  struct subsystem *subsystem = subsystem_of(name);
  if (subsystem && !referenced(has_name, name)) tps = calloc(1, sizeof *tps);
  if (tps) {
    *tps = (struct ast_taskprocessor){.listener = listener, .references = 1, .next = all};
    snprintf(tps->name, sizeof tps->name, "%s", name);
    all = tps;
  }
  pthread_mutex_unlock(&lock);
  if (tps && listened_begin(listener, tps, &subsystem->of_listeners)) return tps;
  if (tps) ast_taskprocessor_unreference(tps);
  else listened_end(listener);
  return NULL;
}

struct ast_taskprocessor *ast_taskprocessor_get(const char *name, enum ast_tps_options create) {
  pthread_mutex_lock(&lock);
  struct ast_taskprocessor *tps = referenced(has_name, name);
  if (tps) tps->references++;
  if (!tps && !(create & TPS_REF_IF_EXISTS)) tps = make(processors, name, NULL);
  pthread_mutex_unlock(&lock);
  return tps;
}

/* What is queued still runs after the last one. */
struct ast_taskprocessor *ast_taskprocessor_unreference(struct ast_taskprocessor *tps) {
  if (!tps) return NULL;
  pthread_mutex_lock(&lock);
  int is_last = --tps->references == 0;
  for (struct ast_taskprocessor **link = &all; is_last && *link; link = &(*link)->next)
    if (*link == tps) {
      *link = tps->next;
      break;
    }
  pthread_mutex_unlock(&lock);
  if (is_last && tps->listener) {
    listened_end(tps->listener);
    free(tps);
  } else if (is_last) {
    bh_suspension_free(tps->suspension);
    bh_serializer_free(tps->serializer);
    free(tps);
  }
  return NULL;
}

void tps_each(void (*each)(struct ast_taskprocessor *tps, void *data), void *data) {
  pthread_mutex_lock(&lock);
  for (struct ast_taskprocessor *tps = all; tps; tps = tps->next) each(tps, data);
  pthread_mutex_unlock(&lock);
}

void tps_stats(struct ast_taskprocessor *tps, bh_serializer_stats *stats) {
  if (tps->listener) listened_stats(tps->listener, stats);
  else bh_serializer_get_stats(tps->serializer, stats);
}

void tps_reset(struct ast_taskprocessor *tps, void *unused) {
  (void)unused;
  bh_serializer_reset_high_water(tps->serializer, NULL);
}

static void run(void *data) {
  struct task *task = data;
  if (task->function) {
    task->function(task->data);
    return;
  }
  struct ast_taskprocessor_local local = {atomic_load(&task->tps->local_data), task->data};
  task->local_function(&local);
}

static struct task *keep(ast_task_fn function, void *data) {
  struct task *task = malloc(sizeof *task);
  if (task) *task = (struct task){.function = function, .data = data};
  return task;
}

static int status(bh_result result) { return result == BH_OK ? 0 : -1; }

static int push(struct ast_taskprocessor *tps, struct task *task) {
  if (!task) return -1;
  if (tps->listener) return listened_push(tps->listener, run, task);
  return status(bh_serializer_push(tps->serializer, run, task, free));
}

int ast_taskprocessor_push(struct ast_taskprocessor *tps, ast_task_fn task, void *data) {
  return push(tps, keep(task, data));
}

int ast_taskprocessor_push_local(struct ast_taskprocessor *tps, ast_task_local_fn task, void *data) {
  struct task *kept = malloc(sizeof *kept);
  if (kept) *kept = (struct task){.local_function = task, .tps = tps, .data = data};
  return push(tps, kept);
}

void ast_taskprocessor_set_local(struct ast_taskprocessor *tps, void *local_data) { atomic_store(&tps->local_data, local_data); }

const char *ast_taskprocessor_name(struct ast_taskprocessor *tps) { return tps->name; }
long ast_taskprocessor_size(struct ast_taskprocessor *tps) {
  return tps->listener ? listened_size(tps->listener) : (long)bh_serializer_len(tps->serializer);
}

int ast_taskprocessor_is_task(struct ast_taskprocessor *tps) {
  bh_serializer *current;
  if (tps->listener) return listened_is_task(tps->listener);
  if (bh_serializer_current(&current) != BH_OK) return 0;
  int is_task = bh_serializer_is_same(current, tps->serializer);
  bh_serializer_free(current);
  return is_task;
}

int ast_taskprocessor_suspend(struct ast_taskprocessor *tps) {
  if (tps->listener) return -1; /* its listener decides when tasks run */
  return tps->suspension ? 0 : status(bh_serializer_suspend(tps->serializer, &tps->suspension));
}

int ast_taskprocessor_unsuspend(struct ast_taskprocessor *tps) {
  bh_suspension_free(tps->suspension);
  tps->suspension = NULL;
  return 0;
}

int ast_taskprocessor_is_suspended(struct ast_taskprocessor *tps) { return tps->suspension != NULL; }

unsigned ast_taskprocessor_seq_num(void) {
  static atomic_uint latest;
  return atomic_fetch_add(&latest, 1) + 1;
}

/* The number has eight digits, so a long name is cut. */
enum { NUMBER_LEN = 9 };

void ast_taskprocessor_name_append(char *buf, unsigned size, const char *name) {
  int room = size > NUMBER_LEN ? (int)(size - NUMBER_LEN - 1) : 0;
  snprintf(buf, size, "%.*s-%08x", room, name, ast_taskprocessor_seq_num());
}

void ast_taskprocessor_build_name(char *buf, unsigned size, const char *format, ...) {
  char name[AST_TASKPROCESSOR_MAX_NAME + 1];
  va_list values;
  va_start(values, format);
  vsnprintf(name, sizeof name, format, values);
  va_end(values);
  ast_taskprocessor_name_append(buf, size, name);
}

/* Below zero: the default. */
int ast_taskprocessor_alert_set_levels(struct ast_taskprocessor *tps, long low_water, long high_water) {
  if (high_water < 0) high_water = AST_TASKPROCESSOR_HIGH_WATER_LEVEL;
  if (low_water < 0) low_water = high_water * 9 / 10;
  if (tps->listener) return listened_levels(tps->listener, low_water, high_water);
  return status(bh_serializer_set_watermarks(tps->serializer, (uint64_t)low_water, (uint64_t)high_water));
}

static unsigned alerts_of(struct subsystem *one) { return (unsigned)bh_alert_group_count(one->alerts) + atomic_load(&one->of_listeners); }

unsigned ast_taskprocessor_alert_get(void) {
  unsigned count = 0;
  pthread_mutex_lock(&lock);
  for (struct subsystem *one = subsystems; one; one = one->next) count += alerts_of(one);
  pthread_mutex_unlock(&lock);
  return count;
}

unsigned ast_taskprocessor_get_subsystem_alert(const char *subsystem) {
  pthread_mutex_lock(&lock);
  struct subsystem *found = find_subsystem(subsystem, strlen(subsystem));
  pthread_mutex_unlock(&lock);
  return found ? alerts_of(found) : 0;
}

static void thread_start(void *data) {
  struct ast_taskpool *pool = data;
  if (pool->options.thread_start) pool->options.thread_start();
}

static void thread_end(void *data) {
  struct ast_taskpool *pool = data;
  if (pool->options.thread_end) pool->options.thread_end();
}

/* A count of workers for `bh_pool_options`, where zero is the default. */
static uint32_t or_none(int count) { return count > 0 ? (uint32_t)count : UINT32_MAX; }

struct ast_taskpool *ast_taskpool_create(const char *name, const struct ast_taskpool_options *options) {
  static const uint32_t selectors[] = {BH_SELECTOR_DEFAULT, BH_SELECTOR_LEAST_FULL, BH_SELECTOR_SEQUENTIAL};
  struct ast_taskpool *pool;
  if (options->version != AST_TASKPOOL_OPTIONS_VERSION || !(pool = calloc(1, sizeof *pool))) return NULL;
  pool->options = *options;
  /* One that does not grow has a worker. */
  int minimum = options->minimum_size > 0 || options->auto_increment > 0 ? options->minimum_size : 1;
  int initial = options->initial_size > minimum ? options->initial_size : minimum;
  int maximum = options->max_size > 0 ? options->max_size : 1024;
  bh_pool_options made = {
      .size = sizeof made, .name = name, .selector = selectors[options->selector],
      .workers = or_none(initial), .minimum = or_none(minimum), .maximum = (uint32_t)(maximum > initial ? maximum : initial),
      .auto_increment = (uint32_t)options->auto_increment, .growth_threshold = (uint64_t)options->growth_threshold,
      .idle_timeout_ns = options->idle_timeout > 0 ? (uint64_t)options->idle_timeout * 1000000000u : UINT64_MAX,
      .on_thread_start = thread_start, .on_thread_start_data = pool, .on_thread_stop = thread_end, .on_thread_stop_data = pool,
  };
  if (bh_pool_new(&made, &pool->pool) == BH_OK) return pool;
  free(pool);
  return NULL;
}

int ast_taskpool_push(struct ast_taskpool *pool, ast_task_fn task, void *data) {
  struct task *kept = keep(task, data);
  return kept ? status(bh_pool_push(pool->pool, run, kept, free)) : -1;
}

int ast_taskpool_push_wait(struct ast_taskpool *pool, ast_task_fn task, void *data) {
  return status(bh_pool_push_wait(pool->pool, run, &(struct task){.function = task, .data = data}, NULL));
}

size_t ast_taskpool_taskprocessors_count(struct ast_taskpool *pool) {
  bh_pool_stats stats;
  return bh_pool_get_stats(pool->pool, &stats) == BH_OK ? stats.worker_count : 0;
}

long ast_taskpool_queue_size(struct ast_taskpool *pool) {
  bh_pool_stats stats;
  return bh_pool_get_stats(pool->pool, &stats) == BH_OK ? (long)stats.queued_len : 0;
}

void ast_taskpool_shutdown(struct ast_taskpool *pool) {
  if (!pool) return;
  bh_pool_shutdown(pool->pool, UINT64_MAX, NULL);
  bh_pool_free(pool->pool);
  free(pool);
}

struct ast_taskprocessor *ast_taskpool_serializer_group(const char *name, struct ast_taskpool *pool, struct ast_serializer_shutdown_group *group) {
  pthread_mutex_lock(&lock);
  struct ast_taskprocessor *tps = make(pool->pool, name, group ? group->group : NULL);
  pthread_mutex_unlock(&lock);
  return tps;
}

struct ast_taskprocessor *ast_taskpool_serializer(const char *name, struct ast_taskpool *pool) {
  return ast_taskpool_serializer_group(name, pool, NULL);
}

/* On the own serializer the task runs at once, as in Asterisk; a circle of others is refused. */
int ast_taskpool_serializer_push_wait(struct ast_taskprocessor *serializer, ast_task_fn task, void *data) {
  if (ast_taskprocessor_is_task(serializer)) return task(data), 0;
  return status(bh_serializer_push_wait(serializer->serializer, run, &(struct task){.function = task, .data = data}, NULL));
}

static int suspend_own(void *serializer) { return ast_taskprocessor_suspend(serializer); }

struct ast_taskprocessor *ast_taskpool_serializer_get_current(void) {
  bh_serializer *current;
  if (bh_serializer_current(&current) != BH_OK) return NULL;
  pthread_mutex_lock(&lock);
  struct ast_taskprocessor *tps = referenced(is_handle, current);
  pthread_mutex_unlock(&lock);
  bh_serializer_free(current);
  return tps;
}

/* Returns when no task of it runs, as in Asterisk: a suspension alone lets one that runs go on. */
int ast_taskpool_serializer_suspend(struct ast_taskprocessor *serializer) {
  bh_serializer *current;
  if (bh_serializer_current(&current) == BH_OK) return bh_serializer_free(current), -1;
  if (ast_taskprocessor_is_suspended(serializer)) return 0;
  return ast_taskpool_serializer_push_wait(serializer, suspend_own, serializer);
}

int ast_taskpool_serializer_unsuspend(struct ast_taskprocessor *serializer) { return ast_taskprocessor_unsuspend(serializer); }

struct ast_serializer_shutdown_group *ast_serializer_shutdown_group_alloc(void) {
  struct ast_serializer_shutdown_group *group = malloc(sizeof *group);
  if (group && bh_group_new(&group->group) == BH_OK) return group;
  free(group);
  return NULL;
}

void ast_serializer_shutdown_group_free(struct ast_serializer_shutdown_group *group) {
  bh_group_free(group->group);
  free(group);
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A serializer that nobody refers to ends with its last task. It waits for that and stops nothing: what is queued when the time
   is over still runs. */
int ast_serializer_shutdown_group_join(struct ast_serializer_shutdown_group *group, int timeout) {
  uint64_t limit_ns = (uint64_t)timeout * 1000000000u, begin = now_ns();
  while (bh_group_len(group->group) > 0 && now_ns() - begin < limit_ns) usleep(1000);
  return (int)bh_group_len(group->group);
}
