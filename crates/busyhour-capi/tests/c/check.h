/* What the test programs share, in C and in C++: checks, counted data, and random numbers from a seed. */
#ifndef CHECK_H
#define CHECK_H

#include <busyhour.h>

#ifdef __cplusplus
#include <atomic>
typedef std::atomic<long> atomic_long;
#else
#include <stdatomic.h>
#include <stdbool.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A failed check ends the process at once: its other threads may be in any state. */

/* What a check says is in a function: in each of hundreds of places it would be most of what the compiler has to check. */

__attribute__((noreturn, noinline, unused)) static void not_so(const char *file, int line, const char *condition) {
  char why[512] = "";
  bh_last_error(why, sizeof why);
  fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", file, line, condition, why);
  _exit(1);
}

__attribute__((noreturn, noinline, unused)) static void differs(const char *file, int line, const char *call, bh_result result, bh_result expected) {
  char why[512] = "";
  bh_last_error(why, sizeof why);
  fprintf(stderr, "%s:%d: %s: %s (%s), expected %s\n", file, line, call, bh_strerror(result), why, bh_strerror(expected));
  _exit(1);
}

#define CHECK(condition)                                       \
  do {                                                         \
    if (!(condition)) not_so(__FILE__, __LINE__, #condition);  \
  } while (0)

#define OK(call) IS(BH_OK, call)
#define IS(expected, call)                                                                        \
  do {                                                                                            \
    const bh_result result_ = (call);                                                             \
    if (result_ != (expected)) differs(__FILE__, __LINE__, #call, result_, (expected));           \
  } while (0)

#define SECONDS(count) ((uint64_t)(count) * 1000000000u)
/* Of a wait that ends: a busy machine may take its time. */
#define LONG SECONDS(1000)

/* Data of callbacks: how many are alive, and how many ran. */
static atomic_long alive, ran;

static inline void *counted(void) {
  atomic_fetch_add(&alive, 1);
  return malloc(16);
}

static inline void drop_counted(void *data) {
  atomic_fetch_sub(&alive, 1);
  free(data);
}

static inline void count_run(void *data) {
  ((volatile char *)data)[0] = 1; /* valgrind sees it if the data is freed already */
  atomic_fetch_add(&ran, 1);
}

/* So many rounds; a part of them under valgrind, where each takes thirty times as long. */
static inline int rounds(int count) {
  const char *divisor = getenv("BUSYHOUR_TEST_DIVISOR");
  return divisor ? count / atoi(divisor) : count;
}

/* Waits until a number has a value, or so long that it never will. */
static inline void await(atomic_long *number, long value) {
  for (long spin = 0; atomic_load(number) != value; spin++) {
    if (spin > 6000000) {
      fprintf(stderr, "waited ten minutes for %ld, got %ld\n", value, atomic_load(number));
      _exit(1);
    }
    usleep(100);
  }
}

/* Whether a child process has ended with code 0. */
static inline bool has_ended_well(pid_t child) {
  int status;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* xorshift64* */
static uint64_t random_state = 88172645463325252u;
static inline uint64_t random_below(uint64_t end) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return (random_state * 2685821657736338717u >> 33) % end;
}

#endif
