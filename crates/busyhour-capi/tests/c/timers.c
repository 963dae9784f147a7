/* Timers in virtual time against a list of deadlines, in the thread that delivers them. */
#include "check.h"

enum { TIMERS_MAX = 200, STEPS = 5000 };

struct expected {
  bh_timer timer;
  int32_t id;
  uint64_t due, added, owner;
  bool waits;
};

static struct expected expected[TIMERS_MAX];
static uint64_t now, added;
static bh_timers *timers;

static struct expected *earliest(void) {
  struct expected *best = NULL;
  for (int i = 0; i < TIMERS_MAX; i++) {
    struct expected *one = &expected[i];
    if (one->waits && (!best || one->due < best->due || (one->due == best->due && one->added < best->added)))
      best = one;
  }
  return best;
}

static long waiting(void) {
  long count = 0;
  for (int i = 0; i < TIMERS_MAX; i++) count += expected[i].waits;
  return count;
}

/* Each timer that runs must be the earliest of the list. */
static void runs(void *data) {
  struct expected *one = data;
  CHECK(one->waits && one == earliest() && one->due <= now);
  one->waits = false;
}

static void dropped(void *data) {
  CHECK(!((struct expected *)data)->waits);
  atomic_fetch_sub(&alive, 1);
}

static void add(struct expected *one) {
  bh_timer_options options = {.size = sizeof options, .owner = 1 + random_below(5), .label = random_below(2) ? "even" : "odd"};
  one->due = now + random_below(1000);
  one->added = added++;
  one->owner = options.owner;
  if (random_below(2)) options.deadline_ns = one->due; else options.delay_ns = one->due - now;
  if (options.deadline_ns == 0 && options.delay_ns == 0) one->due = now;
  options.out_id = random_below(2) ? &one->id : NULL;
  one->id = 0;
  one->waits = true;
  atomic_fetch_add(&alive, 1);
  OK(bh_timers_add(timers, &options, NULL, runs, one, dropped, &one->timer));
  bh_timer found;
  if (one->id != 0) {
    OK(bh_timers_by_id(timers, one->id, &found));
    CHECK(memcmp(&found, &one->timer, sizeof found) == 0);
  }
}

static void cancel(struct expected *one) {
  bool waited = one->waits;
  one->waits = false;
  bh_cancel result;
  OK(bh_timers_cancel(timers, one->timer, &result));
  CHECK(result == (waited ? BH_CANCEL_PREVENTED : BH_CANCEL_ALREADY_RAN));
}

static void reschedule(struct expected *one) {
  uint64_t left, due = now + random_below(1000);
  IS(one->waits ? BH_OK : BH_NOT_FOUND, bh_timers_reschedule(timers, one->timer, due));
  if (!one->waits) return;
  one->due = due;
  one->added = added++;
  OK(bh_timers_time_left(timers, one->timer, &left));
  CHECK(left == due - now);
}

static void pass_time(void) {
  uint64_t deadline, seen;
  OK(bh_timers_next_deadline(timers, &deadline));
  CHECK(deadline == (earliest() ? earliest()->due : UINT64_MAX));
  uint64_t by = random_below(60);
  now += by;
  OK(bh_timers_advance(timers, by));
  OK(bh_timers_now(timers, &seen));
  CHECK(seen == now);
  OK(bh_timers_run_due(timers, NULL));
  CHECK(!earliest() || earliest()->due > now);
}

static void cancel_owner(uint64_t owner) {
  long count = 0;
  for (int i = 0; i < TIMERS_MAX; i++)
    if (expected[i].waits && expected[i].owner == owner) expected[i].waits = false, count++;
  size_t cancelled;
  OK(bh_timers_cancel_owner(timers, owner, &cancelled));
  CHECK((long)cancelled == count);
}

static int32_t count_waiting(const bh_pending_timer *timer, void *data) {
  CHECK(timer->phase == BH_PHASE_WAITING && timer->due_ns >= now);
  CHECK(strcmp(timer->label, "even") == 0 || strcmp(timer->label, "odd") == 0);
  ++*(long *)data;
  return 1;
}

