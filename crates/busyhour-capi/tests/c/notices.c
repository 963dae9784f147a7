/* What topics tell of themselves: their subscriptions, filters by attribute and by any element, the alerts of queues. */
#include "check.h"

enum { LINES = 12, STATES = 4, STEPS = 600, LINE = 1, STATE = 2, NAME = 3 };

static bh_record *call(long line, uint32_t state) {
  char subject[32], name[32];
  bh_record *record;
  snprintf(subject, sizeof subject, "line %ld", line);
  snprintf(name, sizeof name, "state %u", state);
  OK(bh_record_new(1, subject, &record));
  OK(bh_record_set_u32(record, LINE, (uint32_t)line));
  OK(bh_record_set_u32(record, STATE, state));
  OK(bh_record_set_text(record, NAME, name));
  return record;
}

static void publish(bh_topic *topic, long line, uint32_t state) {
  bh_record *record = call(line, state);
  OK(bh_topic_publish_record(topic, record, NULL));
  bh_record_free(record);
}

static long received[3][STATES];
static void count_state(const bh_delivery *delivery, void *data) {
  uint32_t state;
  if (delivery->kind != BH_DELIVERY_EVENT) return;
  OK(bh_record_get_u32(bh_event_record(delivery->event), STATE, &state));
  CHECK(&received[0][0] <= (long *)data && state == ((long *)data - &received[0][0]) % STATES); /* no other one */
  ++*(long *)data;
}

static atomic_long computed;
static uint64_t state_of(const bh_event *event, void *data) {
  uint32_t state = 0;
  atomic_fetch_add(&computed, 1);
  ((volatile char *)data)[0] = 1;
  bh_record_get_u32(bh_event_record(event), STATE, &state);
  return state;
}

/* Three ways to ask for one state; each counts what an oracle counts. */
static void attributes(void) {
  bh_topic *topic;
  bh_attribute *by_function, *by_element, *by_name;
  bh_subscription *subscriptions[3][STATES];
  long expected[STATES] = {0};
  OK(bh_topic_new(NULL, &(bh_topic_options){.size = sizeof(bh_topic_options), .cached = 1}, &topic));
  OK(bh_attribute_new(state_of, counted(), drop_counted, &by_function));
  OK(bh_attribute_of_element(STATE, &by_element));
  OK(bh_attribute_of_element(NAME, &by_name));
  for (uint32_t state = 0; state < STATES; state++) {
    bh_record *like = call(0, state);
    bh_event *event;
    OK(bh_event_of_record(like, &event));
    bh_subscription_options options[3] = {
        {.size = sizeof *options, .attribute = by_function, .attribute_number = state},
        {.size = sizeof *options, .attribute = by_element, .attribute_number = state},
        {.size = sizeof *options, .attribute = by_name, .attribute_like = event},
    };
    for (int way = 0; way < 3; way++)
      OK(bh_topic_subscribe(topic, &options[way], count_state, &received[way][state], NULL, &subscriptions[way][state]));
    bh_event_free(event);
    bh_record_free(like);
  }
  bh_subscription_options both = {.size = sizeof both, .attribute = by_element, .pattern = (const bh_pattern *)by_element};
  bh_subscription_options wide = {.size = sizeof wide, .attribute = by_element, .attribute_number = UINT64_MAX};
  bh_subscription *none;
  IS(BH_INVALID, bh_topic_subscribe(topic, &both, count_state, NULL, NULL, &none));
  IS(BH_INVALID, bh_topic_subscribe(topic, &wide, count_state, NULL, NULL, &none));
  IS(BH_NULL, bh_attribute_new(NULL, counted(), drop_counted, &by_function));
  bh_attribute_free(by_function); /* the subscriptions go on */
  bh_attribute_free(by_element);
  bh_attribute_free(by_name);
  atomic_store(&computed, 0);
  for (int i = 0; i < rounds(STEPS); i++) {
    uint32_t state = (uint32_t)random_below(STATES);
    publish(topic, (long)random_below(LINES), state);
    expected[state]++;
  }
  for (int way = 0; way < 3; way++) CHECK(memcmp(received[way], expected, sizeof expected) == 0);
  CHECK(atomic_load(&computed) <= 3 * STEPS); /* not once for each subscription */
  for (int way = 0; way < 3; way++)
    for (int state = 0; state < STATES; state++) bh_subscription_free(subscriptions[way][state]);
  bh_topic_free(topic);
  CHECK(atomic_load(&alive) == 0);
}

