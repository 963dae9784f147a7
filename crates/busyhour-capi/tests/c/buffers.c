/* Buffers against a list of what is live, with its length and pins. */
#include "check.h"

/* Valgrind has little address space to reserve. */
#define SMALL (&(bh_buffers_options){.size = sizeof(bh_buffers_options), .budget_bytes = 64 << 20})

enum { LIVE_MAX = 200, STEPS = 8000 };

struct live {
  unsigned char *start;
  size_t len;
  long pins;
  unsigned char fill;
};

static struct live live[LIVE_MAX];
static size_t live_count;

static struct live *owner_of(const unsigned char *address) {
  for (size_t i = 0; i < live_count; i++)
    if (address >= live[i].start && address < live[i].start + live[i].len) return &live[i];
  return NULL;
}

static void find(bh_buffers *buffers) {
  if (live_count == LIVE_MAX) return;
  size_t len = 1 + random_below(random_below(8) ? 600 : 70000);
  void *start;
  OK(bh_buffers_find(buffers, len, &start));
  CHECK((uintptr_t)start % _Alignof(max_align_t) == 0);
  for (size_t at = 0; at < len; at += len - 1 ? len - 1 : 1)
    CHECK(owner_of((unsigned char *)start + at) == NULL);
  unsigned char fill = (unsigned char)random_below(256);
  memset(start, fill, len);
  live[live_count++] = (struct live){start, len, 1, fill};
}

static void check_content(const struct live *one) {
  CHECK(one->start[0] == one->fill && one->start[one->len - 1] == one->fill);
}

static void step(bh_buffers *buffers) {
  if (live_count == 0 || random_below(4) == 0) {
    find(buffers);
    return;
  }
  struct live *one = &live[random_below(live_count)];
  unsigned char *address = one->start + random_below(one->len);
  CHECK(owner_of(address) == one);
  check_content(one);
  void *start;
  size_t len;
  OK(bh_buffers_at(buffers, address, &start, &len));
  CHECK(start == one->start && len == one->len);
  if (random_below(3) == 0) {
    OK(bh_buffers_pin(buffers, address));
    one->pins++;
    return;
  }
  OK(bh_buffers_unpin(buffers, address));
  if (--one->pins == 0) {
    IS(BH_NOT_LIVE, bh_buffers_unpin(buffers, address));
    *one = live[--live_count];
  }
}

static void agrees_with_the_list(void) {
  bh_buffers *buffers;
  OK(bh_buffers_new(SMALL, &buffers));
  for (int i = 0, count = rounds(STEPS); i < count; i++) step(buffers);
  bh_buffers_stats stats;
  OK(bh_buffers_get_stats(buffers, &stats));
  CHECK(stats.live_count == live_count);
  for (; live_count > 0; live_count--) {
    struct live *one = &live[live_count - 1];
    check_content(one);
    for (; one->pins > 0; one->pins--) OK(bh_buffers_unpin(buffers, one->start + one->len - 1));
  }
  OK(bh_buffers_get_stats(buffers, &stats));
  CHECK(stats.live_count == 0 && stats.live_bytes == 0 && stats.found > 0 && stats.pinned > 0);
  size_t trimmed;
  OK(bh_buffers_trim(buffers, &trimmed));
  bh_buffers_free(buffers);
}

static void foreign_addresses_change_nothing(void) {
  bh_buffers *one, *other;
  OK(bh_buffers_new(SMALL, &one));
  OK(bh_buffers_new(SMALL, &other));
  int local = 0;
  void *heap = malloc(8), *found, *start = &local;
  OK(bh_buffers_find(one, 100, &found));
  IS(BH_FOREIGN, bh_buffers_pin(one, &local));
  IS(BH_FOREIGN, bh_buffers_unpin(one, heap));
  IS(BH_FOREIGN, bh_buffers_pin(other, found));
  IS(BH_NOT_LIVE, bh_buffers_pin(one, (char *)found + 100));
  IS(BH_FOREIGN, bh_buffers_at(other, found, &start, NULL));
  CHECK(start == &local); /* written on success only */
  IS(BH_FOREIGN, bh_buffers_pin(one, NULL));
  bh_buffers_stats stats;
  OK(bh_buffers_get_stats(one, &stats));
  CHECK(stats.live_count == 1 && stats.foreign_addresses >= 4);
  OK(bh_buffers_unpin(one, found));
  free(heap);
  bh_buffers_free(one);
  bh_buffers_free(other);
}

