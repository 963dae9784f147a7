/* The heap against a scan of all entries. */
#include "check.h"

enum { ENTRIES_MAX = 300, STEPS = 8000 };

struct entry {
  long key;
  uint64_t handle;
  bool in_heap;
};

static struct entry entries[ENTRIES_MAX];
static long expected_len;

static int32_t by_key(const void *one, const void *other, void *data) {
  ++*(long *)data;
  long a = ((const struct entry *)one)->key, b = ((const struct entry *)other)->key;
  return (a > b) - (a < b);
}

static long least(void) {
  long best = INT64_MAX;
  for (int i = 0; i < ENTRIES_MAX; i++)
    if (entries[i].in_heap && entries[i].key < best) best = entries[i].key;
  return best;
}

static void leave(struct entry *entry) {
  CHECK(entry->in_heap);
  entry->in_heap = false;
  expected_len--;
}

static void push(bh_heap *heap, struct entry *entry) {
  if (entry->in_heap) return;
  uint64_t earlier = entry->handle;
  entry->key = (long)random_below(100);
  entry->in_heap = true;
  expected_len++;
  OK(bh_heap_push(heap, entry, &entry->handle));
  CHECK(entry->handle != earlier || earlier == 0);
}

static void step(bh_heap *heap) {
  struct entry *entry = &entries[random_below(ENTRIES_MAX)];
  void *found = NULL;
  switch (random_below(5)) {
    case 0:
    case 1:
      push(heap, entry);
      break;
    case 2:
      if (expected_len == 0) {
        IS(BH_NOT_FOUND, bh_heap_pop(heap, &found));
        return;
      }
      long best = least();
      OK(bh_heap_pop(heap, &found));
      CHECK(((struct entry *)found)->key == best);
      leave(found);
      break;
    case 3:
      IS(entry->in_heap ? BH_OK : BH_NOT_FOUND, bh_heap_remove(heap, entry->handle, &found));
      if (entry->in_heap) {
        CHECK(found == entry);
        leave(entry);
      }
      break;
    default:
      if (entry->in_heap) entry->key = (long)random_below(100);
      IS(entry->in_heap ? BH_OK : BH_NOT_FOUND, bh_heap_update(heap, entry->handle));
  }
  CHECK((long)bh_heap_len(heap) == expected_len);
  IS(entry->in_heap ? BH_OK : BH_NOT_FOUND, bh_heap_get(heap, entry->handle, &found));
  CHECK(!entry->in_heap || found == entry);
}

static void every_position_is_an_entry(bh_heap *heap) {
  bool seen[ENTRIES_MAX] = {false};
  void *found;
  for (size_t position = 0; position < bh_heap_len(heap); position++) {
    OK(bh_heap_peek(heap, position, &found));
    size_t index = (size_t)((struct entry *)found - entries);
    CHECK(entries[index].in_heap && !seen[index]);
    seen[index] = true;
    if (position > 0) continue;
    uint64_t handle;
    CHECK(((struct entry *)found)->key == least());
    OK(bh_heap_peek_handle(heap, &handle));
    CHECK(handle == ((struct entry *)found)->handle);
  }
  IS(BH_NOT_FOUND, bh_heap_peek(heap, bh_heap_len(heap), &found));
}

static bh_heap *shared;
static int32_t uses_its_heap(const void *one, const void *other, void *data) {
  (void)data;
  IS(BH_BUSY, bh_heap_push(shared, (void *)one, NULL));
  IS(BH_BUSY, bh_heap_clear(shared));
  void *found;
  IS(BH_BUSY, bh_heap_peek(shared, 0, &found));
  return one < other ? -1 : 1;
}

int main(void) {
  long comparisons = 0;
  bh_heap *heap;
  OK(bh_heap_new(by_key, &comparisons, NULL, &heap));
  for (int i = 0; i < rounds(STEPS); i++) {
    step(heap);
    if (i % 500 == 0) {
      OK(bh_heap_verify(heap));
      every_position_is_an_entry(heap);
    }
  }
  CHECK(comparisons > rounds(STEPS));

  /* An entry that changes behind the heap's back is found. */
  while (expected_len < 10) push(heap, &entries[random_below(ENTRIES_MAX)]);
  void *top;
  OK(bh_heap_peek(heap, 0, &top));
  ((struct entry *)top)->key = 1000;
  IS(BH_INVALID, bh_heap_verify(heap));
  OK(bh_heap_update(heap, ((struct entry *)top)->handle));
  OK(bh_heap_verify(heap));
  OK(bh_heap_clear(heap));
  uint64_t none;
  CHECK(bh_heap_len(heap) == 0);
  IS(BH_NOT_FOUND, bh_heap_peek_handle(heap, &none));
  bh_heap_free(heap);

  OK(bh_heap_new(uses_its_heap, counted(), drop_counted, &shared));
  int a = 0, b = 0;
  OK(bh_heap_push(shared, &a, NULL));
  OK(bh_heap_push(shared, &b, NULL));
  CHECK(bh_heap_len(shared) == 2);
  bh_heap_free(shared);
  IS(BH_NULL, bh_heap_new(NULL, counted(), drop_counted, &heap));
  IS(BH_NULL, bh_heap_new(by_key, counted(), drop_counted, NULL));
  CHECK(atomic_load(&alive) == 0);
  bh_heap_free(NULL);
  return 0;
}
