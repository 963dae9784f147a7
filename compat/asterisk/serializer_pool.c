/* Several serializers of a task pool for work that needs no order among its parts. */
#include "asterisk.h"

#include <stdlib.h>
#include <string.h>

struct ast_serializer_pool {
  char *name;
  struct ast_serializer_shutdown_group *group;
  int timeout; /* seconds */
  unsigned count;
  struct ast_taskprocessor *serializers[];
};

static void give_up_serializers(struct ast_serializer_pool *pool) {
  while (pool->count > 0) ast_taskprocessor_unreference(pool->serializers[--pool->count]);
}

struct ast_serializer_pool *ast_serializer_taskpool_create(const char *name, unsigned size, struct ast_taskpool *taskpool, int timeout) {
  struct ast_serializer_pool *pool = calloc(1, sizeof *pool + size * sizeof *pool->serializers);
  char unique[AST_TASKPROCESSOR_MAX_NAME + 1];
  if (!pool) return NULL;
  pool->timeout = timeout;
  if (size > 0 && (pool->name = strdup(name)) && (pool->group = ast_serializer_shutdown_group_alloc()))
    while (pool->count < size) {
      ast_taskprocessor_build_name(unique, sizeof unique, "%s", name);
      pool->serializers[pool->count] = ast_taskpool_serializer_group(unique, taskpool, pool->group);
      if (!pool->serializers[pool->count]) break;
      pool->count++;
    }
  if (size > 0 && pool->count == size) return pool;
  ast_serializer_pool_destroy(pool);
  return NULL;
}

int ast_serializer_pool_destroy(struct ast_serializer_pool *pool) {
  if (!pool) return 0;
  give_up_serializers(pool);
  int left = pool->group ? ast_serializer_shutdown_group_join(pool->group, pool->timeout) : 0;
  if (left > 0) return left;
  if (pool->group) ast_serializer_shutdown_group_free(pool->group);
  free(pool->name);
  free(pool);
  return 0;
}

const char *ast_serializer_pool_name(const struct ast_serializer_pool *pool) { return pool->name; }

struct ast_taskprocessor *ast_serializer_pool_get(struct ast_serializer_pool *pool) {
  struct ast_taskprocessor *shortest = pool->serializers[0];
  for (unsigned i = 1; i < pool->count; i++)
    if (ast_taskprocessor_size(pool->serializers[i]) < ast_taskprocessor_size(shortest)) shortest = pool->serializers[i];
  return shortest;
}

int ast_serializer_pool_set_alerts(struct ast_serializer_pool *pool, long high, long low) {
  int status = 0;
  for (unsigned i = 0; i < pool->count; i++) status |= ast_taskprocessor_alert_set_levels(pool->serializers[i], low, high);
  return status;
}