static int32_t count_label(const bh_label_stats *stats, void *data) {
  CHECK(strcmp(stats->label, "even") == 0 || strcmp(stats->label, "odd") == 0);
  CHECK(stats->added >= stats->cancelled + stats->expired + stats->pending_count && stats->expired > 0);
  *(long *)data += (long)stats->pending_count;
  return 1;
}

static int32_t is_late(const bh_pending_timer *timer, void *data) {
  return timer->due_ns > *(uint64_t *)data;
}

static void clean_by_predicate(void) {
  uint64_t limit = now + 700;
  long count = 0;
  for (int i = 0; i < TIMERS_MAX; i++)
    if (expected[i].waits && expected[i].due > limit) expected[i].waits = false, count++;
  size_t cancelled;
  OK(bh_timers_cancel_where(timers, is_late, &limit, &cancelled));
  CHECK((long)cancelled == count);
}

static void agrees_with_the_list(void) {
  bh_timers_options options = {.size = sizeof options, .shards = 1, .virtual_time = 1};
  OK(bh_timers_new(&options, &timers));
  for (int i = 0; i < rounds(STEPS); i++) {
    struct expected *one = &expected[random_below(TIMERS_MAX)];
    switch (random_below(8)) {
      case 0: case 1: case 2: if (!one->waits) add(one); break;
      case 3: if (one->timer.bits[1]) cancel(one); break;
      case 4: reschedule(one); break;
      case 5: if (random_below(50) == 0) cancel_owner(1 + random_below(5)); break;
      case 6: if (random_below(50) == 0) clean_by_predicate(); break;
      default: pass_time();
    }
    CHECK(atomic_load(&alive) == waiting());
  }
  long listed = 0;
  OK(bh_timers_list(timers, count_waiting, &listed));
  CHECK(listed == waiting() && listed > 0);
  long labelled = 0;
  OK(bh_timers_labels(timers, count_label, &labelled));
  CHECK(labelled == listed);
  IS(BH_NULL, bh_timers_labels(timers, NULL, NULL));
  char *report;
  OK(bh_timers_report(timers, &report));
  CHECK(strstr(report, "\"even\"") && strstr(report, "\"pending_count\""));
  bh_text_free(report);
  for (int i = 0; i < TIMERS_MAX; i++) expected[i].waits = false;
  bh_timers_free(timers); /* drops what waits */
  CHECK(atomic_load(&alive) == 0);
}

static uint64_t delays[] = {10, 20, 5, 0};
static size_t delay_count;
static uint64_t next_delay(void *data) {
  (void)data;
  return delays[delay_count++];
}

static void count_tick(void *data) { ++*(long *)data; }

static void run_until(uint64_t to) {
  uint64_t at;
  OK(bh_timers_now(timers, &at));
  for (; at < to; at++) {
    OK(bh_timers_advance(timers, 1));
    OK(bh_timers_run_due(timers, NULL));
  }
}

static int32_t is_every_seven(const bh_pending_timer *timer, void *data) {
  return ++*(long *)data, timer->repeat == BH_REPEAT_EVERY && timer->period_ns == 7;
}