/* Any elements, against an array. */
static void found_by_any_element(void) {
  long states[LINES];
  bh_topic *topic;
  bh_event *event;
  OK(bh_topic_new(NULL, &(bh_topic_options){.size = sizeof(bh_topic_options), .cached = 1, .name = "calls"}, &topic));
  for (long line = 0; line < LINES; line++) publish(topic, line, (uint32_t)(states[line] = (long)random_below(STATES - 1)));
  for (uint32_t line = 0; line < LINES; line++)
    for (uint32_t state = 0; state < STATES; state++) {
      bh_pattern *pattern;
      OK(bh_pattern_new(&pattern));
      OK(bh_pattern_u32(pattern, LINE, line));
      OK(bh_pattern_u32(pattern, STATE, state));
      IS(states[line] == (long)state ? BH_OK : BH_NOT_FOUND, bh_topic_find_record(topic, pattern, &event));
      if (states[line] == (long)state) {
        char name[32], cut[4];
        uint64_t node = 9;
        CHECK(bh_record_get_text(bh_event_record(event), NAME, name, sizeof name) == 7 && name[6] == '0' + (char)state);
        CHECK(bh_record_get_text(bh_event_record(event), NAME, cut, sizeof cut) == 7 && strcmp(cut, "sta") == 0);
        CHECK(bh_record_get_text(bh_event_record(event), STATE, name, sizeof name) == 0);
        OK(bh_topic_origin_of(topic, event, &node));
        CHECK(node == 0 && bh_topic_would_deliver(topic, event) == 0);
        bh_event_free(event);
      }
      bh_pattern_free(pattern);
    }
  bh_pattern *first, *any;
  bh_published published;
  long of_first = 0;
  for (long line = 0; line < LINES; line++) of_first += states[line] == states[0];
  OK(bh_pattern_new(&first));
  OK(bh_pattern_new(&any));
  OK(bh_pattern_u32(first, STATE, (uint32_t)states[0]));
  OK(bh_topic_remove_records(topic, first, &published));
  CHECK((long)published.removed == of_first && (long)bh_topic_len(topic) == LINES - of_first);
  IS(BH_NOT_FOUND, bh_topic_find_record(topic, first, &event));
  IS(BH_NULL, bh_topic_find_record(topic, NULL, &event));
  char name[16];
  bh_topic_stats stats;
  CHECK(bh_topic_name(topic, name, sizeof name) == 5 && strcmp(name, "calls") == 0 && bh_topic_name(NULL, name, 1) == 0);
  OK(bh_topic_get_stats(topic, &stats));
  CHECK(stats.published == LINES && (long)stats.cached_count == LINES - of_first && stats.subscriber_count == 0);
  publish(topic, 3, 1);
  OK(bh_topic_find_record(topic, any, &event));
  OK(bh_topic_remove_from(topic, 5, event, &published)); /* whichever node published it */
  CHECK(published.removed == 1);
  bh_event_free(event);
  bh_pattern_free(first);
  bh_pattern_free(any);
  bh_topic_free(topic);
}

static bh_topic *seen_topic;
static int32_t note(const bh_subscription_stats *stats, void *data) {
  char *text = data;
  size_t len = strlen(text);
  snprintf(text + len, 300 - len, "%s/%s %d %lu of %lu, %lu, %lu lost; ", stats->topic, stats->name, stats->filter,
           (unsigned long)stats->queued_len, (unsigned long)stats->capacity, (unsigned long)stats->delivered, (unsigned long)stats->lost);
  return strncmp(stats->name, "last", 4) != 0;
}

static int32_t free_it(const bh_subscription_stats *stats, void *data) {
  bh_subscription_free(*(bh_subscription **)data);
  bh_topic_free(seen_topic);
  return stats->name[0] == 0; /* still valid */
}

static uint64_t hash_all(const void *object, void *data) { return (void)object, (void)data, 0; }
static int32_t all_equal(const void *one, const void *other, void *data) { return (void)one, (void)other, (void)data, 1; }
static void ignore(const bh_delivery *delivery, void *data) { (void)delivery, (void)data; }

