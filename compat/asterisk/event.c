/* Events: records of elements, a cache by type and key elements, subscriptions. */
#include "asterisk.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ELEMENTS_MAX = 16 };

struct text { struct text *next; enum ast_event_ie_type ie; char value[]; };
struct ast_event { bh_record *record; struct text *texts; }; /* texts that end with a NUL, as those of a record do not */
struct element { enum ast_event_ie_type ie; enum ast_event_ie_pltype type; uint32_t number; const void *value; size_t len; };

/* What a subscription asks for. A subscriber wants any of its bit flags, a pattern all: so flags are apart. */
struct wanted { enum ast_event_type type; bh_pattern *pattern; struct element flags[ELEMENTS_MAX]; int flag_count; };
struct ast_event_sub { struct wanted wanted; ast_event_cb_t callback; void *userdata; bh_subscription *subscription; struct ast_event_sub *next; };

/* The elements that make the key in the cache, by type. */
static const enum ast_event_ie_type KEYS[AST_EVENT_TOTAL][3] = {
    [AST_EVENT_MWI] = {AST_EVENT_IE_MAILBOX, AST_EVENT_IE_CONTEXT, AST_EVENT_IE_END},
    [AST_EVENT_DEVICE_STATE] = {AST_EVENT_IE_DEVICE, AST_EVENT_IE_END},
};

static bh_topic *queued, *cache;

static int read_element(va_list *from, struct element *to) {
  *to = (struct element){.ie = va_arg(*from, enum ast_event_ie_type)};
  if (to->ie == AST_EVENT_IE_END) return 0;
  to->type = va_arg(*from, enum ast_event_ie_pltype);
  switch (to->type) {
    case AST_EVENT_IE_PLTYPE_UINT: case AST_EVENT_IE_PLTYPE_BITFLAGS: to->number = va_arg(*from, uint32_t); break;
    case AST_EVENT_IE_PLTYPE_STR: to->value = va_arg(*from, const char *); break;
    case AST_EVENT_IE_PLTYPE_RAW: to->value = va_arg(*from, const void *), to->len = va_arg(*from, size_t); break;
    default: break;
  }
  return 1;
}

/* 0 if memory is out. */
static int keep_text(struct ast_event *event, const struct element *element) {
  size_t size = strlen(element->value) + 1;
  struct text *text = malloc(sizeof *text + size);
  if (!text) return 0;
  *text = (struct text){event->texts, element->ie};
  memcpy(text->value, element->value, size);
  event->texts = text;
  return 1;
}

/* 0 if memory is out. */
static int append(struct ast_event *event, const struct element *element) {
  uint16_t id = (uint16_t)element->ie;
  switch (element->type) {
    case AST_EVENT_IE_PLTYPE_UINT: bh_record_set_u32(event->record, id, element->number); break;
    case AST_EVENT_IE_PLTYPE_BITFLAGS: bh_record_set_flags(event->record, id, element->number); break;
    case AST_EVENT_IE_PLTYPE_RAW: bh_record_set_bytes(event->record, id, element->value, element->len); break;
    case AST_EVENT_IE_PLTYPE_STR:
      bh_record_set_text(event->record, id, element->value);
      return keep_text(event, element);
    default: break;
  }
  return 1;
}

/* The event, or none if not all of its elements are in it. */
static struct ast_event *whole(struct ast_event *event, int is_whole) {
  if (is_whole) return event;
  ast_event_destroy(event);
  return NULL;
}

struct ast_event *ast_event_new(enum ast_event_type type, ...) {
  struct ast_event *event = calloc(1, sizeof *event);
  struct element element;
  va_list elements;
  int is_whole = 1;
  if (!event || bh_record_new((uint16_t)type, "", &event->record) != BH_OK) {
    free(event);
    return NULL;
  }
  va_start(elements, type);
  while (is_whole && read_element(&elements, &element)) is_whole = append(event, &element);
  va_end(elements);
  return whole(event, is_whole);
}

