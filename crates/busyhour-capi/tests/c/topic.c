/* Topics against an array of last values: records, structs of the program, replay, losses, nodes. */
#include "check.h"

#include <pthread.h>

enum { KEYS = 20, STEPS = 3000, STATE = 1, CALLS = 2, BITS = 3, RAW = 4 };

/* A struct of the program: its key is the line. */
struct line {
  char name[32];
  long value;
};

static uint64_t hash_line(const void *object, void *data) {
  atomic_fetch_add((atomic_long *)data, 1);
  uint64_t hash = 14695981039346656037u;
  for (const char *c = ((const struct line *)object)->name; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
  return hash % 7; /* many equal hashes: the comparison decides */
}

static int32_t equal_lines(const void *one, const void *other, void *data) {
  (void)data;
  return strcmp(((const struct line *)one)->name, ((const struct line *)other)->name) == 0;
}

static atomic_long hashes;
#define LINES .hash = hash_line, .equal = equal_lines, .key_data = &hashes

static struct line *new_line(int key, long value) {
  struct line *line = malloc(sizeof *line);
  snprintf(line->name, sizeof line->name, "line %d", key);
  line->value = value;
  atomic_fetch_add(&alive, 1);
  return line;
}

static int key_of(const struct line *line) { return atoi(line->name + 5); }

/* What a subscriber has seen: the last value of each key. */
struct seen {
  long value[KEYS];
  bool there[KEYS];
  long replays, events, lost, removals;
};

static void see(const bh_delivery *delivery, void *data) {
  struct seen *seen = data;
  switch (delivery->kind) {
    case BH_DELIVERY_EVENT: {
      const struct line *line = bh_event_object(delivery->event);
      CHECK(line != NULL && bh_event_record(delivery->event) == NULL);
      seen->there[key_of(line)] = true;
      seen->value[key_of(line)] = line->value;
      seen->events++;
      break;
    }
    case BH_DELIVERY_REMOVED:
      CHECK(delivery->removed_subject == NULL);
      seen->there[key_of(delivery->removed_object)] = false;
      seen->removals++;
      break;
    case BH_DELIVERY_REPLAYED: seen->replays++; break;
    case BH_DELIVERY_LOST: seen->lost += (long)delivery->lost; break;
  }
}

static struct seen oracle, early, late, one_key;

static void agrees(bh_topic *topic, const struct seen *seen) {
  long count = 0;
  for (int key = 0; key < KEYS; key++) {
    struct line wanted;
    snprintf(wanted.name, sizeof wanted.name, "line %d", key);
    bh_event *event;
    IS(oracle.there[key] ? BH_OK : BH_NOT_FOUND, bh_topic_get(topic, &wanted, &event));
    CHECK(seen->there[key] == oracle.there[key]);
    if (!oracle.there[key]) continue;
    count++;
    CHECK(((const struct line *)bh_event_object(event))->value == oracle.value[key]);
    CHECK(seen->value[key] == oracle.value[key]);
    bh_event_free(event);
  }
  CHECK((long)bh_topic_len(topic) == count);
}

static int32_t is_even(const bh_event *event, void *data) {
  (void)data;
  return key_of(bh_event_object(event)) % 2 == 0;
}

static int32_t count_each(const bh_event *event, void *data) {
  (void)event;
  return ++*(long *)data < 3;
}

static void structs_of_the_program(void) {
  bh_topic_options options = {.size = sizeof options, .name = "lines", .cached = 1, LINES};
  bh_subscription_options replay = {.size = sizeof replay, .replay = 1};
  bh_subscription *first, *second = NULL, *third;
  bh_topic *topic;
  OK(bh_topic_new(NULL, &options, &topic));
  OK(bh_topic_subscribe(topic, NULL, see, &early, NULL, &first));
  bh_event *three;
  OK(bh_event_of_object(topic, new_line(3, 0), drop_counted, &three));
  bh_subscription_options of_three = {.size = sizeof of_three, .key = three};
  OK(bh_topic_subscribe(topic, &of_three, see, &one_key, NULL, &third));
  for (int i = 0, count = rounds(STEPS); i < count; i++) {
    int key = (int)random_below(KEYS);
    bh_published published;
    if (random_below(4)) {
      OK(bh_topic_publish(topic, new_line(key, i), drop_counted, &published));
      CHECK(published.delivered >= 1 && published.lost == 0 && !published.refused);
      oracle.there[key] = true;
      oracle.value[key] = i;
    } else {
      bh_event *event;
      OK(bh_event_of_object(topic, new_line(key, 0), drop_counted, &event));
      OK(bh_topic_remove(topic, event, &published));
      CHECK(published.removed == oracle.there[key]);
      oracle.there[key] = false;
      bh_event_free(event);
    }
    if (i == rounds(STEPS) / 2) {
      OK(bh_topic_subscribe(topic, &replay, see, &late, NULL, &second));
      CHECK(late.replays == 1 && late.events == (long)bh_topic_len(topic));
    }
  }
  agrees(topic, &early);
  agrees(topic, &late);
  CHECK(one_key.there[3] == oracle.there[3] && one_key.value[3] == (oracle.there[3] ? oracle.value[3] : one_key.value[3]));
  for (int key = 0; key < KEYS; key++) CHECK(key == 3 || !one_key.there[key]);
  CHECK(early.replays == 0 && early.lost == 0 && hashes > rounds(STEPS));

  long before = late.events;
  OK(bh_subscription_replay(second));
  CHECK(late.replays == 2 && late.events == before + (long)bh_topic_len(topic));
  bh_event *found;
  OK(bh_topic_find(topic, is_even, NULL, &found));
  CHECK(key_of(bh_event_object(found)) % 2 == 0);
  bh_event_free(found);
  long each = 0;
  OK(bh_topic_each(topic, count_each, &each));
  CHECK(each == 3);
  bh_published removed;
  OK(bh_topic_remove_where(topic, is_even, NULL, &removed));
  CHECK(removed.removed > 0);
  IS(BH_NOT_FOUND, bh_topic_find(topic, is_even, NULL, &found));
  bh_event_free(three);
  bh_subscription_free(first);
  bh_subscription_free(second);
  bh_subscription_free(third);
  bh_topic_free(topic);
  CHECK(atomic_load(&alive) == 0); /* every struct was freed once */
}

struct record_seen {
  long events, removals;
  uint32_t state;
};

static void see_record(const bh_delivery *delivery, void *data) {
  struct record_seen *seen = data;
  if (delivery->kind == BH_DELIVERY_REMOVED) {
    CHECK(strcmp(delivery->removed_subject, "SIP/door") == 0 && delivery->removed_sort == 7);
    CHECK(delivery->removed_object == NULL);
    seen->removals++;
    return;
  }
  const bh_record *record = bh_event_record(delivery->event);
  CHECK(record != NULL && bh_event_object(delivery->event) == NULL);
  OK(bh_record_get_u32(record, STATE, &seen->state));
  seen->events++;
}

static void records_and_patterns(void) {
  bh_record *record, *decoded;
  OK(bh_record_new(7, "SIP/door", &record));
  OK(bh_record_set_u32(record, STATE, 5));
  OK(bh_record_set_text(record, CALLS, "zwei"));
  OK(bh_record_set_bits(record, BITS, "\x02\x00\x01\x00", 4));
  OK(bh_record_set_bytes(record, RAW, "\x00\xff", 2));
  OK(bh_record_set_flags(record, 9, 6));
  CHECK(bh_record_len(record) == 5 && bh_record_sort(record) == 7);
  CHECK(bh_record_type(record, BITS) == BH_ELEMENT_BITS && bh_record_type(record, 77) == BH_ELEMENT_NONE);
  uint16_t id;
  OK(bh_record_id_at(record, 4, &id));
  CHECK(id == 9);
  IS(BH_NOT_FOUND, bh_record_id_at(record, 5, &id));
  unsigned char wire[256];
  size_t len;
  IS(BH_FULL, bh_record_encode(record, wire, 3, &len));
  OK(bh_record_encode(record, wire, sizeof wire, &len));
  OK(bh_record_decode(wire, len, &decoded));
  bh_record *garbage;
  char why[200];
  IS(BH_INVALID, bh_record_decode("these are the bytes of no record", 32, &garbage));
  CHECK(bh_last_error(why, sizeof why) > 0 && strstr(why, "cut off"));
  static const char large[70000];
  IS(BH_INVALID, bh_record_decode(large, sizeof large, &garbage));
  CHECK(bh_last_error(why, sizeof why) > 0 && strstr(why, "65536 bytes"));
  const void *bytes;
  size_t bytes_len;
  OK(bh_record_get_bytes(decoded, CALLS, &bytes, &bytes_len));
  CHECK(bytes_len == 4 && memcmp(bytes, "zwei", 4) == 0);
  OK(bh_record_get_bytes(decoded, BITS, &bytes, &bytes_len));
  CHECK(bytes_len == 3 && memcmp(bytes, "\x02\x00\x01", 3) == 0);
  uint32_t number;
  IS(BH_INVALID, bh_record_get_u32(decoded, CALLS, &number));
  IS(BH_INVALID, bh_record_get_bytes(decoded, STATE, &bytes, &bytes_len));
  OK(bh_record_remove(decoded, STATE));
  IS(BH_NOT_FOUND, bh_record_get_u32(decoded, STATE, &number));
  bh_record *bad;
  for (size_t cut = 0; cut < len; cut++) IS(BH_INVALID, bh_record_decode(wire, cut, &bad));

  bh_pattern *pattern;
  OK(bh_pattern_new(&pattern));
  CHECK(bh_pattern_matches(pattern, record));
  OK(bh_pattern_sort(pattern, 7));
  OK(bh_pattern_subject(pattern, "SIP/door"));
  OK(bh_pattern_exists(pattern, STATE));
  OK(bh_pattern_text(pattern, CALLS, "zwei"));
  OK(bh_pattern_bits(pattern, BITS, "\x02", 1));
  OK(bh_pattern_flags(pattern, 9, 2));
  OK(bh_pattern_bytes(pattern, RAW, "\x00\xff", 2));
  CHECK(bh_pattern_matches(pattern, record) && !bh_pattern_matches(pattern, decoded));
  IS(BH_NULL, bh_pattern_text(pattern, CALLS, NULL));
  CHECK(bh_pattern_matches(pattern, record)); /* a failed call has changed nothing */

  bh_topic_options options = {.size = sizeof options, .cached = 1};
  bh_subscription_options matching = {.size = sizeof matching, .pattern = pattern};
  struct record_seen seen = {0};
  bh_topic *topic;
  bh_subscription *subscription;
  OK(bh_topic_new(NULL, &options, &topic));
  OK(bh_topic_subscribe(topic, &matching, see_record, &seen, NULL, &subscription));
  bh_pattern_free(pattern);
  OK(bh_topic_publish_record(topic, record, NULL));
  OK(bh_record_set_u32(record, STATE, 6)); /* the topic has a copy */
  CHECK(seen.events == 1 && seen.state == 5);
  OK(bh_topic_publish_record(topic, decoded, NULL)); /* it does not match, but replaces */
  CHECK(seen.events == 1 && bh_topic_len(topic) == 1);
  bh_event *event;
  OK(bh_topic_get_record(topic, 7, "SIP/door", &event));
  CHECK(bh_record_len(bh_event_record(event)) == 4);
  char subject[32];
  CHECK(bh_record_subject(bh_event_record(event), subject, sizeof subject) == 8 && strcmp(subject, "SIP/door") == 0);
  IS(BH_NOT_FOUND, bh_topic_get_record(topic, 8, "SIP/door", &(bh_event *){NULL}));
  OK(bh_topic_remove(topic, event, NULL));
  CHECK(seen.removals == 1 && bh_topic_len(topic) == 0);
  IS(BH_INVALID, bh_topic_publish(topic, counted(), drop_counted, NULL)); /* a topic of records */
  CHECK(atomic_load(&alive) == 0);
  bh_event_free(event);
  bh_subscription_free(subscription);
  bh_topic_free(topic);
  bh_record_free(record);
  bh_record_free(decoded);
}

static bh_topic *folding;

/* The sum of the nodes' values. */
static bh_event *sum(const bh_node_state *states, size_t count, void *data) {
  CHECK(*(int *)data == 42 && count >= 2);
  const struct line *first = bh_event_object(states[0].event);
  struct line *line = new_line(key_of(first), 0);
  for (size_t i = 0; i < count; i++) {
    CHECK(i == 0 || states[i].node > states[i - 1].node);
    line->value += ((const struct line *)bh_event_object(states[i].event))->value;
  }
  bh_event *event;
  OK(bh_event_of_object(folding, line, drop_counted, &event));
  return event;
}

static long value_of(bh_topic *topic, int key) {
  struct line wanted;
  snprintf(wanted.name, sizeof wanted.name, "line %d", key);
  bh_event *event;
  if (bh_topic_get(topic, &wanted, &event) != BH_OK) return -1;
  long value = ((const struct line *)bh_event_object(event))->value;
  bh_event_free(event);
  return value;
}

static void publish_from(bh_topic *topic, uint64_t node, int key, long value) {
  bh_event *event;
  OK(bh_event_of_object(topic, new_line(key, value), drop_counted, &event));
  OK(bh_topic_publish_from(topic, node, event, NULL));
  bh_event_free(event);
}

static void nodes_are_folded_and_topics_forwarded(void) {
  int answer = 42;
  bh_topic_options options = {.size = sizeof options, .node = 1, .fold = sum, .fold_data = &answer, LINES};
  bh_topic_options plain = {.size = sizeof plain, .cached = 1, .key_limit = 2, LINES};
  bh_topic *all, *records;
  bh_forward *forward, *again;
  OK(bh_topic_new(NULL, &options, &folding));
  OK(bh_topic_new(NULL, &plain, &all));
  OK(bh_topic_new(NULL, NULL, &records));
  OK(bh_topic_forward(folding, all, &forward));
  IS(BH_EXISTS, bh_topic_forward(folding, all, &again));
  IS(BH_INVALID, bh_topic_forward(all, folding, &again)); /* a circle */
  IS(BH_INVALID, bh_topic_forward(records, all, &again));
  OK(bh_topic_publish(folding, new_line(0, 2), drop_counted, NULL));
  publish_from(folding, 2, 0, 3);
  publish_from(folding, 3, 0, 10);
  CHECK(value_of(folding, 0) == 15 && value_of(all, 0) == 15);
  bh_event *key, *state;
  OK(bh_event_of_object(folding, new_line(0, 0), drop_counted, &key));
  OK(bh_topic_get_from(folding, 3, key, &state));
  CHECK(((const struct line *)bh_event_object(state))->value == 10);
  bh_event_free(state);
  bh_event_free(key);
  OK(bh_topic_remove_node(folding, 3, NULL));
  CHECK(value_of(folding, 0) == 5 && value_of(all, 0) == 5);
  bh_published published;
  OK(bh_topic_publish(all, new_line(1, 1), drop_counted, &published));
  OK(bh_topic_publish(all, new_line(2, 1), drop_counted, &published));
  CHECK(published.refused && bh_topic_len(all) == 2);
  bh_forward_free(forward);
  OK(bh_topic_publish(folding, new_line(0, 100), drop_counted, NULL));
  CHECK(value_of(folding, 0) == 103 && value_of(all, 0) == 5);
  bh_topic_free(folding);
  bh_topic_free(all);
  bh_topic_free(records);
  CHECK(atomic_load(&alive) == 0);
}

/* In a simulation nothing is delivered before it is stepped, so what waits is known. */
static void full_queues_conflate_lose_and_expire(void) {
  bh_runtime *runtime;
  bh_timers *timers;
  bh_pool *pool;
  bh_executor *on;
  bh_topic *topic;
  OK(bh_runtime_simulated(1, &runtime));
  OK(bh_runtime_timers(runtime, &timers));
  OK(bh_runtime_pool(runtime, &pool));
  OK(bh_executor_of_pool(pool, &on));
  bh_topic_options options = {.size = sizeof options, .name = "lines", .cached = 1, LINES, .timers = timers, .expire_on = on};
  OK(bh_topic_new(runtime, &options, &topic));
  bh_subscription_options bounded = {.size = sizeof bounded, .name = "bounded", .on = on, .capacity = 4, .overflow = BH_OVERFLOW_DROP_OLDEST};
  bh_subscription_options conflating = {.size = sizeof conflating, .on = on, .conflate = 1, .replay = 1, .capacity = 100};
  struct seen dropping = {0}, newest = {0};
  bh_subscription *first, *second;
  OK(bh_topic_subscribe(topic, &bounded, see, &dropping, NULL, &first));
  OK(bh_topic_subscribe(topic, &conflating, see, &newest, NULL, &second));
  OK(bh_simulation_run_until_idle(runtime));
  for (long i = 0; i < 30; i++) OK(bh_topic_publish(topic, new_line((int)(i % 3), i), drop_counted, NULL));
  CHECK(bh_subscription_len(first) == 4 && bh_subscription_lost(first) == 26 && bh_subscription_len(second) == 30);
  OK(bh_simulation_run_until_idle(runtime));
  CHECK(dropping.events == 4 && dropping.lost == 26);
  CHECK(newest.events == 3 && newest.lost == 0 && newest.value[0] == 27 && newest.value[2] == 29);
  bh_event *event;
  OK(bh_event_of_object(topic, new_line(0, 77), drop_counted, &event));
  OK(bh_topic_publish_for(topic, SECONDS(60), event, NULL));
  bh_event_free(event);
  OK(bh_simulation_run_for(runtime, SECONDS(59)));
  CHECK(value_of(topic, 0) == 77);
  OK(bh_simulation_run_for(runtime, SECONDS(2)));
  CHECK(value_of(topic, 0) == -1 && newest.removals == 1 && newest.value[0] == 77);
  char *json;
  OK(bh_runtime_snapshot_json(runtime, &json));
  CHECK(strstr(json, "\"name\":\"lines\"") != NULL);
  bh_text_free(json);
  bh_subscription_free(first);
  bh_subscription_free(second);
  bh_topic_free(topic);
  bh_executor_free(on);
  bh_pool_free(pool);
  bh_timers_free(timers);
  bh_runtime_free(runtime);
  CHECK(atomic_load(&alive) == 0);
}

/* Threads publish while a subscription with replay starts: it sees the last value of every key. */
static bh_topic *busy;
static void *publish_many(void *data) {
  int half = (int)(intptr_t)data;
  for (long i = 1; i <= 400; i++) OK(bh_topic_publish(busy, new_line(2 * (int)(i % (KEYS / 2)) + half, i), drop_counted, NULL));
  return NULL;
}

static atomic_long caught_up, replayed;
static void see_in_order(const bh_delivery *delivery, void *data) {
  struct seen *seen = data;
  long before = 0;
  int key = 0;
  if (delivery->kind == BH_DELIVERY_EVENT) {
    key = key_of(bh_event_object(delivery->event));
    before = seen->there[key] ? seen->value[key] : 0;
  }
  see(delivery, data);
  if (delivery->kind == BH_DELIVERY_REPLAYED) atomic_store(&replayed, 1);
  if (delivery->kind == BH_DELIVERY_EVENT) {
    CHECK(seen->value[key] > before); /* no older value follows a newer one, and none comes twice */
    if (seen->value[key] > 400 - KEYS / 2) atomic_fetch_add(&caught_up, 1);
  }
}

static void replay_meets_publishers(void) {
  static struct seen seen;
  bh_pool *pool;
  bh_serializer *serializer;
  bh_executor *on;
  bh_subscription *subscription;
  bh_pool_options two = {.size = sizeof two, .workers = 2};
  OK(bh_pool_new(&two, &pool));
  OK(bh_serializer_new(pool, NULL, &serializer));
  OK(bh_executor_of_serializer(serializer, &on));
  bh_topic_options options = {.size = sizeof options, .cached = 1, LINES};
  OK(bh_topic_new(NULL, &options, &busy));
  pthread_t threads[2];
  for (intptr_t i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, publish_many, (void *)i) == 0);
  bh_subscription_options replay = {.size = sizeof replay, .replay = 1, .on = on, .capacity = 16, .overflow = BH_OVERFLOW_DROP_OLDEST};
  OK(bh_topic_subscribe(busy, &replay, see_in_order, &seen, NULL, &subscription));
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  await(&caught_up, KEYS);
  await(&replayed, 1);
  bh_subscription_free(subscription);
  bh_executor_free(on);
  bh_serializer_free(serializer);
  OK(bh_pool_shutdown(pool, LONG, NULL));
  bh_pool_free(pool);
  bh_topic_free(busy);
  CHECK(atomic_load(&alive) == 0);
}

