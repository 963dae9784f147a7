/* Asterisk's scheduler and heap over Busyhour (compat/asterisk), held to what Asterisk's documentation says of them. */
#include "../../../../compat/asterisk/asterisk.h"
#include "check.h"

#include <sched.h>
#include <semaphore.h>

/* Scheduler. */
static struct ast_sched_context con;

static void pass(int ms) {
  for (int i = 0; i < ms; i++) {
    OK(bh_timers_advance(con.timers, 1000000));
    ast_sched_runq(&con);
  }
}

static int ends(const void *data) { return ++*(int *)data, 0; }
static int goes_on(const void *data) { return ++*(int *)data; }
static int backs_off(const void *data) { return *(*(const int **)data)++; }
static int released;
static int release(const void *data) { return released += data != NULL, 0; }

/* A reference for each timer. */
static int references, id_of_accessor;
static int get_id(const int *object) { return *object; }
static void set_id(int *object, int id) { *object = id; }

static void replaced_with_references(void) {
  static int first, second;
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  int id = -1;
  AST_SCHED_REPLACE_UNREF(id, &con, 1000, ends, &first, references--, references = -100, references++);
  CHECK(id > -1 && references == 1 && ast_sched_find_data(&con, id) == &first);
  AST_SCHED_REPLACE_UNREF(id, &con, 2000, ends, &first, references--, references = -100, references++);
  CHECK(references == 1 && ast_sched_wait(&con) == 2000); /* the same data keeps its reference */
  AST_SCHED_REPLACE_VARIABLE_UNREF(id, &con, 3000, ends, &second, 1, references--, references = -100, references++);
  CHECK(references == 1 && ast_sched_find_data(&con, id) == &second && ast_sched_wait(&con) == 3000);
  id = ast_sched_replace_variable(id, &con, 4000, ends, &second, 1);
  CHECK(ast_sched_wait(&con) == 4000);
  ast_sched_dump(&con);
  pthread_mutex_lock(&lock);
  CHECK(AST_SCHED_DEL_SPINLOCK(&con, id, &lock) == 0 && id == -1 && AST_SCHED_DEL_SPINLOCK(&con, id, &lock) == -1);
  CHECK(pthread_mutex_trylock(&lock) != 0 && ast_sched_wait(&con) == -1);
  pthread_mutex_unlock(&lock);
  id_of_accessor = ast_sched_add(&con, 1000, ends, &first);
  CHECK(AST_SCHED_DEL_ACCESSOR(&con, &id_of_accessor, get_id, set_id) == 0 && id_of_accessor == -1);
  CHECK(AST_SCHED_DEL_ACCESSOR(&con, &id_of_accessor, get_id, set_id) == -1);
}

static void scheduler(void) {
  bh_timers_options options = {.size = sizeof options, .virtual_time = 1};
  OK(bh_timers_new(&options, &con.timers));
  int once = 0, often = 0;
  CHECK(ast_sched_wait(&con) == -1 && ast_sched_runq(&con) == 0);
  int late = ast_sched_add(&con, 100000, ends, &once);
  CHECK(late > -1 && ast_sched_wait(&con) == 100000 && ast_sched_when(&con, late) == 100);
  int soon = ast_sched_add(&con, 10000, ends, &once);
  CHECK(soon > -1 && soon != late && ast_sched_wait(&con) == 10000);
  CHECK(ast_sched_find_data(&con, soon) == &once && ast_sched_find_data(&con, 4711) == NULL);
  CHECK(ast_sched_del(&con, soon) == 0 && ast_sched_wait(&con) == 100000); /* the earliest goes */
  CHECK(ast_sched_del(&con, soon) == -1 && ast_sched_when(&con, soon) == -1);
  AST_SCHED_REPLACE(late, &con, 20, ends, &once);
  CHECK(late > -1 && ast_sched_wait(&con) == 20);
  late = ast_sched_replace(late, &con, 30, ends, &once);
  CHECK(ast_sched_wait(&con) == 30);
  int again = ast_sched_add(&con, 10, goes_on, &often);
  pass(55);
  CHECK(once == 1 && often == 5 && ast_sched_wait(&con) == 5); /* what it returns is no delay */
  CHECK(AST_SCHED_DEL(&con, again) == 0 && again == -1 && AST_SCHED_DEL(&con, again) == -1);

  static const int delays[] = {20, 40, 0};
  const int *next = delays;
  CHECK(ast_sched_add_variable(&con, 10, backs_off, &next, 1) > -1);
  pass(69);
  CHECK(next == delays + 2 && ast_sched_wait(&con) == 1);
  pass(1);
  CHECK(next == delays + 3 && ast_sched_wait(&con) == -1);

  replaced_with_references();

  for (int i = 0; i < 10; i++) ast_sched_add(&con, 1000 + i, i % 2 ? ends : goes_on, &once);
  ast_sched_clean_by_callback(&con, goes_on, release);
  CHECK(released == 5);
  for (int i = 0; i < 10000; i++) ast_sched_add(&con, 2000 + i % 7, ends, &often);
  pass(3000);
  CHECK(once == 6 && often == 5 + 10000 && ast_sched_wait(&con) == -1);
  bh_timers_free(con.timers);
}

static sem_t may_end, is_called, may_return;
static int waits(const void *data) {
  sem_post(&is_called);
  sem_wait(&may_return);
  return ++*(int *)data; /* it would run again */
}

/* As often as it might run before the deletion comes. */
static void *let_it_return(void *unused) {
  for (int i = 0; i < 100000; i++) sem_post(&may_return);
  return unused;
}