static void neighbours_are_never_confused(void) {
  bh_buffers *buffers;
  OK(bh_buffers_new(SMALL, &buffers));
  enum { COUNT = 64, LEN = 1024 };
  char *found[COUNT];
  for (int i = 0; i < COUNT; i++) OK(bh_buffers_find(buffers, LEN, (void **)&found[i]));
  for (int i = 0; i < COUNT; i++) {
    OK(bh_buffers_pin(buffers, found[i] + LEN - 1));
    OK(bh_buffers_unpin(buffers, found[i]));
  }
  bh_buffers_stats stats;
  OK(bh_buffers_get_stats(buffers, &stats));
  CHECK(stats.live_count == COUNT);
  for (int i = 0; i < COUNT; i++) OK(bh_buffers_unpin(buffers, found[i]));
  bh_buffers_free(buffers);
}

struct seen {
  size_t count, bytes, of_decoder, stop_after;
};

static int32_t see(const bh_live_buffer *buffer, void *data) {
  struct seen *seen = data;
  seen->bytes += buffer->len;
  seen->of_decoder += strcmp(buffer->owner, "decoder") == 0 && buffer->pins == 2;
  CHECK(buffer->room >= buffer->len && buffer->start != NULL && buffer->handles == 0);
  CHECK(buffer->trace != NULL && buffer->trace[0] != 0);
  return ++seen->count < seen->stop_after;
}

static int32_t note_owner(const bh_owner_usage *usage, void *data) {
  struct seen *seen = data;
  seen->bytes += usage->live_bytes;
  seen->of_decoder += strcmp(usage->owner, "decoder") == 0 && usage->live_count == 1;
  return ++seen->count < seen->stop_after;
}

/* A few bytes of a packet outlive it, without its memory. */
static void what_survives_is_compact(void) {
  bh_buffers *buffers;
  bh_buffers_stats stats;
  char *packet;
  void *kept, *same, *start;
  size_t len;
  OK(bh_buffers_new(SMALL, &buffers));
  OK(bh_buffers_find(buffers, 60000, (void **)&packet));
  for (int i = 0; i < 60000; i++) packet[i] = (char)i;
  IS(BH_INVALID, bh_buffers_compact(buffers, packet + 59990, 11, &kept));
  IS(BH_INVALID, bh_buffers_compact(buffers, packet, 0, &kept));
  IS(BH_INVALID, bh_buffers_compact(buffers, packet + 1, SIZE_MAX, &kept));
  IS(BH_FOREIGN, bh_buffers_compact(buffers, &kept, 4, &kept));
  OK(bh_buffers_compact(buffers, packet, 59000, &same)); /* most of it: nothing changes */
  CHECK(same == packet);
  OK(bh_buffers_pin(buffers, packet)); /* someone else's */
  OK(bh_buffers_compact(buffers, packet + 1000, 20, &kept));
  CHECK(kept != packet + 1000 && memcmp(kept, packet + 1000, 20) == 0);
  OK(bh_buffers_unpin(buffers, packet));
  IS(BH_NOT_LIVE, bh_buffers_unpin(buffers, packet)); /* the pin that was moved is gone */
  OK(bh_buffers_at(buffers, kept, &start, &len));
  CHECK(start == kept && len == 20);
  OK(bh_buffers_get_stats(buffers, &stats));
  CHECK(stats.live_count == 1 && stats.live_bytes < 1000);
  OK(bh_buffers_unpin(buffers, kept));
  bh_buffers_free(buffers);
}

