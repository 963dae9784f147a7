/* The queue of deadlines against a scan of all entries. */
#include "check.h"

enum { ENTRIES_MAX = 200, STEPS = 20000 };

struct entry {
  uint64_t deadline, turn, handle;
  bool waits;
};

static struct entry entries[ENTRIES_MAX];
static uint64_t now, turns;
static size_t expected_len;

/* By deadline, then by the turn in which it was added or moved. */
static struct entry *earliest(void) {
  struct entry *best = NULL;
  for (struct entry *entry = entries; entry < entries + ENTRIES_MAX; entry++)
    if (entry->waits && (!best || entry->deadline < best->deadline ||
                         (entry->deadline == best->deadline && entry->turn < best->turn)))
      best = entry;
  return best;
}

static void leave(struct entry *entry) {
  entry->waits = false;
  expected_len--;
}

static void wait_for(struct entry *entry) {
  entry->deadline = now + random_below(50);
  entry->turn = turns++;
}

static void add(bh_timer_queue *queue, struct entry *entry) {
  if (entry->waits) return;
  uint64_t earlier = entry->handle;
  wait_for(entry);
  entry->waits = true;
  expected_len++;
  OK(bh_timer_queue_add(queue, entry->deadline, entry, &entry->handle));
  CHECK(entry->handle != 0 && entry->handle != earlier);
}

static void cancel(bh_timer_queue *queue, struct entry *entry) {
  void *found = NULL;
  IS(entry->waits ? BH_OK : BH_NOT_FOUND, bh_timer_queue_cancel(queue, entry->handle, &found));
  CHECK(found == (entry->waits ? entry : NULL));
  if (entry->waits) leave(entry);
}

static void move(bh_timer_queue *queue, struct entry *entry) {
  if (entry->waits) wait_for(entry);
  IS(entry->waits ? BH_OK : BH_NOT_FOUND, bh_timer_queue_reschedule(queue, entry->handle, entry->deadline));
}

static void drain(bh_timer_queue *queue) {
  bh_due_entry due[4];
  size_t count, room = 1 + random_below(4);
  now += random_below(20);
  do {
    OK(bh_timer_queue_drain_due(queue, now, due, room, &count));
    CHECK(count <= room);
    for (size_t i = 0; i < count; i++) {
      struct entry *entry = earliest();
      CHECK(due[i].entry == entry && due[i].deadline_ns == entry->deadline && entry->deadline <= now);
      leave(entry);
    }
  } while (count > 0);
  CHECK(expected_len == 0 || earliest()->deadline > now);
}

/* A due entry is held out of the order, and put back: then it is the last of its deadline. */
static void hold(bh_timer_queue *queue) {
  struct entry *entry = earliest();
  bh_due_entry due;
  uint64_t handle;
  if (!entry || entry->deadline > now) {
    IS(BH_NOT_FOUND, bh_timer_queue_hold_due(queue, now, &due, &handle));
    return;
  }
  OK(bh_timer_queue_hold_due(queue, now, &due, &handle));
  CHECK(due.entry == entry && due.deadline_ns == entry->deadline && handle == entry->handle);
  void *found;
  uint64_t deadline;
  OK(bh_timer_queue_get(queue, handle, &found, &deadline));
  CHECK(found == entry && deadline == UINT64_MAX);
  entry->waits = false;
  struct entry *next = earliest();
  CHECK(bh_timer_queue_next_deadline(queue) == (next ? next->deadline : UINT64_MAX));
  entry->waits = true;
  wait_for(entry);
  OK(bh_timer_queue_reschedule(queue, handle, entry->deadline));
}

static void look(bh_timer_queue *queue, struct entry *entry) {
  void *found = NULL;
  uint64_t deadline = 0;
  IS(entry->waits ? BH_OK : BH_NOT_FOUND, bh_timer_queue_get(queue, entry->handle, &found, &deadline));
  CHECK(!entry->waits || (found == entry && deadline == entry->deadline));
}

static void refused(bh_timer_queue *queue) {
  bh_due_entry due;
  size_t count = 7;
  IS(BH_NULL, bh_timer_queue_new(NULL));
  IS(BH_NULL, bh_timer_queue_add(NULL, 0, NULL, NULL));
  IS(BH_NULL, bh_timer_queue_drain_due(queue, 0, NULL, 1, &count));
  IS(BH_NULL, bh_timer_queue_drain_due(queue, 0, &due, 1, NULL));
  IS(BH_NOT_FOUND, bh_timer_queue_cancel(queue, 0, NULL));
  CHECK(count == 7 && bh_timer_queue_len(NULL) == 0 && bh_timer_queue_next_deadline(NULL) == UINT64_MAX);
  OK(bh_timer_queue_drain_due(queue, UINT64_MAX, &due, 0, &count));
  CHECK(count == 0);
  bh_timer_queue_free(NULL);
}

int main(void) {
  bh_timer_queue *queue;
  OK(bh_timer_queue_new(&queue));
  for (int i = 0; i < rounds(STEPS); i++) {
    struct entry *entry = &entries[random_below(ENTRIES_MAX)];
    switch (random_below(7)) {
      case 0: case 1: case 2: add(queue, entry); break;
      case 3: cancel(queue, entry); break;
      case 4: move(queue, entry); break;
      case 5: now += random_below(20), hold(queue); break;
      default: drain(queue);
    }
    look(queue, &entries[random_below(ENTRIES_MAX)]);
    CHECK(bh_timer_queue_len(queue) == expected_len);
    CHECK(bh_timer_queue_next_deadline(queue) == (expected_len ? earliest()->deadline : UINT64_MAX));
  }
  refused(queue);
  bh_timer_queue_free(queue);
  return 0;
}