static void subscriptions_are_listed_and_announced(void) {
  bh_runtime *runtime;
  bh_pool *pool;
  bh_executor *on;
  bh_topic *topic, *announcements, *structs;
  bh_subscription *slow, *quick, *pair[2];
  bh_pattern *pattern;
  OK(bh_runtime_simulated(1, &runtime));
  OK(bh_runtime_pool(runtime, &pool));
  OK(bh_executor_of_pool(pool, &on));
  OK(bh_topic_new(NULL, &(bh_topic_options){.size = sizeof(bh_topic_options), .cached = 1}, &announcements));
  bh_topic_options options = {.size = sizeof options, .name = "calls", .announcements = announcements};
  OK(bh_topic_new(runtime, &options, &topic));
  OK(bh_pattern_new(&pattern));
  bh_subscription_options waits = {.size = sizeof waits, .name = "slow", .on = on, .capacity = 3, .overflow = BH_OVERFLOW_DROP_OLDEST, .pattern = pattern};
  OK(bh_topic_subscribe(topic, &waits, ignore, NULL, NULL, &slow));
  OK(bh_topic_subscribe(topic, NULL, ignore, NULL, NULL, &quick));
  bh_pattern_free(pattern);
  for (long i = 0; i < 5; i++) publish(topic, i, 0);
  char text[300] = "", again[300] = "";
  OK(bh_topic_subscriptions(topic, note, text));
  CHECK(strcmp(text, "calls/slow 2 3 of 3, 0, 2 lost; calls/ 0 0 of 1024, 5, 0 lost; ") == 0);
  OK(bh_runtime_subscriptions(runtime, note, again));
  CHECK(strcmp(text, again) == 0 && !bh_subscription_is_idle(slow) && bh_subscription_is_idle(quick));
  IS(BH_NULL, bh_topic_subscriptions(topic, NULL, NULL));

  /* Both are announced, by name, until they end, though the topic's own handle is gone. */
  bh_event *event;
  char name[16];
  uint32_t filter;
  CHECK(bh_topic_len(announcements) == 2);
  OK(bh_pattern_new(&pattern));
  OK(bh_pattern_text(pattern, BH_ANNOUNCEMENT_NAME, "slow"));
  OK(bh_topic_find_record(announcements, pattern, &event));
  OK(bh_record_get_u32(bh_event_record(event), BH_ANNOUNCEMENT_FILTER, &filter));
  CHECK(filter == BH_FILTER_PREDICATE && bh_record_get_text(bh_event_record(event), BH_ANNOUNCEMENT_TOPIC, name, sizeof name) == 5);
  CHECK(strcmp(name, "calls") == 0);
  bh_event_free(event);
  seen_topic = topic;
  OK(bh_topic_subscriptions(topic, free_it, &slow)); /* a callback may free both */
  CHECK(bh_topic_len(announcements) == 1);
  IS(BH_NOT_FOUND, bh_topic_find_record(announcements, pattern, &event));
  bh_subscription_free(quick);
  CHECK(bh_topic_len(announcements) == 0);
  bh_pattern_free(pattern);

  /* Many topics announce on one; only one of records may be it. */
  for (int i = 0; i < 2; i++) {
    OK(bh_topic_new(NULL, &options, &topic));
    OK(bh_topic_subscribe(topic, NULL, ignore, NULL, NULL, &pair[i]));
    bh_topic_free(topic);
  }
  CHECK(bh_topic_len(announcements) == 2);
  for (int i = 0; i < 2; i++) bh_subscription_free(pair[i]);
  CHECK(bh_topic_len(announcements) == 0);
  bh_topic_options of_structs = {.size = sizeof of_structs, .hash = hash_all, .equal = all_equal};
  OK(bh_topic_new(NULL, &of_structs, &structs));
  options.announcements = structs;
  IS(BH_INVALID, bh_topic_new(NULL, &options, &topic));
  bh_topic_free(structs);
  bh_topic_free(announcements);
  OK(bh_runtime_shutdown(runtime, SECONDS(1), NULL));
  bh_executor_free(on);
  bh_pool_free(pool);
  bh_runtime_free(runtime);
}

struct heard { long high, low, removed; uint32_t longest; };
static void hear(const bh_delivery *delivery, void *data) {
  struct heard *heard = data;
  uint32_t is_high, len;
  if (delivery->kind == BH_DELIVERY_REMOVED) heard->removed++;
  if (delivery->kind != BH_DELIVERY_EVENT) return;
  OK(bh_record_get_u32(bh_event_record(delivery->event), BH_ALERT_IS_HIGH, &is_high));
  OK(bh_record_get_u32(bh_event_record(delivery->event), BH_ALERT_QUEUED_LEN, &len));
  ++*(is_high ? &heard->high : &heard->low);
  if (len > heard->longest) heard->longest = len;
}

