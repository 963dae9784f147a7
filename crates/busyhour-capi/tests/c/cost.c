/* Repeats one use of the library as often as given, and nothing else, for `scripts/count.sh c`, which counts instructions:
 *
 *     cost WAY COUNT
 */
#include "check.h"

static bh_pool *pool;
static bh_serializer *serializers[2];
static bh_timer_queue *queue;
static bh_timers *timers;
static bh_buffers *buffers;
static void *inside;
static bh_topic *idle, *cached;
static bh_record *records[1000];
static uint64_t handles[1000];
static atomic_long left, ended;

/* A deadline within a minute. */
static uint64_t scattered(long turn) { return ((uint64_t)turn * 0x9E3779B97F4A7C15) >> 28; }

static void nothing(long turn) { (void)turn; }

static void nothing_later(void *data) { (void)data; }

/* An extern call that does nothing. */
static void version(long turn) {
  (void)turn;
  if (!bh_version()) _exit(1);
}

static void pin_unpin(long turn) {
  (void)turn;
  OK(bh_buffers_pin(buffers, inside));
  OK(bh_buffers_unpin(buffers, inside));
}

static void find_unpin(long turn) {
  (void)turn;
  void *found;
  OK(bh_buffers_find(buffers, 1024, &found));
  OK(bh_buffers_unpin(buffers, found));
}

static void queue_add_cancel(long turn) {
  uint64_t handle;
  OK(bh_timer_queue_add(queue, (uint64_t)turn, &queue, &handle));
  OK(bh_timer_queue_cancel(queue, handle, NULL));
}

/* Among 1,000 others, in whose order it has a random place. */
static void queue_among_1000(long turn) {
  uint64_t *handle = &handles[turn % 1000];
  OK(bh_timer_queue_cancel(queue, *handle, NULL));
  OK(bh_timer_queue_add(queue, scattered(1000 + turn), &queue, handle));
}

static void timer_add_cancel(long turn) {
  bh_timer timer;
  (void)turn;
  OK(bh_timers_after(timers, SECONDS(1), NULL, nothing_later, NULL, NULL, &timer));
  OK(bh_timers_cancel(timers, timer, NULL));
}

static void publish_idle(long turn) { OK(bh_topic_publish_record(idle, records[turn % 1000], NULL)); }

static void publish_cached(long turn) { OK(bh_topic_publish_record(cached, records[turn % 1000], NULL)); }

static void look_up(long turn) {
  bh_event *event;
  char subject[16];
  snprintf(subject, sizeof subject, "%ld", turn % 1000);
  OK(bh_topic_get_record(cached, 1, subject, &event));
  bh_event_free(event);
}

static bool one_more(void) {
  if (atomic_fetch_sub(&left, 1) > 1) return true;
  atomic_store(&ended, 1);
  return false;
}

/* Each task pushes the next one. */
static void push_again(void *data) {
  if (one_more()) OK(bh_pool_push(pool, push_again, data, NULL));
}

/* Two serializers push a task to each other. */
static void hit(void *data) {
  size_t other = !(size_t)data;
  if (one_more()) OK(bh_serializer_push(serializers[other], hit, (void *)other, NULL));
}

static void begin_pool(long count) {
  bh_pool_options options = {.size = sizeof options, .workers = 1};
  OK(bh_pool_new(&options, &pool));
  for (int i = 0; i < 2; i++) OK(bh_serializer_new(pool, NULL, &serializers[i]));
  atomic_store(&left, count);
}

static void begin(void) {
  bh_topic_options options = {.size = sizeof options, .cached = 1};
  bh_timers_options of_timers = {.size = sizeof of_timers, .virtual_time = 1};
  bh_buffers_options of_buffers = {.size = sizeof of_buffers, .budget_bytes = 1 << 20};
  OK(bh_timers_new(&of_timers, &timers));
  OK(bh_timer_queue_new(&queue));
  OK(bh_buffers_new(&of_buffers, &buffers));
  OK(bh_buffers_find(buffers, 1024, &inside));
  OK(bh_topic_new(NULL, NULL, &idle));
  OK(bh_topic_new(NULL, &options, &cached));
  for (int i = 0; i < 1000; i++) {
    char subject[16];
    snprintf(subject, sizeof subject, "%d", i);
    OK(bh_record_new(1, subject, &records[i]));
    publish_cached(i);
  }
}

static void fill_queue(void) {
  for (long turn = 0; turn < 1000; turn++) OK(bh_timer_queue_add(queue, scattered(turn), &queue, &handles[turn]));
}

int main(int count, char **words) {
  const struct {
    const char *name;
    void (*use)(long turn);
    void (*task)(void *data);
  } ways[] = {
      {"nothing", nothing, NULL},
      {"version", version, NULL},
      {"pin-unpin", pin_unpin, NULL},
      {"find-unpin", find_unpin, NULL},
      {"queue-add-cancel", queue_add_cancel, NULL},
      {"queue-among-1000", queue_among_1000, NULL},
      {"timer-add-cancel", timer_add_cancel, NULL},
      {"publish-idle", publish_idle, NULL},
      {"publish-cached", publish_cached, NULL},
      {"lookup", look_up, NULL},
      {"push", NULL, push_again},
      {"ping-pong", NULL, hit},
  };
  for (size_t i = 0; count == 3 && i < sizeof ways / sizeof *ways; i++) {
    if (strcmp(words[1], ways[i].name) != 0) continue;
    long uses = atol(words[2]);
    if (ways[i].task) {
      begin_pool(uses);
      OK(bh_pool_push(pool, ways[i].task, NULL, NULL));
      await(&ended, 1);
      return 0;
    }
    begin();
    if (ways[i].use == queue_among_1000) fill_queue();
    for (long turn = 0; turn < uses; turn++) ways[i].use(turn);
    return 0;
  }
  fprintf(stderr, "usage: cost WAY COUNT\n");
  return 2;
}