void ast_event_destroy(struct ast_event *event) {
  for (struct text *text = event->texts, *next; text; text = next) {
    next = text->next;
    free(text);
  }
  bh_record_free(event->record);
  free(event);
}

static int append_to(struct ast_event **event, struct element element) { return append(*event, &element) ? 0 : -1; }

int ast_event_append_ie_str(struct ast_event **event, enum ast_event_ie_type ie, const char *text) {
  return append_to(event, (struct element){.ie = ie, .type = AST_EVENT_IE_PLTYPE_STR, .value = text});
}

int ast_event_append_ie_uint(struct ast_event **event, enum ast_event_ie_type ie, uint32_t number) {
  return append_to(event, (struct element){.ie = ie, .type = AST_EVENT_IE_PLTYPE_UINT, .number = number});
}

int ast_event_append_ie_bitflags(struct ast_event **event, enum ast_event_ie_type ie, uint32_t flags) {
  return append_to(event, (struct element){.ie = ie, .type = AST_EVENT_IE_PLTYPE_BITFLAGS, .number = flags});
}

int ast_event_append_ie_raw(struct ast_event **event, enum ast_event_ie_type ie, const void *bytes, size_t len) {
  return append_to(event, (struct element){.ie = ie, .type = AST_EVENT_IE_PLTYPE_RAW, .value = bytes, .len = len});
}

enum ast_event_type ast_event_get_type(const struct ast_event *event) { return (enum ast_event_type)bh_record_sort(event->record); }

uint32_t ast_event_get_ie_uint(const struct ast_event *event, enum ast_event_ie_type ie) {
  uint32_t value = 0;
  bh_record_get_u32(event->record, (uint16_t)ie, &value);
  return value;
}

struct ast_eid ast_eid_default;

int ast_event_append_eid(struct ast_event **event) {
  return ast_event_append_ie_raw(event, AST_EVENT_IE_EID, &ast_eid_default, sizeof ast_eid_default);
}

uint32_t ast_event_get_ie_bitflags(const struct ast_event *event, enum ast_event_ie_type ie) { return ast_event_get_ie_uint(event, ie); }

const char *ast_event_get_ie_str(const struct ast_event *event, enum ast_event_ie_type ie) {
  for (const struct text *text = event->texts; text; text = text->next)
    if (text->ie == ie) return text->value;
  return NULL;
}

size_t ast_event_get_size(const struct ast_event *event) {
  size_t len = 0;
  char none;
  bh_record_encode(event->record, &none, 0, &len); /* writes the length alone, as there is no room */
  return len;
}

size_t ast_event_minimum_length(void) {
  struct ast_event *empty = ast_event_new(AST_EVENT_ALL, AST_EVENT_IE_END);
  size_t len = empty ? ast_event_get_size(empty) : 0;
  if (empty) ast_event_destroy(empty);
  return len;
}

static const void *raw(const struct ast_event *event, enum ast_event_ie_type ie, size_t *len) {
  const void *bytes = NULL;
  *len = 0;
  bh_record_get_bytes(event->record, (uint16_t)ie, &bytes, len);
  return bytes;
}

const void *ast_event_get_ie_raw(const struct ast_event *event, enum ast_event_ie_type ie) {
  size_t len;
  return raw(event, ie, &len);
}

uint16_t ast_event_get_ie_raw_payload_len(const struct ast_event *event, enum ast_event_ie_type ie) {
  size_t len;
  raw(event, ie, &len);
  return (uint16_t)len;
}

const char *ast_event_get_type_name(const struct ast_event *event) {
  switch (ast_event_get_type(event)) {
    case AST_EVENT_ALL: return "All";
    case AST_EVENT_CUSTOM: return "Custom";
    case AST_EVENT_MWI: return "MWI";
    case AST_EVENT_DEVICE_STATE: return "DeviceState";
    default: return "";
  }
}