static void alerts_of_queues_are_events(void) {
  bh_runtime *runtime;
  bh_topic *alerts, *late;
  bh_subscription *subscription;
  bh_serializer *calls, *device;
  bh_template *devices;
  bh_event *event;
  struct heard heard = {0};
  char name[32];
  OK(bh_runtime_simulated(9, &runtime));
  OK(bh_runtime_alerts(runtime, &alerts));
  OK(bh_topic_subscribe(alerts, NULL, hear, &heard, NULL, &subscription));
  bh_serializer_options options = {.size = sizeof options, .name = "calls", .high_watermark = 3, .low_watermark = 1};
  OK(bh_runtime_serializer(runtime, &options, &calls));
  options.name = "device";
  OK(bh_runtime_template(runtime, &options, &devices));
  CHECK(bh_template_name(devices, name, sizeof name) == 6 && strcmp(name, "device") == 0);
  OK(bh_template_serializer(devices, &device));
  for (int i = 0; i < 4; i++) OK(bh_serializer_push(calls, count_run, counted(), drop_counted));
  for (int i = 0; i < 4; i++) OK(bh_serializer_push(device, count_run, counted(), drop_counted));
  CHECK(heard.high == 2 && heard.low == 0 && heard.longest == 3 && bh_topic_len(alerts) == 2);
  OK(bh_topic_get_record(alerts, 1, "device #1", &event));
  CHECK(bh_record_get_text(bh_event_record(event), BH_ALERT_NAME, name, sizeof name) == 6);
  bh_event_free(event);
  OK(bh_runtime_alerts(runtime, &late)); /* what there is comes at once */
  CHECK(bh_topic_len(late) == 2);
  OK(bh_simulation_run_until_idle(runtime));
  CHECK(heard.high == 2 && heard.low == 2 && heard.removed == 1 && atomic_load(&alive) == 0);
  CHECK(bh_topic_len(late) == 1); /* that of the template's is removed */
  OK(bh_topic_get_record(late, 1, "calls", &event));
  bh_event_free(event);
  bh_topic_free(late);
  options = (bh_serializer_options){.size = sizeof options, .high_watermark = 3};
  IS(BH_INVALID, bh_runtime_serializer(runtime, &options, &calls)); /* it has no name */
  char why[256];
  CHECK(bh_last_error(why, sizeof why) < sizeof why && strstr(why, "options.name") && !strstr(why, "::"));
  /* A subscription keeps the alerts coming, though the topic's handle is gone. */
  bh_topic_free(alerts);
  for (int i = 0; i < 4; i++) OK(bh_serializer_push(calls, count_run, counted(), drop_counted));
  CHECK(heard.high == 3);
  bh_subscription_free(subscription);
  bh_serializer_free(calls);
  bh_serializer_free(device);
  bh_template_free(devices);
  OK(bh_runtime_shutdown(runtime, SECONDS(1), NULL));
  bh_runtime_free(runtime);
  CHECK(atomic_load(&alive) == 0);
}

/* A runtime with all options of a pool; its driver stops for good. */
static void the_other_options(void) {
  bh_pool_options workers = {.size = sizeof workers, .workers = 5, .capacity = 1, .sorted_max = 4, .sorted_again = 2};
  bh_runtime_options options = {.size = sizeof options, .workers = 1, .pool = &workers};
  bh_runtime *runtime;
  bh_snapshot snapshot;
  OK(bh_runtime_new(&options, &runtime));
  OK(bh_runtime_snapshot(runtime, &snapshot));
  CHECK(snapshot.pool.worker_count == 1);
  OK(bh_runtime_shutdown(runtime, LONG, NULL));
  bh_runtime_free(runtime);
  workers.sorted_again = 4;
  IS(BH_INVALID, bh_runtime_new(&options, &runtime));
  bh_timers *timers;
  bh_timers_stats stats;
  OK(bh_timers_new(NULL, &timers));
  IS(BH_NOT_FOUND, bh_timers_stop_driver(timers, LONG));
  OK(bh_timers_spawn_driver(timers));
  atomic_store(&ran, 0);
  OK(bh_timers_after(timers, 1, NULL, count_run, counted(), drop_counted, NULL));
  await(&ran, 1);
  OK(bh_timers_stop_driver(timers, LONG));
  OK(bh_timers_after(timers, 1, NULL, count_run, counted(), drop_counted, NULL));
  /* Nobody else delivers it. */
  for (size_t count = 0; count == 0;) OK(bh_timers_run_due(timers, &count));
  OK(bh_timers_get_stats(timers, &stats));
  CHECK(atomic_load(&ran) == 2 && stats.added == 2 && stats.expired == 2);
  bh_timers_free(timers);
  CHECK(atomic_load(&alive) == 0);
}

int main(void) {
  attributes();
  found_by_any_element();
  subscriptions_are_listed_and_announced();
  alerts_of_queues_are_events();
  the_other_options();
  return 0;
}
