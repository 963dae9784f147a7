/* The functions of libpcp's PDU buffers over Busyhour's pinned buffers. README.md says how they get before the real ones. */
#include <busyhour.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* libpcp exports them, and Debian's headers do not declare them. */
void *__pmFindPDUBuf(int need);
void __pmPinPDUBuf(void *handle);
int __pmUnpinPDUBuf(void *handle);
void __pmCountPDUBuf(int need, int *alloc, int *free);

#define BUDGET_BYTES (8ull << 30)

static bh_buffers *_Atomic pool;

/* A child has no use for the parent's pool, which refuses it. It makes its own; what the parent found stays readable. */
static void in_child(void) { atomic_store(&pool, NULL); }

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

static bh_buffers *buffers(void) {
  bh_buffers *current = atomic_load_explicit(&pool, memory_order_acquire);
  if (current) return current;
  bh_buffers *made, *none = NULL;
  bh_buffers_options options = {.size = sizeof options, .budget_bytes = BUDGET_BYTES};
  if (bh_buffers_new(&options, &made) != BH_OK) return NULL;
  if (atomic_compare_exchange_strong(&pool, &none, made)) return made;
  bh_buffers_free(made); /* another thread was first */
  return none;
}

static int32_t print(const bh_live_buffer *buffer, void *data) {
  (void)data;
  fprintf(stderr, " %p[%zu](%llu)", buffer->start, buffer->len, (unsigned long long)buffer->pins);
  return 1;
}

/* A buffer of `need` bytes, pinned once. A negative length lists what is pinned, and finds nothing. */
void *__pmFindPDUBuf(int need) {
  void *found;
  if (need < 0) {
    fprintf(stderr, "pinned PDU buffers [size](pins):");
    bh_buffers_each(buffers(), print, NULL);
    fputc('\n', stderr);
    return NULL;
  }
  return bh_buffers_find(buffers(), need ? (size_t)need : 1, &found) == BH_OK ? found : NULL;
}

void __pmPinPDUBuf(void *handle) {
  if (bh_buffers_pin(buffers(), handle) != BH_OK)
    fprintf(stderr, "__pmPinPDUBuf: no PDU buffer contains %p\n", handle);
}

/* 1, or 0 if no pinned buffer contains the address: libpcp then frees it as memory of its own. */
int __pmUnpinPDUBuf(void *handle) { return bh_buffers_unpin(buffers(), handle) == BH_OK; }

struct count {
  size_t need;
  int found;
};

static int32_t count_long(const bh_live_buffer *buffer, void *data) {
  struct count *count = data;
  count->found += buffer->len >= count->need;
  return 1;
}

/* How many pinned buffers have at least `need` bytes. None is ever kept unpinned, as in libpcp since its binary trees. */
void __pmCountPDUBuf(int need, int *alloc, int *free) {
  struct count count = {need > 0 ? (size_t)need : 0, 0};
  bh_buffers_each(buffers(), count_long, &count);
  *alloc = count.found;
  *free = 0;
}