static void the_kinds_of_timers(void) {
  bh_timers_options options = {.size = sizeof options, .virtual_time = 1};
  OK(bh_timers_new(&options, &timers));
  bh_timer_options timer = {.size = sizeof timer, .delay_ns = 3};
  int32_t id;
  timer.out_id = &id;
  OK(bh_timers_add_variable(timers, &timer, NULL, next_delay, counted(), drop_counted, NULL));
  run_until(3);
  CHECK(delay_count == 1);
  run_until(12);
  CHECK(delay_count == 1);
  run_until(13);
  CHECK(delay_count == 2);
  bh_timer found;
  OK(bh_timers_by_id(timers, id, &found));
  run_until(40);
  CHECK(delay_count == 4 && atomic_load(&alive) == 0);
  IS(BH_NOT_FOUND, bh_timers_by_id(timers, id, &found));
  IS(BH_NOT_FOUND, bh_timers_by_id(timers, 0, &found));
  IS(BH_NOT_FOUND, bh_timers_by_id(timers, -1, &found));
  IS(BH_NOT_FOUND, bh_timers_by_id(timers, INT32_MAX, &found));

  long ticks = 0;
  bh_timer_options every = {.size = sizeof every, .period_ns = 7, .label = "tick"};
  bh_timer periodic;
  OK(bh_timers_add(timers, &every, NULL, count_tick, &ticks, NULL, &periodic));
  run_until(40 + 70);
  CHECK(ticks == 10);
  OK(bh_timers_advance(timers, 35)); /* five ticks at once: four are skipped */
  OK(bh_timers_run_due(timers, NULL));
  CHECK(ticks == 11);
  long asked = 0;
  size_t count;
  OK(bh_timers_after(timers, 1, NULL, count_run, counted(), drop_counted, NULL));
  OK(bh_timers_cancel_where(timers, is_every_seven, &asked, &count));
  CHECK(asked == 2 && count == 1);
  OK(bh_timers_add(timers, &every, NULL, count_tick, &ticks, NULL, &periodic));
  run_until(40 + 70 + 36);
  OK(bh_timers_cancel_label(timers, "tick", &count));
  CHECK(count == 1);
  IS(BH_INVALID, bh_timers_add_variable(timers, &every, NULL, next_delay, counted(), drop_counted, NULL));
  every.missed = 9;
  IS(BH_INVALID, bh_timers_add(timers, &every, NULL, count_run, counted(), drop_counted, NULL));
  bh_timer_options both = {.size = sizeof both, .delay_ns = 1, .deadline_ns = 1};
  IS(BH_INVALID, bh_timers_add(timers, &both, NULL, count_run, counted(), drop_counted, NULL));
  CHECK(atomic_load(&alive) == 0);
  bh_timers_free(timers);
}

static uint64_t twice_more(void *data) {
  count_run(data);
  return atomic_load(&ran) < 5 ? 10 : 0;
}

static void a_timer_is_replaced(void) {
  bh_timers_options options = {.size = sizeof options, .virtual_time = 1, .capacity = 2, .shards = 1};
  OK(bh_timers_new(&options, &timers));
  bh_timer_options soon = {.size = sizeof soon, .delay_ns = 5};
  bh_timer timer = {{0, 0}};
  bh_cancel old;
  atomic_store(&ran, 0);
  OK(bh_timers_replace(timers, &timer, &soon, NULL, count_run, counted(), drop_counted, &old));
  CHECK(old == BH_CANCEL_ALREADY_RAN); /* there was none */
  OK(bh_timers_replace(timers, &timer, &soon, NULL, count_run, counted(), drop_counted, &old));
  CHECK(old == BH_CANCEL_PREVENTED && atomic_load(&alive) == 1);
  OK(bh_timers_after(timers, 5, NULL, count_run, counted(), drop_counted, NULL));
  bh_timer before = timer;
  IS(BH_FULL, bh_timers_replace(timers, &timer, &soon, NULL, count_run, counted(), drop_counted, &old));
  CHECK(memcmp(&before, &timer, sizeof timer) == 0 && atomic_load(&alive) == 2); /* the old one stays */
  IS(BH_NULL, bh_timers_replace(timers, NULL, &soon, NULL, count_run, counted(), drop_counted, &old));
  IS(BH_FULL, bh_timers_replace_variable(timers, &timer, &soon, NULL, next_delay, counted(), drop_counted, &old));
  CHECK(memcmp(&before, &timer, sizeof timer) == 0 && atomic_load(&alive) == 2);
  run_until(5);
  CHECK(atomic_load(&ran) == 2 && atomic_load(&alive) == 0);
  /* By one that runs at 10, and then after the delays that it returns. */
  OK(bh_timers_replace_variable(timers, &timer, &soon, NULL, twice_more, counted(), drop_counted, &old));
  CHECK(old == BH_CANCEL_ALREADY_RAN);
  OK(bh_timers_replace_variable(timers, &timer, &soon, NULL, twice_more, counted(), drop_counted, &old));
  CHECK(old == BH_CANCEL_PREVENTED && atomic_load(&alive) == 1);
  run_until(30);
  CHECK(atomic_load(&ran) == 5 && atomic_load(&alive) == 0);
  soon.period_ns = 1;
  IS(BH_INVALID, bh_timers_replace_variable(timers, &timer, &soon, NULL, next_delay, counted(), drop_counted, &old));
  OK(bh_timers_close(timers, NULL));
  IS(BH_SHUT_DOWN, bh_timers_after(timers, 1, NULL, count_run, counted(), drop_counted, NULL));
  CHECK(atomic_load(&alive) == 0);
  bh_timers_free(timers);
}