/* A deletion waits for the callback, which does not run again: its data may go then. */
static void deleted_while_it_runs(void) {
  pthread_t helper;
  int *data = calloc(1, sizeof *data);
  struct ast_sched_context *threaded = ast_sched_context_create();
  CHECK(threaded && ast_sched_start_thread(threaded) == 0);
  int id = ast_sched_add(threaded, 1, waits, data);
  sem_wait(&is_called);
  pthread_create(&helper, NULL, let_it_return, NULL);
  CHECK(ast_sched_del(threaded, id) == 0 && *data >= 1);
  free(data);
  pthread_join(helper, NULL);
  ast_sched_context_destroy(threaded);
}

/* A reference is given up by whoever has it: the callback that runs, or the one who deletes before. */
static void deleted_without_waiting(void) {
  int *data = calloc(1, sizeof *data), references = 2;
  sem_init(&is_called, 0, 0), sem_init(&may_return, 0, 0); /* what the test before has left */
  struct ast_sched_context *threaded = ast_sched_context_create();
  CHECK(threaded && ast_sched_start_thread(threaded) == 0);
  int id = ast_sched_add(threaded, 1, waits, data), runs = id;
  sem_wait(&is_called);
  CHECK(ast_sched_del_nonrunning(threaded, id) == -2);
  AST_SCHED_DEL_UNREF(threaded, id, references--);
  CHECK(references == 2 && id == runs);
  sem_post(&may_return);
  while (ast_sched_del(threaded, id) == 0) sched_yield(); /* it does not run again */
  CHECK(*data == 1);
  id = ast_sched_add(threaded, 1000000, waits, data);
  AST_SCHED_DEL_UNREF(threaded, id, references--);
  CHECK(references == 1 && id == -1);
  AST_SCHED_DEL_UNREF(threaded, id, references--);
  CHECK(references == 1 && ast_sched_del_nonrunning(threaded, 4711) == -1);
  ast_sched_context_destroy(threaded);
  free(data);
}

/* What is cleaned up is not what a callback uses. */
static atomic_int uses_data;
static int cleaned_count;
static int uses(const void *data) {
  atomic_store(&uses_data, 1);
  sem_post(&is_called);
  sem_wait(&may_return);
  atomic_store(&uses_data, 0);
  return 0 * *(const int *)data;
}
static int clean_up(const void *data) {
  CHECK(!atomic_load(&uses_data));
  free((void *)data);
  return cleaned_count++;
}

/* Some time after the cleaning has begun. */
static void *let_one_return(void *unused) {
  sem_wait(&may_end);
  usleep(20000);
  sem_post(&may_return);
  return unused;
}

static void cleaned_while_one_runs(void) {
  enum { COUNT = 200 };
  pthread_t helper;
  int *used = calloc(1, sizeof *used);
  struct ast_sched_context *threaded = ast_sched_context_create();
  while (sem_trywait(&may_return) == 0) continue;
  while (sem_trywait(&is_called) == 0) continue;
  CHECK(threaded && ast_sched_start_thread(threaded) == 0 && ast_sched_add(threaded, 1, uses, used) > -1);
  for (int i = 0; i < COUNT; i++) CHECK(ast_sched_add(threaded, 100000 + i, uses, calloc(1, sizeof(int))) > -1);
  sem_wait(&is_called);
  pthread_create(&helper, NULL, let_one_return, NULL);
  sem_post(&may_end);
  ast_sched_clean_by_callback(threaded, uses, clean_up);
  CHECK(cleaned_count == COUNT && !atomic_load(&uses_data) && ast_sched_wait(threaded) == -1);
  pthread_join(helper, NULL);
  free(used);
  ast_sched_context_destroy(threaded);
}

/* Heap. */
struct element { long value; ssize_t index; };
static int by_value(void *one, void *other) {
  long a = ((struct element *)one)->value, b = ((struct element *)other)->value;
  return (a > b) - (a < b);
}

static void heap(void) {
  enum { COUNT = 5000 };
  static struct element elements[COUNT];
  struct ast_heap *heap = ast_heap_create(8, by_value, offsetof(struct element, index));
  CHECK(heap && ast_heap_pop(heap) == NULL && ast_heap_peek(heap, 1) == NULL);
  for (int i = 0; i < COUNT; i++) {
    elements[i].value = (long)random_below(1000);
    CHECK(ast_heap_push(heap, &elements[i]) == 0);
  }
  CHECK(ast_heap_size(heap) == COUNT && ast_heap_verify(heap) == 0);
  CHECK(ast_heap_rdlock(heap) == 0 && ast_heap_rdlock(heap) == 0 && ast_heap_unlock(heap) == 0 && ast_heap_unlock(heap) == 0);
  CHECK(ast_heap_wrlock(heap) == 0 && ast_heap_unlock(heap) == 0);
  for (int i = 0; i < COUNT / 2; i++) { /* any of them, by its place */
    struct element *element = ast_heap_peek(heap, 1 + (unsigned)random_below(ast_heap_size(heap)));
    CHECK(ast_heap_remove(heap, element) == element && ast_heap_remove(heap, element) == NULL);
    if (i % 100 == 0) CHECK(ast_heap_verify(heap) == 0);
  }
  long last = 1000;
  for (int i = 0; i < COUNT - COUNT / 2; i++) {
    struct element *top = ast_heap_peek(heap, 1), *element = ast_heap_pop(heap);
    CHECK(element == top && element->value <= last);
    last = element->value;
  }
  CHECK(ast_heap_size(heap) == 0 && ast_heap_peek(heap, 0) == NULL);
  CHECK(ast_heap_destroy(heap) == NULL);
}

int main(void) {
  sem_init(&may_end, 0, 0), sem_init(&is_called, 0, 0), sem_init(&may_return, 0, 0);
  scheduler(), deleted_while_it_runs(), deleted_without_waiting(), cleaned_while_one_runs(), heap();
  return 0;
}
