/* Timers of real time: in an epoll loop of the program, in the driver's thread, and through an executor of the program. */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static bh_timers *timers;
static atomic_long stop;

static void ring(void *data) {
  uint64_t one = 1;
  CHECK(write(*(int *)data, &one, sizeof one) == sizeof one);
}

static void end_loop(void *data) {
  (void)data;
  atomic_store(&stop, 1);
}

static void *add_from_another_thread(void *data) {
  (void)data;
  for (int i = 0; i < 50; i++)
    OK(bh_timers_after(timers, random_below(3000000), NULL, count_run, counted(), drop_counted, NULL));
  OK(bh_timers_after(timers, 5000000, NULL, end_loop, NULL, NULL, NULL));
  return NULL;
}

static uint64_t by_wait(void) {
  uint64_t wait_ns;
  OK(bh_timers_next_wait(timers, &wait_ns));
  return wait_ns;
}

static uint64_t by_deadline(void) {
  uint64_t deadline_ns, now_ns;
  OK(bh_timers_next_deadline(timers, &deadline_ns));
  OK(bh_timers_now(timers, &now_ns));
  return deadline_ns == UINT64_MAX ? UINT64_MAX : deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

static int milliseconds(uint64_t wait_ns) { return wait_ns == UINT64_MAX ? -1 : (int)((wait_ns + 999999) / 1000000); }

static void count_ring(void *data) { ++*(int *)data; }

/* Once for each announced sleep, and only for what is earlier. */
static void an_earlier_timer_calls_the_hook(uint64_t (*until)(void)) {
  int rings = 0;
  OK(bh_timers_new(NULL, &timers));
  OK(bh_timers_on_earlier(timers, count_ring, &rings, NULL));
  OK(bh_timers_after(timers, SECONDS(3600), NULL, end_loop, NULL, NULL, NULL));
  CHECK(rings == 0);
  CHECK(until() > SECONDS(60));
  OK(bh_timers_after(timers, SECONDS(7200), NULL, end_loop, NULL, NULL, NULL));
  CHECK(rings == 0);
  OK(bh_timers_after(timers, SECONDS(1800), NULL, end_loop, NULL, NULL, NULL));
  OK(bh_timers_after(timers, SECONDS(900), NULL, end_loop, NULL, NULL, NULL));
  CHECK(rings == 1);
  until();
  OK(bh_timers_after(timers, SECONDS(600), NULL, end_loop, NULL, NULL, NULL));
  CHECK(rings == 2);
  bh_timers_free(timers);
}

static void in_an_epoll_loop(uint64_t (*until)(void)) {
  atomic_store(&ran, 0);
  atomic_store(&stop, 0);
  OK(bh_timers_new(NULL, &timers));
  int bell = eventfd(0, EFD_NONBLOCK), loop = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  CHECK(bell >= 0 && loop >= 0 && epoll_ctl(loop, EPOLL_CTL_ADD, bell, &event) == 0);
  OK(bh_timers_on_earlier(timers, ring, &bell, NULL));
  IS(BH_EXISTS, bh_timers_on_earlier(timers, ring, counted(), drop_counted));
  IS(BH_EXISTS, bh_timers_spawn_driver(timers));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, add_from_another_thread, NULL) == 0);
  for (;;) {
    OK(bh_timers_run_due(timers, NULL));
    if (atomic_load(&stop)) break;
    uint64_t rings;
    if (epoll_wait(loop, &event, 1, milliseconds(until())) > 0) CHECK(read(bell, &rings, sizeof rings) > 0 || errno == EAGAIN);
  }
  pthread_join(thread, NULL);
  CHECK(atomic_load(&ran) == 50 && atomic_load(&alive) == 0);
  bh_timers_free(timers);
  close(bell);
  close(loop);
}

static atomic_long entered, leave;
static void stays(void *data) {
  (void)data;
  atomic_store(&entered, 1);
  while (!atomic_load(&leave)) usleep(100);
  usleep(2000);
  atomic_store(&leave, 2);
}

