/* The run queue against Linux 2.2's own way: a list that each pick scans, and a walk over every entity at an epoch. */
#include "check.h"

enum { ENTITIES = 60, STEPS = 18000, TICK_NS = 100000 };

struct entity {
  bh_sched_state *state;
  long counter, priority; /* of the oracle */
  bool queued, running;
};

static struct entity entities[ENTITIES];
static int list[ENTITIES]; /* the queued ones, in the order of the list */
static int list_len;
static int running = -1;
static uint32_t epoch;

static long goodness(const struct entity *entity) {
  if (entity->priority >= 100) return 1000 + entity->priority;
  return entity->counter == 0 ? 0 : entity->counter + entity->priority;
}

/* What the library says of an entity that is not queued, whose counter is then up to date. */
static void says_the_same(bh_run_queue *queue, int entity) {
  bh_sched_state *state = entities[entity].state;
  uint16_t worker;
  OK(bh_run_queue_sync_epoch(queue, state));
  if (bh_sched_state_ran_on(state, &worker) == BH_NOT_FOUND) return;
  CHECK(worker == 0 && (long)bh_sched_state_priority(state) == entities[entity].priority);
  long expected = goodness(&entities[entity]);
  if (entities[entity].priority >= 100) expected -= 100; /* real time counts from 0 */
  else if (expected > 0) {
    CHECK((long)bh_sched_state_goodness(state, 1) == expected);
    expected += 15;
  }
  CHECK((long)bh_sched_state_goodness(state, 0) == expected);
}

static int best_position(void) {
  int best = 0;
  for (int at = 1; at < list_len; at++)
    if (goodness(&entities[list[at]]) > goodness(&entities[list[best]])) best = at;
  return best;
}

static int pick(void) {
  int best = best_position();
  if (goodness(&entities[list[best]]) == 0) {
    epoch++;
    for (int i = 0; i < ENTITIES; i++)
      if (entities[i].priority < 100) entities[i].counter = entities[i].counter / 2 + entities[i].priority;
    best = best_position();
  }
  int picked = list[best];
  list_len--;
  memmove(&list[best], &list[best + 1], (size_t)(list_len - best) * sizeof *list);
  entities[picked].queued = false;
  return picked;
}

static void append(int entity) {
  list[list_len++] = entity;
  entities[entity].queued = true;
}

static void charge(int entity, long ticks) {
  long *counter = &entities[entity].counter;
  *counter = *counter > ticks ? *counter - ticks : 0;
}

static void wake(bh_run_queue *queue, int entity) {
  if (entities[entity].queued || entity == running) return;
  bool in_front = random_below(3) == 0;
  OK(bh_run_queue_wake(queue, (uint64_t)entity, entities[entity].state, in_front));
  append(entity);
  if (in_front) {
    memmove(list + 1, list, (size_t)(list_len - 1) * sizeof *list);
    list[0] = entity;
  }
}

static void run(bh_run_queue *queue) {
  uint64_t picked;
  if (list_len == 0) {
    IS(BH_NOT_FOUND, bh_run_queue_pick(queue, &picked));
    return;
  }
  running = pick();
  OK(bh_run_queue_pick(queue, &picked));
  CHECK((int)picked == running);
}

static void end_turn(bh_run_queue *queue) {
  long ticks = 1 + (long)random_below(5);
  bh_sched_state *state = entities[running].state;
  uint64_t ran_ns = (uint64_t)ticks * TICK_NS, next;
  charge(running, ticks);
  switch (random_below(3)) {
    case 0: /* it sleeps */
      OK(bh_run_queue_charge(queue, state, ran_ns));
      break;
    case 1:
      OK(bh_run_queue_put_back(queue, (uint64_t)running, state, ran_ns));
      append(running);
      break;
    default:
      OK(bh_run_queue_switch(queue, (uint64_t)running, state, ran_ns, &next));
      append(running);
      running = pick();
      CHECK((int)next == running);
      return;
  }
  running = -1;
}

