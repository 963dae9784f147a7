/* The names of thread pools, which are task pools. */
#include "asterisk.h"

static struct ast_taskpool *taskpool(struct ast_threadpool *pool) { return (struct ast_taskpool *)pool; }

struct ast_threadpool *ast_threadpool_create(const char *name, struct ast_threadpool_listener *listener, const struct ast_threadpool_options *options) {
  struct ast_taskpool_options same = {
      .version = AST_TASKPOOL_OPTIONS_VERSION, .idle_timeout = options->idle_timeout, .auto_increment = options->auto_increment,
      .initial_size = options->initial_size, .max_size = options->max_size, .thread_start = options->thread_start, .thread_end = options->thread_end};
  if (options->version != AST_THREADPOOL_OPTIONS_VERSION || listener) return NULL;
  return (struct ast_threadpool *)ast_taskpool_create(name, &same);
}

int ast_threadpool_push(struct ast_threadpool *pool, ast_task_fn task, void *data) { return ast_taskpool_push(taskpool(pool), task, data); }
long ast_threadpool_queue_size(struct ast_threadpool *pool) { return ast_taskpool_queue_size(taskpool(pool)); }
void ast_threadpool_shutdown(struct ast_threadpool *pool) { ast_taskpool_shutdown(taskpool(pool)); }
struct ast_taskprocessor *ast_threadpool_serializer(const char *name, struct ast_threadpool *pool) { return ast_taskpool_serializer(name, taskpool(pool)); }
struct ast_taskprocessor *ast_threadpool_serializer_get_current(void) { return ast_taskpool_serializer_get_current(); }
struct ast_serializer_pool *ast_serializer_pool_create(const char *name, unsigned size, struct ast_threadpool *pool, int timeout) {
  return ast_serializer_taskpool_create(name, size, taskpool(pool), timeout);
}