static void bad_arguments(void) {
  IS(BH_NULL, bh_timers_after(NULL, 1, NULL, count_run, counted(), drop_counted, NULL));
  OK(bh_timers_new(NULL, &timers));
  IS(BH_NULL, bh_timers_after(timers, 1, NULL, NULL, counted(), drop_counted, NULL));
  IS(BH_INVALID, bh_timers_advance(timers, 1)); /* the machine's clock */
  IS(BH_INVALID, bh_timers_cancel_owner(timers, 0, NULL));
  IS(BH_NULL, bh_timers_list(timers, NULL, NULL));
  bh_timer_options bad = {.size = sizeof bad, .label = "\xff"};
  IS(BH_INVALID, bh_timers_add(timers, &bad, NULL, count_run, counted(), drop_counted, NULL));
  bh_timer_options no_period = {.size = sizeof no_period, .delay_ns = 1, .fixed_delay = 1};
  IS(BH_INVALID, bh_timers_add(timers, &no_period, NULL, count_run, counted(), drop_counted, NULL));
  bh_timer none = {{0, 0}}, garbage = {{UINT64_MAX, UINT64_MAX}};
  bh_cancel result;
  OK(bh_timers_cancel(timers, none, &result));
  CHECK(result == BH_CANCEL_ALREADY_RAN);
  OK(bh_timers_cancel_and_wait(timers, garbage, &result));
  CHECK(result == BH_CANCEL_ALREADY_RAN && atomic_load(&alive) == 0);
  bh_timers_free(timers);
  bh_timers_free(NULL);
}

/* As many as the header says, and no more. */
static void labels_are_bounded(void) {
  bh_timers_options one_shard = {.size = sizeof one_shard, .shards = 1, .virtual_time = 1};
  bh_timer_options options = {.size = sizeof options, .delay_ns = 1};
  char label[20], why[200];
  OK(bh_timers_new(&one_shard, &timers));
  options.label = label;
  for (int i = 0; i < 1024; i++) {
    snprintf(label, sizeof label, "class %d", i);
    OK(bh_timers_add(timers, &options, NULL, count_run, counted(), drop_counted, NULL));
  }
  snprintf(label, sizeof label, "one more");
  IS(BH_FULL, bh_timers_add(timers, &options, NULL, count_run, counted(), drop_counted, NULL));
  CHECK(bh_last_error(why, sizeof why) < sizeof why && strstr(why, "shard") && strstr(why, "1,024 labels"));
  snprintf(label, sizeof label, "class 7");
  OK(bh_timers_add(timers, &options, NULL, count_run, counted(), drop_counted, NULL));
  bh_timers_free(timers);
  CHECK(atomic_load(&alive) == 0);
}

int main(void) {
  agrees_with_the_list();
  the_kinds_of_timers();
  a_timer_is_replaced();
  bad_arguments();
  labels_are_bounded();
  return 0;
}
