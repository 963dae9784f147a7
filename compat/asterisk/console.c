/* What the console says of task processors. */
#include "taskprocessor.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *yes_or_no(int is_so) { return is_so ? "Yes" : "No"; }

static void show_line(const bh_serializer_stats *stats, const char *name, int fd) {
  dprintf(fd, "%-45s %10llu %10llu %10llu %10llu %10llu\n", name, (unsigned long long)stats->processed,
          (unsigned long long)stats->queued_len, (unsigned long long)stats->queued_high_water,
          (unsigned long long)stats->low_watermark, (unsigned long long)stats->high_watermark);
}

struct shown { int fd, count; const char *like; };

static void show_if_like(struct ast_taskprocessor *tps, void *data) {
  struct shown *shown = data;
  bh_serializer_stats stats;
  if (strncasecmp(shown->like, tps->name, strlen(shown->like)) != 0) return;
  tps_stats(tps, &stats);
  show_line(&stats, tps->name, shown->fd);
  shown->count++;
}

static void show_all(int fd, const char *like) {
  struct shown shown = {fd, 0, like};
  dprintf(fd, "%-45s %10s %10s %10s %10s %10s\n", "Processor", "Processed", "In Queue", "Max Depth", "Low water", "High water");
  tps_each(show_if_like, &shown);
  dprintf(fd, "\n%d taskprocessors\n\n", shown.count);
}

/* The queue holds functions without names. */
static void show(int fd, struct ast_taskprocessor *tps) {
  const char *slash = strchr(tps->name, '/');
  bh_serializer_stats stats;
  tps_stats(tps, &stats);
  dprintf(fd, "Taskprocessor: %s\n", tps->name);
  dprintf(fd, "Subsystem:            %.*s\n", slash ? (int)(slash - tps->name) : 6, slash ? tps->name : "(none)");
  dprintf(fd, "Tasks processed:      %llu\n", (unsigned long long)stats.processed);
  dprintf(fd, "Current queue size:   %llu\n", (unsigned long long)stats.queued_len);
  dprintf(fd, "Max queue depth:      %llu\n", (unsigned long long)stats.queued_high_water);
  dprintf(fd, "Low water mark:       %llu\n", (unsigned long long)stats.low_watermark);
  dprintf(fd, "High water mark:      %llu\n", (unsigned long long)stats.high_watermark);
  dprintf(fd, "High water alert:     %s\n", yes_or_no(stats.is_high != 0));
  dprintf(fd, "Suspended:            %s\n", yes_or_no(stats.suspend_count > 0));
  dprintf(fd, "Currently executing:  %s\n", yes_or_no(stats.running_for_ns > 0));
  dprintf(fd, stats.queued_len > 0 ? "Queued Tasks:\n" : "No tasks currently queued.\n");
  for (uint64_t i = 1; i <= stats.queued_len; i++) dprintf(fd, "  Task #%llu: (origin not available)\n", (unsigned long long)i);
}

static int pong(void *fd) { return dprintf((int)(intptr_t)fd, "Pong.\n"), 0; }

static void ping(int fd, struct ast_taskprocessor *tps) {
  if (tps->listener || ast_taskpool_serializer_push_wait(tps, pong, (void *)(intptr_t)fd) != 0) dprintf(fd, "No answer of %s.\n", tps->name);
}

static void reset(int fd, struct ast_taskprocessor *tps) {
  tps_reset(tps, NULL);
  dprintf(fd, "The statistics of %s begin again.\n", tps->name);
}

static const struct { const char *command; void (*run)(int fd, struct ast_taskprocessor *tps); } COMMANDS[] = {
    {"core show taskprocessor name ", show},
    {"core ping taskprocessor ", ping},
    {"core reset taskprocessor ", reset},
};

int ast_cli_command(int fd, const char *command) {
  static const char list[] = "core show taskprocessors", like[] = "core show taskprocessors like ";
  if (strcmp(command, list) == 0) return show_all(fd, ""), 0;
  if (strncmp(command, like, sizeof like - 1) == 0) return show_all(fd, command + sizeof like - 1), 0;
  if (strcmp(command, "core reset taskprocessors") == 0) return tps_each(tps_reset, NULL), 0;
  for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
    size_t len = strlen(COMMANDS[i].command);
    if (strncmp(command, COMMANDS[i].command, len) != 0) continue;
    struct ast_taskprocessor *tps = ast_taskprocessor_get(command + len, TPS_REF_IF_EXISTS);
    if (tps) COMMANDS[i].run(fd, tps);
    else dprintf(fd, "There is no task processor %s.\n", command + len);
    ast_taskprocessor_unreference(tps);
    return 0;
  }
  return -1;
}