static void *let_it_leave(void *data) {
  atomic_store(&leave, 1);
  return data;
}

static void cancelled_and_waited_for_in_a_driver(void) {
  bh_pool *pool;
  bh_executor *on;
  bh_pool_options options = {.size = sizeof options, .workers = 2};
  OK(bh_pool_new(&options, &pool));
  OK(bh_executor_of_pool(pool, &on));
  OK(bh_timers_new(NULL, &timers));
  OK(bh_timers_spawn_driver(timers));
  bh_timer timer;
  OK(bh_timers_after(timers, 1000, on, stays, counted(), drop_counted, &timer));
  await(&entered, 1);
  bh_cancel result;
  OK(bh_timers_cancel(timers, timer, &result));
  CHECK(result == BH_CANCEL_RUNNING);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, let_it_leave, NULL) == 0);
  OK(bh_timers_cancel_and_wait(timers, timer, &result));
  CHECK(atomic_load(&leave) == 2 && atomic_load(&alive) == 0); /* it has returned, and its data is freed */
  pthread_join(thread, NULL);

  bh_timer far;
  OK(bh_timers_after(timers, SECONDS(3600), on, count_run, counted(), drop_counted, &far));
  bh_shutdown_report report;
  bh_timers_free(timers);
  OK(bh_pool_shutdown(pool, LONG, &report));
  CHECK(report.not_run == 0 && atomic_load(&alive) == 0);
  bh_executor_free(on);
  bh_pool_free(pool);
}

/* An executor of the program: a queue that its loop empties. */
enum { QUEUE_MAX = 8 };
static bh_task *queue[QUEUE_MAX];
static int queue_len;

static int32_t enqueue(bh_task *task, void *data) {
  (void)data;
  if (queue_len == QUEUE_MAX) return 1;
  queue[queue_len++] = task;
  return 0;
}

static void through_an_executor_of_the_program(void) {
  bh_timers_options options = {.size = sizeof options, .virtual_time = 1};
  bh_executor *on;
  atomic_store(&ran, 0);
  OK(bh_timers_new(&options, &timers));
  OK(bh_executor_new(enqueue, counted(), drop_counted, &on));
  for (int i = 0; i < 10; i++) OK(bh_timers_after(timers, 1, on, count_run, counted(), drop_counted, NULL));
  bh_executor_free(on);
  CHECK(atomic_load(&alive) == 11); /* the timers keep the executor */
  OK(bh_timers_advance(timers, 1));
  OK(bh_timers_run_due(timers, NULL));
  CHECK(queue_len == QUEUE_MAX && atomic_load(&ran) == 0);
  OK(bh_task_run(queue[0]));
  bh_task_free(queue[1]);
  for (int i = 2; i < QUEUE_MAX; i++) OK(bh_task_run(queue[i]));
  CHECK(atomic_load(&ran) == QUEUE_MAX - 1);
  queue_len = 0;
  for (int i = 0; i < 100 && queue_len < 2; i++) { /* those that were refused come again */
    OK(bh_timers_advance(timers, SECONDS(1)));
    OK(bh_timers_run_due(timers, NULL));
  }
  CHECK(queue_len == 2);
  OK(bh_task_run(queue[0]));
  OK(bh_task_run(queue[1]));
  CHECK(atomic_load(&ran) == QUEUE_MAX + 1);
  IS(BH_NULL, bh_task_run(NULL));
  IS(BH_NULL, bh_executor_new(NULL, counted(), drop_counted, &on));
  bh_timers_free(timers);
  CHECK(atomic_load(&alive) == 0);
}

int main(void) {
  an_earlier_timer_calls_the_hook(by_wait);
  an_earlier_timer_calls_the_hook(by_deadline);
  in_an_epoll_loop(by_wait);
  in_an_epoll_loop(by_deadline);
  cancelled_and_waited_for_in_a_driver();
  through_an_executor_of_the_program();
  return 0;
}
