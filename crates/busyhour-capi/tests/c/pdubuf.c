/* Calls libpcp's functions for PDU buffers as its own code does, and prints what they answer: the same with libpcp's own
   buffers and with those of compat/pdubuf. Buffers are named by their place here, since addresses differ. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void *__pmFindPDUBuf(int need);
void __pmPinPDUBuf(void *handle);
int __pmUnpinPDUBuf(void *handle);
void __pmCountPDUBuf(int need, int *alloc, int *free);

enum { LIVE_MAX = 100, STEPS = 5000, THREADS = 8 };

struct live {
  unsigned char *start;
  int len, pins;
};

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

/* The address of an integer in the buffer, as a value decoded from it has. */
static void *inside(const struct live *live, uint64_t *state) {
  return live->start + next_random(state) % (uint64_t)live->len / sizeof(int) * sizeof(int);
}

static void print_count(int need) {
  int found = -1, spare = -1;
  __pmCountPDUBuf(need, &found, &spare);
  printf("%d buffers of %d bytes, %d spare\n", found, need, spare);
}

static void one_after_the_other(void) {
  static struct live live[LIVE_MAX];
  uint64_t state = 1;
  for (int step = 0; step < STEPS; step++) {
    int place = (int)(next_random(&state) % LIVE_MAX);
    struct live *one = &live[place];
    if (one->pins == 0) {
      one->len = 4 + (int)(next_random(&state) % (place % 10 ? 3000 : 300000));
      one->start = __pmFindPDUBuf(one->len);
      one->pins = 1;
      memset(one->start, place, (size_t)one->len);
      printf("%d: %d bytes, aligned %d\n", place, one->len, (int)((uintptr_t)one->start % sizeof(double)));
    } else if (next_random(&state) % 3 == 0) {
      __pmPinPDUBuf(inside(one, &state));
      one->pins++;
    } else {
      int is_whole = one->start[0] == place && one->start[one->len - 1] == place;
      printf("%d: whole %d, unpinned %d\n", place, is_whole, __pmUnpinPDUBuf(inside(one, &state)));
      one->pins--;
    }
    if (step % 500 == 0)
      for (int need = 0; need < 5000; need += 999) print_count(need);
  }
  for (int place = 0; place < LIVE_MAX; place++)
    while (live[place].pins-- > 0) printf("%d: unpinned %d\n", place, __pmUnpinPDUBuf(live[place].start));
  print_count(0);
}

/* libpcp frees what it could not unpin: memory of its own must never be taken for a buffer. */
static void addresses_of_nothing(void) {
  int local[4] = {0}, *heap = malloc(16);
  int *buffer = __pmFindPDUBuf(64);
  printf("foreign %d", __pmUnpinPDUBuf(local));
  printf(" %d", __pmUnpinPDUBuf(heap));
  printf(" %d\n", __pmUnpinPDUBuf(NULL));
  __pmPinPDUBuf(heap); /* warns, and changes nothing */
  printf("beyond the end %d", __pmUnpinPDUBuf(buffer + 16));
  printf(", before the start %d", __pmUnpinPDUBuf(buffer - 1));
  printf(", the last integer %d\n", __pmUnpinPDUBuf(buffer + 15));
  printf("nothing found %d\n", __pmFindPDUBuf(-1) == NULL); /* lists what is pinned, on standard error */
  free(heap);
}

static void *work(void *argument) {
  uint64_t state = (uintptr_t)argument;
  unsigned char fill = (unsigned char)state;
  intptr_t faults = 0;
  for (int i = 0; i < STEPS; i++) {
    struct live one = {.len = 4 + (int)(next_random(&state) % 2000)};
    one.start = __pmFindPDUBuf(one.len);
    memset(one.start, fill, (size_t)one.len);
    void *value = inside(&one, &state);
    __pmPinPDUBuf(value);
    faults += !__pmUnpinPDUBuf(one.start);
    faults += one.start[0] != fill || one.start[one.len - 1] != fill;
    faults += !__pmUnpinPDUBuf(value);
  }
  return (void *)faults;
}

static void side_by_side(void) {
  pthread_t threads[THREADS];
  void *faults;
  for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], &faults);
    printf("thread %d: %d faults\n", i, (int)(intptr_t)faults);
  }
  print_count(0);
}

/* A tool that forks, as for a pager. */
static void in_a_child(void) {
  unsigned char *of_parent = __pmFindPDUBuf(100);
  memset(of_parent, 7, 100);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    unsigned char *own = __pmFindPDUBuf(100);
    memset(own, 8, 100);
    printf("in the child: %d %d %d\n", of_parent[99], own[99], __pmUnpinPDUBuf(own));
    fflush(stdout);
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  printf("the child ended with %d, the parent unpins %d\n", status, __pmUnpinPDUBuf(of_parent));
}

int main(void) {
  one_after_the_other();
  addresses_of_nothing();
  side_by_side();
  in_a_child();
  return 0;
}