static void the_dump_names_owners_and_the_budget_holds(void) {
  bh_buffers_options options = {.size = sizeof options, .budget_bytes = 1 << 20, .trace_one_in = 1};
  bh_buffers *buffers, *decoder;
  OK(bh_buffers_new(&options, &buffers));
  OK(bh_buffers_owned_by(buffers, "decoder", &decoder));
  void *found, *more = &found;
  OK(bh_buffers_find(decoder, 5000, &found));
  char *dump;
  OK(bh_buffers_dump(buffers, &dump));
  CHECK(strstr(dump, "decoder") != NULL && strstr(dump, "5000 of") != NULL);
  bh_text_free(dump);
  void *short_one;
  OK(bh_buffers_find(buffers, 20, &short_one));
  OK(bh_buffers_pin(buffers, found));
  struct seen seen = {.stop_after = SIZE_MAX};
  OK(bh_buffers_each(buffers, see, &seen));
  CHECK(seen.count == 2 && seen.bytes == 5000 + 20 && seen.of_decoder == 1);
  seen = (struct seen){.stop_after = 1};
  OK(bh_buffers_each(buffers, see, &seen));
  CHECK(seen.count == 1);
  seen = (struct seen){.stop_after = SIZE_MAX};
  OK(bh_buffers_owners(buffers, note_owner, &seen));
  CHECK(seen.count == 2 && seen.bytes >= 5020 && seen.of_decoder == 1);
  seen = (struct seen){.stop_after = 1};
  OK(bh_buffers_owners(buffers, note_owner, &seen));
  CHECK(seen.count == 1 && seen.of_decoder == 1); /* the most bytes first */
  IS(BH_NULL, bh_buffers_owners(buffers, NULL, NULL));
  OK(bh_buffers_unpin(buffers, found));
  OK(bh_buffers_unpin(buffers, short_one));
  IS(BH_NULL, bh_buffers_each(buffers, NULL, NULL));
  IS(BH_FULL, bh_buffers_find(buffers, 1 << 20, &more));
  IS(BH_INVALID, bh_buffers_find(buffers, 0, &more));
  IS(BH_INVALID, bh_buffers_find(buffers, SIZE_MAX, &more));
  CHECK(more == &found);
  char why[256];
  CHECK(bh_last_error(why, sizeof why) > 0 && strstr(why, "longest") != NULL);
  OK(bh_buffers_unpin(buffers, found));
  bh_buffers_free(decoder);
  bh_buffers_free(buffers);
}

static void null_is_refused(void) {
  bh_buffers *buffers;
  void *found;
  OK(bh_buffers_new(NULL, &buffers)); /* the default options */
  bh_buffers_free(buffers);
  IS(BH_NULL, bh_buffers_new(SMALL, NULL));
  IS(BH_NULL, bh_buffers_find(NULL, 1, &found));
  IS(BH_NULL, bh_buffers_pin(NULL, &found));
  OK(bh_buffers_new(SMALL, &buffers));
  IS(BH_NULL, bh_buffers_find(buffers, 1, NULL));
  IS(BH_NULL, bh_buffers_owned_by(buffers, NULL, &buffers));
  bh_buffers_free(buffers);
  bh_buffers_free(NULL);
}

/* A newer program passes a longer struct, which is accepted if the rest is zero. There is no older one than that of the first
   release: what is smaller is the size of something else. */
static void options_of_other_versions(void) {
  struct {
    bh_buffers_options known;
    uint64_t later;
  } newer = {.known = {.size = sizeof newer, .budget_bytes = 64 << 20}};
  bh_buffers_options wrong = *SMALL;
  bh_buffers *buffers;
  char why[256];
  OK(bh_buffers_new(&newer.known, &buffers));
  bh_buffers_free(buffers);
  newer.later = 1;
  IS(BH_VERSION, bh_buffers_new(&newer.known, &buffers));
  bh_last_error(why, sizeof why);
  CHECK(strstr(why, "options.size is 32") && strstr(why, "24 bytes of a bh_buffers_options"));
  for (size_t size = 0; size < sizeof wrong; size++) {
    wrong.size = size;
    IS(BH_INVALID, bh_buffers_new(&wrong, &buffers));
  }
  wrong.size = sizeof &wrong;
  IS(BH_INVALID, bh_buffers_new(&wrong, &buffers));
  bh_last_error(why, sizeof why);
  CHECK(strstr(why, "options.size is 8") && strstr(why, "a bh_buffers_options has 24 bytes"));
}

int main(void) {
  agrees_with_the_list();
  foreign_addresses_change_nothing();
  neighbours_are_never_confused();
  the_dump_names_owners_and_the_budget_holds();
  what_survives_is_compact();
  null_is_refused();
  options_of_other_versions();
  CHECK(strcmp(bh_strerror(BH_OK), "the call succeeded") == 0);
  CHECK(strcmp(bh_strerror(-1), "unknown code") == 0 && strcmp(bh_strerror(999), "unknown code") == 0);
  return 0;
}