static const struct { enum ast_event_ie_type ie; enum ast_event_ie_pltype type; const char *name; } ELEMENTS[] = {
    {AST_EVENT_IE_NEWMSGS, AST_EVENT_IE_PLTYPE_UINT, "NewMessages"},
    {AST_EVENT_IE_MAILBOX, AST_EVENT_IE_PLTYPE_STR, "Mailbox"},
    {AST_EVENT_IE_DEVICE, AST_EVENT_IE_PLTYPE_STR, "Device"},
    {AST_EVENT_IE_STATE, AST_EVENT_IE_PLTYPE_UINT, "State"},
    {AST_EVENT_IE_CONTEXT, AST_EVENT_IE_PLTYPE_STR, "Context"},
    {AST_EVENT_IE_EID, AST_EVENT_IE_PLTYPE_RAW, "EntityID"},
    {AST_EVENT_IE_EVENT_VERSION, AST_EVENT_IE_PLTYPE_UINT, "EventVersion"},
    {AST_EVENT_IE_CEL_EVENT_TIME_USEC, AST_EVENT_IE_PLTYPE_UINT, "CELEventTimeUSec"},
    {AST_EVENT_IE_CEL_USEREVENT_NAME, AST_EVENT_IE_PLTYPE_STR, "CELUserEventName"},
    {AST_EVENT_IE_CEL_CIDNAME, AST_EVENT_IE_PLTYPE_STR, "CELCIDName"},
    {AST_EVENT_IE_CEL_AMAFLAGS, AST_EVENT_IE_PLTYPE_UINT, "CELAMAFlags"},
};
enum { ELEMENT_COUNT = sizeof ELEMENTS / sizeof *ELEMENTS };

const char *ast_event_get_ie_type_name(enum ast_event_ie_type ie) {
  for (int i = 0; i < ELEMENT_COUNT; i++)
    if (ELEMENTS[i].ie == ie) return ELEMENTS[i].name;
  return "";
}

enum ast_event_ie_pltype ast_event_get_ie_pltype(enum ast_event_ie_type ie) {
  for (int i = 0; i < ELEMENT_COUNT; i++)
    if (ELEMENTS[i].ie == ie) return ELEMENTS[i].type;
  return AST_EVENT_IE_PLTYPE_UNKNOWN;
}

int ast_event_str_to_ie_type(const char *name, enum ast_event_ie_type *ie) {
  for (int i = 0; i < ELEMENT_COUNT; i++)
    if (strcasecmp(ELEMENTS[i].name, name) == 0) return *ie = ELEMENTS[i].ie, 0;
  return -1;
}

static int has_element(const struct ast_event_iterator *iterator) {
  return iterator->index < bh_record_len(iterator->event->record) ? 0 : -1;
}

int ast_event_iterator_init(struct ast_event_iterator *iterator, const struct ast_event *event) {
  *iterator = (struct ast_event_iterator){event, 0};
  return has_element(iterator);
}

int ast_event_iterator_next(struct ast_event_iterator *iterator) {
  iterator->index++;
  return has_element(iterator);
}

enum ast_event_ie_type ast_event_iterator_get_ie_type(struct ast_event_iterator *iterator) {
  uint16_t id;
  return bh_record_id_at(iterator->event->record, iterator->index, &id) == BH_OK ? (enum ast_event_ie_type)id : AST_EVENT_IE_END;
}

uint32_t ast_event_iterator_get_ie_uint(struct ast_event_iterator *iterator) {
  return ast_event_get_ie_uint(iterator->event, ast_event_iterator_get_ie_type(iterator));
}

const char *ast_event_iterator_get_ie_str(struct ast_event_iterator *iterator) {
  return ast_event_get_ie_str(iterator->event, ast_event_iterator_get_ie_type(iterator));
}

/* Hash and comparison by type, over the key elements. */
static uint64_t hash(const void *object, void *data) {
  const struct ast_event *event = object;
  uint64_t hash = 0xcbf29ce484222325u ^ ast_event_get_type(event);
  (void)data;
  for (const enum ast_event_ie_type *ie = KEYS[ast_event_get_type(event)]; *ie > 0; ie++)
    for (const char *next = ast_event_get_ie_str(event, *ie); next && *next; next++) hash = (hash ^ (unsigned char)*next) * 0x100000001b3u;
  return hash;
}

