/* A task processor as both its files see it: one with a serializer (taskpool.c), or one with a listener (listener.c). */
#ifndef BUSYHOUR_ASTERISK_TASKPROCESSOR_H
#define BUSYHOUR_ASTERISK_TASKPROCESSOR_H

#include "asterisk.h"

#include <stdatomic.h>

struct ast_taskprocessor {
  bh_serializer *serializer; /* NULL: it has a listener */
  bh_suspension *suspension;
  struct ast_taskprocessor_listener *listener;
  _Atomic(void *) local_data;
  int references;
  char name[80];
  struct ast_taskprocessor *next;
};

/* Calls `each` for every task processor that is referred to, of which it must not give up one or make another. */
void tps_each(void (*each)(struct ast_taskprocessor *tps, void *data), void *data);
/* What it holds and has done; only the length and the levels if it has a listener. */
void tps_stats(struct ast_taskprocessor *tps, bh_serializer_stats *stats);
void tps_reset(struct ast_taskprocessor *tps, void *unused);

/* Starts the listener of a task processor, whose alerts count there. */
int listened_begin(struct ast_taskprocessor_listener *listener, struct ast_taskprocessor *tps, atomic_uint *alerts);
/* Tells the listener of the end, and frees it and the tasks that have not run. */
void listened_end(struct ast_taskprocessor_listener *listener);
/* Queues `run(task)`; the task is freed after it. */
int listened_push(struct ast_taskprocessor_listener *listener, bh_run_fn run, void *task);
long listened_size(struct ast_taskprocessor_listener *listener);
int listened_is_task(struct ast_taskprocessor_listener *listener);
int listened_levels(struct ast_taskprocessor_listener *listener, long low, long high);
void listened_stats(struct ast_taskprocessor_listener *listener, bh_serializer_stats *stats);

#endif
