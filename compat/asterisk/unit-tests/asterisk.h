/* What Asterisk's unit tests use beside the parts that compat/asterisk has: the test framework, counted objects, locks, and what
   belongs to a module. scripts/asterisk-unit-tests.sh compiles the tests with it. */
#ifndef BUSYHOUR_ASTERISK_UNIT_TESTS_H
#define BUSYHOUR_ASTERISK_UNIT_TESTS_H

#include "../asterisk.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))
#define ast_malloc malloc
#define ast_calloc calloc
#define ast_free free
#define ast_random random
#define ast_atomic_fetchadd_int(number, more) __atomic_fetch_add((number), (more), __ATOMIC_SEQ_CST)

/* Time and threads. */
static inline struct timeval ast_tvnow(void) {
  struct timeval now;
  gettimeofday(&now, NULL);
  return now;
}
static inline int64_t ast_tvdiff_us(struct timeval end, struct timeval start) {
  return (end.tv_sec - start.tv_sec) * (int64_t)1000000 + end.tv_usec - start.tv_usec;
}
typedef pthread_mutex_t ast_mutex_t;
typedef pthread_cond_t ast_cond_t;
#define ast_mutex_init(lock) pthread_mutex_init((lock), NULL)
#define ast_mutex_destroy pthread_mutex_destroy
#define ast_mutex_lock pthread_mutex_lock
#define ast_mutex_unlock pthread_mutex_unlock
#define ast_cond_init pthread_cond_init
#define ast_cond_destroy pthread_cond_destroy
#define ast_cond_signal pthread_cond_signal
#define ast_cond_wait pthread_cond_wait
#define ast_cond_timedwait pthread_cond_timedwait
#define ast_pthread_create pthread_create

/* A variable whose value is given up at the end of its block; the function that does it lies in the block. */
#define RAII_VAR(type, name, value, give_up)                                  \
  auto void name##_end(type *variable);                                       \
  void name##_end(type *variable) { if (*variable) (void)give_up(*variable); } \
  type name __attribute__((cleanup(name##_end))) = (value)
static inline void unlock_scoped(pthread_mutex_t **lock) { pthread_mutex_unlock(*lock); }
#define SCOPED_MUTEX(name, lock)                                                       \
  pthread_mutex_t *name __attribute__((cleanup(unlock_scoped), unused)) = (lock); \
  pthread_mutex_lock(name)

/* Objects with a count before them. */
struct ao2_header { long count; void (*destroy)(void *object); };
static inline void *ao2_alloc(size_t size, void (*destroy)(void *object)) {
  struct ao2_header *header = calloc(1, sizeof *header + size);
  if (!header) return NULL;
  *header = (struct ao2_header){1, destroy};
  return header + 1;
}
/* The count before. */
static inline int ao2_ref(void *object, int more) {
  struct ao2_header *header = (struct ao2_header *)object - 1;
  long before = __atomic_fetch_add(&header->count, more, __ATOMIC_SEQ_CST);
  if (before + more == 0) {
    if (header->destroy) header->destroy(object);
    free(header);
  }
  return (int)before;
}
static inline void ao2_cleanup(void *object) { if (object) ao2_ref(object, -1); }
static inline void *ao2_bump(void *object) { return ao2_ref(object, 1), object; }

/* The console: a test's own commands are measurements, which nobody calls here. */
enum { CLI_INIT = -2, CLI_GENERATE = -3 };
#define CLI_SUCCESS ((char *)"")
#define CLI_SHOWUSAGE ((char *)"usage")
#define CLI_FAILURE ((char *)"failed")
struct ast_cli_args { int fd, argc; const char *const *argv; };
struct ast_cli_entry { const char *command, *usage, *summary; int args; char *(*handler)(struct ast_cli_entry *entry, int cmd, struct ast_cli_args *arguments); };
#define AST_CLI_DEFINE(function, text) {.summary = (text), .handler = (function)}
#define ast_cli(fd, ...) dprintf((fd), __VA_ARGS__)
static inline void ast_cli_register_multiple(struct ast_cli_entry *entries, int count) { (void)entries, (void)count; }
static inline void ast_cli_unregister_multiple(struct ast_cli_entry *entries, int count) { (void)entries, (void)count; }

/* The test framework. */
enum ast_test_result_state { AST_TEST_NOT_RUN, AST_TEST_PASS, AST_TEST_FAIL };
enum ast_test_command { TEST_INIT, TEST_EXECUTE };
struct ast_test_info { const char *name, *category, *summary, *description; };
struct ast_test { struct ast_test_info info; };
typedef enum ast_test_result_state (*ast_test_fn)(struct ast_test_info *info, enum ast_test_command cmd, struct ast_test *test);
#define AST_TEST_DEFINE(name) static enum ast_test_result_state name(struct ast_test_info *info, enum ast_test_command cmd, struct ast_test *test)
#define ast_test_status_update(test, ...) ((void)(test), fprintf(stderr, __VA_ARGS__))
#define ast_test_validate(test, condition, ...)                                   \
  do {                                                                            \
    if (!(condition)) {                                                           \
      ast_test_status_update((test), "%d: not so: %s\n", __LINE__, #condition);   \
      return AST_TEST_FAIL;                                                       \
    }                                                                             \
  } while (0)
#define ast_test_validate_cleanup(test, condition, result, label)                 \
  do {                                                                            \
    if (!(condition)) {                                                           \
      ast_test_status_update((test), "%d: not so: %s\n", __LINE__, #condition);   \
      (result) = AST_TEST_FAIL;                                                   \
      goto label;                                                                 \
    }                                                                             \
  } while (0)

/* A module registers its tests; as a program it runs those that its arguments name, or all. */
static ast_test_fn registered[64];
static int registered_count;
static inline int ast_test_register(ast_test_fn test) { return registered[registered_count++] = test, 0; }
static inline int ast_test_unregister(ast_test_fn test) { return (void)test, 0; }
#define AST_TEST_REGISTER ast_test_register
#define AST_TEST_UNREGISTER ast_test_unregister
#define AST_MODULE_LOAD_SUCCESS 0
static inline int is_named(const char *name, char **names) {
  if (!*names) return 1;
  while (*names && strcmp(*names, name) != 0) names++;
  return *names != NULL;
}
static inline int run_tests(char **names) {
  int failed = 0;
  for (int i = 0; i < registered_count; i++) {
    struct ast_test test = {0};
    registered[i](&test.info, TEST_INIT, &test);
    if (!is_named(test.info.name, names)) continue;
    enum ast_test_result_state state = registered[i](&test.info, TEST_EXECUTE, &test);
    printf("%s %s\n", state == AST_TEST_PASS ? "passed" : "FAILED", test.info.name);
    fflush(stdout);
    failed += state != AST_TEST_PASS;
  }
  return failed;
}
#define AST_MODULE_INFO_STANDARD(key, description)                        \
  int main(int count, char **words) {                                     \
    if (ast_event_init() != 0 || ast_tps_init() != 0 || load_module() != 0) return 2; \
    int failed = run_tests(words + (count > 0));                          \
    unload_module();                                                      \
    ast_tps_shutdown();                                                   \
    ast_event_shutdown();                                                 \
    return failed > 0;                                                    \
  }                                                                       \
  extern int needs_a_semicolon

#endif