static int32_t equal(const void *one, const void *other, void *data) {
  (void)data;
  if (ast_event_get_type(one) != ast_event_get_type(other)) return 0;
  for (const enum ast_event_ie_type *ie = KEYS[ast_event_get_type(one)]; *ie > 0; ie++) {
    const char *a = ast_event_get_ie_str(one, *ie), *b = ast_event_get_ie_str(other, *ie);
    if (!a || !b || strcmp(a, b) != 0) return 0;
  }
  return 1;
}

int ast_event_init(void) {
  bh_topic_options options = {.size = sizeof options, .hash = hash, .equal = equal};
  if (bh_topic_new(NULL, &options, &queued) != BH_OK) return -1;
  options.cached = 1;
  return bh_topic_new(NULL, &options, &cache) == BH_OK ? 0 : -1;
}

void ast_event_shutdown(void) {
  bh_topic_free(queued);
  bh_topic_free(cache);
}

static void destroy(void *event) { ast_event_destroy(event); }

static int queue(struct ast_event *event, int is_cached) {
  bh_event *shared;
  if (!event) return -1;
  int is_cacheable = is_cached && KEYS[ast_event_get_type(event)][0] > 0;
  if (bh_event_of_object(queued, event, destroy, &shared) != BH_OK) return -1;
  if (is_cacheable) bh_topic_publish_from(cache, 0, shared, NULL);
  bh_result result = bh_topic_publish_from(queued, 0, shared, NULL);
  bh_event_free(shared);
  return result == BH_OK ? 0 : -1;
}

int ast_event_queue(struct ast_event *event) { return queue(event, 0); }
int ast_event_queue_and_cache(struct ast_event *event) { return queue(event, 1); }

static void read_wanted(struct wanted *wanted, enum ast_event_type type, va_list *elements) {
  struct element element;
  *wanted = (struct wanted){.type = type};
  bh_pattern_new(&wanted->pattern);
  if (type != AST_EVENT_ALL) bh_pattern_sort(wanted->pattern, (uint16_t)type);
  while (read_element(elements, &element)) {
    uint16_t id = (uint16_t)element.ie;
    switch (element.type) {
      case AST_EVENT_IE_PLTYPE_EXISTS: bh_pattern_exists(wanted->pattern, id); break;
      case AST_EVENT_IE_PLTYPE_UINT: bh_pattern_u32(wanted->pattern, id, element.number); break;
      case AST_EVENT_IE_PLTYPE_STR: bh_pattern_text(wanted->pattern, id, element.value); break;
      case AST_EVENT_IE_PLTYPE_RAW: bh_pattern_bytes(wanted->pattern, id, element.value, element.len); break;
      case AST_EVENT_IE_PLTYPE_BITFLAGS:
        if (wanted->flag_count < ELEMENTS_MAX) wanted->flags[wanted->flag_count++] = element;
        break;
      default: break;
    }
  }
}

static int matches(const struct wanted *wanted, const struct ast_event *event) {
  if (!bh_pattern_matches(wanted->pattern, event->record)) return 0;
  for (int i = 0; i < wanted->flag_count; i++)
    if (!(ast_event_get_ie_bitflags(event, wanted->flags[i].ie) & wanted->flags[i].number)) return 0;
  return 1;
}

static int32_t is_wanted(const bh_event *event, void *wanted) { return matches(wanted, bh_event_object(event)); }

static int32_t is_wanted_by(const bh_event *event, void *sub) { return is_wanted(event, &((struct ast_event_sub *)sub)->wanted); }

static void deliver(const bh_delivery *delivery, void *data) {
  struct ast_event_sub *sub = data;
  if (delivery->kind == BH_DELIVERY_EVENT) sub->callback(bh_event_object(delivery->event), sub->userdata);
}

/* For ast_event_check_subscriber; changed by those who subscribe, on one thread. */
static struct ast_event_sub *subs;