/* An entity that is awake nowhere gets another priority. */
static void move(bh_run_queue *queue, int entity) {
  if (entities[entity].queued || entity == running) return;
  says_the_same(queue, entity);
  if (entities[entity].priority >= 100) return;
  entities[entity].priority = 1 + (long)random_below(40);
  OK(bh_sched_state_set_priority(entities[entity].state, (uint32_t)entities[entity].priority));
}

static void take_out(bh_run_queue *queue, int entity) {
  IS(entities[entity].queued ? BH_OK : BH_NOT_FOUND,
     bh_run_queue_remove(queue, (uint64_t)entity, entities[entity].state));
  if (!entities[entity].queued) return;
  entities[entity].queued = false;
  int at = 0;
  while (list[at] != entity) at++;
  memmove(&list[at], &list[at + 1], (size_t)(--list_len - at) * sizeof *list);
}

int main(void) {
  bh_run_queue *queue;
  OK(bh_run_queue_new(0, TICK_NS, &queue));
  for (int i = 0; i < ENTITIES; i++) {
    long priority = i % 20 == 19 ? 100 + i : 1 + (long)random_below(40);
    entities[i].priority = entities[i].counter = priority;
    OK(bh_sched_state_new((uint32_t)priority, &entities[i].state));
  }
  bool was_bucketed = false, was_sorted = false;
  for (int i = 0; i < STEPS; i++) {
    if (running >= 0)
      end_turn(queue);
    else if (random_below(3) == 0)
      run(queue);
    else if (random_below(10) == 0)
      take_out(queue, (int)random_below(ENTITIES));
    else if (random_below(10) == 0)
      move(queue, (int)random_below(ENTITIES));
    else
      wake(queue, (int)random_below(i / 3000 % 2 ? 6 : ENTITIES));
    CHECK((int)bh_run_queue_len(queue) == list_len);
    CHECK(bh_run_queue_epoch(queue) == epoch);
    if (bh_run_queue_is_bucketed(queue)) was_bucketed = true; else was_sorted = true;
  }
  CHECK(was_bucketed && was_sorted && epoch > 10);

  bh_sched_state *parent, *child;
  OK(bh_sched_state_new(25, &parent));
  OK(bh_run_queue_fork(queue, parent, 0, &child));
  CHECK(bh_sched_state_counter(parent) == 13 && bh_sched_state_counter(child) == 12);
  OK(bh_run_queue_sync_epoch(queue, child));
  bh_sched_state_free(parent);
  bh_sched_state_free(child);
  IS(BH_INVALID, bh_sched_state_new(41, &child));
  IS(BH_INVALID, bh_sched_state_new(200, &child));
  IS(BH_NULL, bh_run_queue_charge(queue, NULL, 1));
  IS(BH_INVALID, bh_sched_state_set_priority(entities[0].state, 41));
  CHECK(bh_sched_state_goodness(NULL, 0) == 0 && bh_sched_state_priority(NULL) == 0);
  for (int i = 0; i < ENTITIES; i++) bh_sched_state_free(entities[i].state);

  /* With thresholds of its own, the same order. */
  bh_run_queue *short_lists;
  bh_sched_state *states[5];
  IS(BH_INVALID, bh_run_queue_with_thresholds(3, 0, 4, 4, &short_lists));
  IS(BH_INVALID, bh_run_queue_with_thresholds(3, 0, 65, 4, &short_lists));
  OK(bh_run_queue_with_thresholds(3, 0, 4, 2, &short_lists));
  CHECK(bh_run_queue_worker(short_lists) == 3 && bh_run_queue_worker(NULL) == 0);
  for (uint32_t i = 0; i < 5; i++) {
    OK(bh_sched_state_new(10 + i, &states[i]));
    OK(bh_run_queue_wake(short_lists, i, states[i], 0));
    CHECK(bh_run_queue_is_bucketed(short_lists) == (i == 4));
  }
  for (uint64_t i = 5, picked; i-- > 0;) {
    OK(bh_run_queue_pick(short_lists, &picked));
    CHECK(picked == i && bh_run_queue_is_bucketed(short_lists) == (i > 2));
    bh_sched_state_free(states[i]);
  }
  bh_run_queue_free(short_lists);
  bh_run_queue_free(queue);
  return 0;
}