static bh_subscription *own;
static void ends_itself(const bh_delivery *delivery, void *data) {
  (void)delivery;
  ++*(long *)data;
  bh_subscription_free(own);
  bh_topic_free(busy);
}

static void a_callback_ends_its_subscription(void) {
  long calls = 0;
  bh_record *record;
  OK(bh_record_new(1, "x", &record));
  OK(bh_topic_new(NULL, NULL, &busy));
  OK(bh_topic_subscribe(busy, NULL, ends_itself, &calls, NULL, &own));
  OK(bh_topic_publish_record(busy, record, NULL));
  CHECK(calls == 1);
  bh_record_free(record);
}

static void bad_arguments_free_their_data(void) {
  bh_topic *topic;
  bh_subscription *subscription;
  bh_topic_options half = {.size = sizeof half, .hash = hash_line, .fold = sum, .fold_data = counted(), .fold_drop = drop_counted};
  IS(BH_INVALID, bh_topic_new(NULL, &half, &topic));
  IS(BH_NULL, bh_topic_publish(NULL, counted(), drop_counted, NULL));
  OK(bh_topic_new(NULL, NULL, &topic));
  IS(BH_NULL, bh_topic_subscribe(topic, NULL, NULL, counted(), drop_counted, &subscription));
  IS(BH_NULL, bh_topic_subscribe(topic, NULL, see, counted(), drop_counted, NULL));
  bh_subscription_options bad = {.size = sizeof bad, .overflow = 9, .is_wanted = is_even, .is_wanted_data = counted(), .is_wanted_drop = drop_counted};
  IS(BH_INVALID, bh_topic_subscribe(topic, &bad, see, counted(), drop_counted, &subscription));
  IS(BH_NULL, bh_topic_publish_record(topic, NULL, NULL));
  bh_record *record;
  bh_event *event;
  OK(bh_record_new(1, "x", &record));
  OK(bh_event_of_record(record, &event));
  IS(BH_INVALID, bh_topic_publish_for(topic, 1, event, NULL)); /* no timers */
  bh_event_free(event);
  bh_record_free(record);
  bh_topic_free(topic);
  bh_topic_free(NULL);
  CHECK(atomic_load(&alive) == 0);
}

int main(void) {
  structs_of_the_program();
  records_and_patterns();
  nodes_are_folded_and_topics_forwarded();
  full_queues_conflate_lose_and_expire();
  replay_meets_publishers();
  a_callback_ends_its_subscription();
  bad_arguments_free_their_data();
  return 0;
}