struct ast_event_sub *ast_event_subscribe(enum ast_event_type type, ast_event_cb_t callback, const char *description, void *userdata, ...) {
  struct ast_event_sub *sub = calloc(1, sizeof *sub);
  va_list elements;
  if (!sub) return NULL;
  va_start(elements, userdata);
  read_wanted(&sub->wanted, type, &elements);
  va_end(elements);
  sub->callback = callback;
  sub->userdata = userdata;
  bh_subscription_options options = {.size = sizeof options, .name = description, .is_wanted = is_wanted_by, .is_wanted_data = sub};
  if (bh_topic_subscribe(queued, &options, deliver, sub, NULL, &sub->subscription) != BH_OK) {
    bh_pattern_free(sub->wanted.pattern);
    free(sub);
    return NULL;
  }
  sub->next = subs;
  return subs = sub;
}

struct ast_event_sub *ast_event_unsubscribe(struct ast_event_sub *sub) {
  for (struct ast_event_sub **link = &subs; *link; link = &(*link)->next)
    if (*link == sub) {
      *link = sub->next;
      break;
    }
  bh_subscription_free(sub->subscription); /* the callback is not running any more */
  bh_pattern_free(sub->wanted.pattern);
  free(sub);
  return NULL;
}

static int32_t dump(const bh_event *event, void *data) {
  struct ast_event_sub *sub = data;
  if (is_wanted_by(event, sub)) sub->callback(bh_event_object(event), sub->userdata);
  return 1;
}

void ast_event_dump_cache(const struct ast_event_sub *sub) { bh_topic_each(cache, dump, (void *)sub); }

/* A copy, which the caller destroys; NULL if memory is out. */
static struct ast_event *copy(const struct ast_event *event) {
  struct ast_event *made = ast_event_new(ast_event_get_type(event), AST_EVENT_IE_END);
  uint16_t id;
  int is_whole = 1;
  if (!made) return NULL;
  for (size_t i = 0; is_whole && bh_record_id_at(event->record, i, &id) == BH_OK; i++) {
    struct element element = {.ie = (enum ast_event_ie_type)id, .number = ast_event_get_ie_uint(event, (enum ast_event_ie_type)id)};
    element.value = raw(event, element.ie, &element.len);
    switch (bh_record_type(event->record, id)) {
      case BH_ELEMENT_U32: element.type = AST_EVENT_IE_PLTYPE_UINT; break;
      case BH_ELEMENT_FLAGS: element.type = AST_EVENT_IE_PLTYPE_BITFLAGS; break;
      case BH_ELEMENT_TEXT:
        element.type = AST_EVENT_IE_PLTYPE_STR;
        element.value = ast_event_get_ie_str(event, element.ie);
        break;
      default: element.type = AST_EVENT_IE_PLTYPE_RAW;
    }
    is_whole = append(made, &element);
  }
  return whole(made, is_whole);
}

struct ast_event *ast_event_get_cached(enum ast_event_type type, ...) {
  struct wanted wanted;
  struct ast_event *made = NULL;
  bh_event *found;
  va_list elements;
  va_start(elements, type);
  read_wanted(&wanted, type, &elements);
  va_end(elements);
  if (bh_topic_find(cache, is_wanted, &wanted, &found) == BH_OK) {
    made = copy(bh_event_object(found));
    bh_event_free(found);
  }
  bh_pattern_free(wanted.pattern);
  return made;
}

/* Whether somebody would be told of such an event; not, if memory for it is out. */
enum ast_event_subscriber_res ast_event_check_subscriber(enum ast_event_type type, ...) {
  struct ast_event *event = ast_event_new(type, AST_EVENT_IE_END);
  enum ast_event_subscriber_res result = AST_EVENT_SUB_NONE;
  struct element element;
  va_list elements;
  int is_whole = event != NULL;
  va_start(elements, type);
  while (is_whole && read_element(&elements, &element)) is_whole = append(event, &element);
  va_end(elements);
  if (!event || !(event = whole(event, is_whole))) return result;
  for (struct ast_event_sub *sub = subs; sub; sub = sub->next)
    if (matches(&sub->wanted, event)) result = AST_EVENT_SUB_EXISTS;
  ast_event_destroy(event);
  return result;
}
