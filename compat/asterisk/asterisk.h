/* The names of Asterisk's scheduler, heap, events, task processors and task pools over Busyhour. README.md says what is here.
   The code is written for Busyhour; the names and what they mean are those of Asterisk's documentation. */
#ifndef BUSYHOUR_ASTERISK_H
#define BUSYHOUR_ASTERISK_H

#include <busyhour.h>

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Scheduler: ids are ints; a callback that returns 0 is not called again. */
struct ast_sched_context { bh_timers *timers; };
typedef int (*ast_sched_cb)(const void *data);
struct ast_sched_context *ast_sched_context_create(void);
void ast_sched_context_destroy(struct ast_sched_context *con);
int ast_sched_start_thread(struct ast_sched_context *con);
int ast_sched_add(struct ast_sched_context *con, int when_ms, ast_sched_cb callback, const void *data);
int ast_sched_add_variable(struct ast_sched_context *con, int when_ms, ast_sched_cb callback, const void *data, int variable);
int ast_sched_replace(int old_id, struct ast_sched_context *con, int when_ms, ast_sched_cb callback, const void *data);
int ast_sched_replace_variable(int old_id, struct ast_sched_context *con, int when_ms, ast_sched_cb callback, const void *data, int variable);
int ast_sched_del(struct ast_sched_context *con, int id);
/* Does not wait: -2 if the callback runs, which does not run again. */
int ast_sched_del_nonrunning(struct ast_sched_context *con, int id);
const void *ast_sched_find_data(struct ast_sched_context *con, int id);
int ast_sched_wait(struct ast_sched_context *con);
int ast_sched_runq(struct ast_sched_context *con);
long ast_sched_when(struct ast_sched_context *con, int id);
void ast_sched_clean_by_callback(struct ast_sched_context *con, ast_sched_cb match, ast_sched_cb cleanup);
/* Prints what waits, and what the context has done, to the standard error. */
void ast_sched_dump(struct ast_sched_context *con);
#define AST_SCHED_DEL(con, id)                                \
  ({                                                          \
    int deleted_ = (id) > -1 ? ast_sched_del((con), (id)) : -1; \
    (id) = -1;                                                \
    deleted_;                                                 \
  })
/* Gives the reference up that the timer had. If its callback runs, that is the callback's to do, and the id stays. */
#define AST_SCHED_DEL_UNREF(con, id, unreference)                                          \
  do {                                                                                     \
    if ((id) > -1 && ast_sched_del_nonrunning((con), (id)) == 0) {                         \
      unreference;                                                                         \
      (id) = -1;                                                                           \
    }                                                                                      \
  } while (0)
#define AST_SCHED_REPLACE_VARIABLE(id, con, when, callback, data, variable)           \
  do {                                                                                \
    AST_SCHED_DEL((con), (id));                                                       \
    (id) = ast_sched_add_variable((con), (when), (callback), (data), (variable));     \
  } while (0)
#define AST_SCHED_REPLACE(id, con, when, callback, data) AST_SCHED_REPLACE_VARIABLE(id, con, when, callback, data, 0)
/* An id that is read and written by functions. */
#define AST_SCHED_DEL_ACCESSOR(con, object, get, set)                                   \
  ({                                                                                    \
    int deleted_ = get(object) > -1 ? ast_sched_del((con), get(object)) : -1;           \
    set((object), -1);                                                                  \
    deleted_;                                                                           \
  })
/* The callback may want the lock, so it is free while the deletion waits for it. */
#define AST_SCHED_DEL_SPINLOCK(con, id, lock)                   \
  ({                                                            \
    int waits_for_ = (id), deleted_ = -1;                       \
    (id) = -1;                                                  \
    if (waits_for_ > -1) {                                      \
      pthread_mutex_unlock(lock);                               \
      deleted_ = ast_sched_del((con), waits_for_);              \
      pthread_mutex_lock(lock);                                 \
    }                                                           \
    deleted_;                                                   \
  })
/* `unreference` gives up the reference of the old timer, whose data is `_data`; `reference` takes one for the new one, which
   `on_failure` gives back. None of them if both have the same data. */
#define AST_SCHED_REPLACE_VARIABLE_UNREF(id, con, when, callback, data, variable, unreference, on_failure, reference) \
  do {                                                                                                                \
    void *_data = (void *)ast_sched_find_data((con), (id));                                                           \
    int deleted_ = (id) > -1 ? ast_sched_del((con), (id)) : -1;                                                       \
    if (deleted_ == 0 && _data && _data != (data)) unreference;                                                       \
    if (_data != (data)) reference;                                                                                   \
    (id) = ast_sched_add_variable((con), (when), (callback), (data), (variable));                                     \
    if ((id) == -1) on_failure;                                                                                       \
  } while (0)
#define AST_SCHED_REPLACE_UNREF(id, con, when, callback, data, unreference, on_failure, reference) \
  AST_SCHED_REPLACE_VARIABLE_UNREF(id, con, when, callback, data, 0, unreference, on_failure, reference)

/* Heap: the greatest element is on top; peek counts from 1. An element has room for an index. */
struct ast_heap;
typedef int (*ast_heap_cmp_fn)(void *one, void *other);
struct ast_heap *ast_heap_create(unsigned init_height, ast_heap_cmp_fn compare, ssize_t index_offset);
struct ast_heap *ast_heap_destroy(struct ast_heap *heap);
int ast_heap_push(struct ast_heap *heap, void *element);
void *ast_heap_pop(struct ast_heap *heap);
void *ast_heap_remove(struct ast_heap *heap, void *element);
void *ast_heap_peek(struct ast_heap *heap, unsigned index);
size_t ast_heap_size(struct ast_heap *heap);
int ast_heap_verify(struct ast_heap *heap);
/* The heap's own lock, for those who share it. */
int ast_heap_wrlock(struct ast_heap *heap);
int ast_heap_rdlock(struct ast_heap *heap);
int ast_heap_unlock(struct ast_heap *heap);

/* Events. */
enum ast_event_type { AST_EVENT_ALL = 0, AST_EVENT_CUSTOM = 1, AST_EVENT_MWI = 2, AST_EVENT_DEVICE_STATE = 6, AST_EVENT_TOTAL };
enum ast_event_ie_type {
  AST_EVENT_IE_END = -1, AST_EVENT_IE_NEWMSGS = 1, AST_EVENT_IE_MAILBOX = 3, AST_EVENT_IE_DEVICE = 8, AST_EVENT_IE_STATE = 9,
  AST_EVENT_IE_CONTEXT = 10, AST_EVENT_IE_EVENT_VERSION = 20, AST_EVENT_IE_EID = 14, AST_EVENT_IE_CEL_EVENT_TIME_USEC = 23,
  AST_EVENT_IE_CEL_USEREVENT_NAME = 24, AST_EVENT_IE_CEL_CIDNAME = 25, AST_EVENT_IE_CEL_AMAFLAGS = 31
};
enum ast_event_ie_pltype {
  AST_EVENT_IE_PLTYPE_UNKNOWN = -1, AST_EVENT_IE_PLTYPE_EXISTS, AST_EVENT_IE_PLTYPE_UINT, AST_EVENT_IE_PLTYPE_STR,
  AST_EVENT_IE_PLTYPE_RAW, AST_EVENT_IE_PLTYPE_BITFLAGS
};
enum ast_event_subscriber_res { AST_EVENT_SUB_NONE, AST_EVENT_SUB_EXISTS };
struct ast_event;
struct ast_event_sub;
typedef void (*ast_event_cb_t)(const struct ast_event *event, void *userdata);
int ast_event_init(void);
void ast_event_shutdown(void);
/* Elements are triples: element, type, value; a raw one has its length after the value. AST_EVENT_IE_END ends them. */
struct ast_event *ast_event_new(enum ast_event_type type, ...);
void ast_event_destroy(struct ast_event *event);
/* -1 if memory is out: then the event is as it was. */
int ast_event_append_ie_str(struct ast_event **event, enum ast_event_ie_type ie, const char *text);
int ast_event_append_ie_uint(struct ast_event **event, enum ast_event_ie_type ie, uint32_t number);
int ast_event_append_ie_bitflags(struct ast_event **event, enum ast_event_ie_type ie, uint32_t flags);
int ast_event_append_ie_raw(struct ast_event **event, enum ast_event_ie_type ie, const void *bytes, size_t len);
/* The id of this server, as a raw element. */
struct ast_eid { unsigned char eid[6]; };
extern struct ast_eid ast_eid_default;
int ast_event_append_eid(struct ast_event **event);
/* The bytes of the event with its elements, as it is encoded, and of one without elements. */
size_t ast_event_get_size(const struct ast_event *event);
size_t ast_event_minimum_length(void);
enum ast_event_type ast_event_get_type(const struct ast_event *event);
uint32_t ast_event_get_ie_uint(const struct ast_event *event, enum ast_event_ie_type ie);
uint32_t ast_event_get_ie_bitflags(const struct ast_event *event, enum ast_event_ie_type ie);
const char *ast_event_get_ie_str(const struct ast_event *event, enum ast_event_ie_type ie);
const void *ast_event_get_ie_raw(const struct ast_event *event, enum ast_event_ie_type ie);
uint16_t ast_event_get_ie_raw_payload_len(const struct ast_event *event, enum ast_event_ie_type ie);
/* "" and UNKNOWN for those that are not in the enumerations above; -1 for a name that none of them has. */
const char *ast_event_get_type_name(const struct ast_event *event);
const char *ast_event_get_ie_type_name(enum ast_event_ie_type ie);
enum ast_event_ie_pltype ast_event_get_ie_pltype(enum ast_event_ie_type ie);
int ast_event_str_to_ie_type(const char *name, enum ast_event_ie_type *ie);
/* The elements of an event in the order of their numbers; -1: there is none, or no further one. */
struct ast_event_iterator { const struct ast_event *event; size_t index; };
int ast_event_iterator_init(struct ast_event_iterator *iterator, const struct ast_event *event);
int ast_event_iterator_next(struct ast_event_iterator *iterator);
enum ast_event_ie_type ast_event_iterator_get_ie_type(struct ast_event_iterator *iterator);
uint32_t ast_event_iterator_get_ie_uint(struct ast_event_iterator *iterator);
const char *ast_event_iterator_get_ie_str(struct ast_event_iterator *iterator);
/* Both take the event, whatever they return. */
int ast_event_queue(struct ast_event *event);
int ast_event_queue_and_cache(struct ast_event *event);
struct ast_event *ast_event_get_cached(enum ast_event_type type, ...);
struct ast_event_sub *ast_event_subscribe(enum ast_event_type type, ast_event_cb_t callback, const char *description, void *userdata, ...);
struct ast_event_sub *ast_event_unsubscribe(struct ast_event_sub *sub);
void ast_event_dump_cache(const struct ast_event_sub *sub);
enum ast_event_subscriber_res ast_event_check_subscriber(enum ast_event_type type, ...);

/* Task processors, and task pools, whose serializers are task processors. */
struct ast_taskprocessor;
struct ast_taskpool;
struct ast_serializer_shutdown_group { bh_group *group; };
enum ast_tps_options { TPS_REF_DEFAULT = 0, TPS_REF_IF_EXISTS = 1 };
enum ast_taskpool_selector { AST_TASKPOOL_SELECTOR_DEFAULT, AST_TASKPOOL_SELECTOR_LEAST_FULL, AST_TASKPOOL_SELECTOR_SEQUENTIAL };
struct ast_taskpool_options {
  int version;
  enum ast_taskpool_selector selector;
  int idle_timeout, auto_increment, minimum_size, initial_size, max_size, growth_threshold; /* seconds; workers; tasks */
  void (*thread_start)(void), (*thread_end)(void);
};
#define AST_TASKPOOL_OPTIONS_VERSION 1
#define AST_TASKPROCESSOR_HIGH_WATER_LEVEL 500
#define AST_TASKPROCESSOR_MAX_NAME 70
typedef int (*ast_task_fn)(void *data);
int ast_tps_init(void);
void ast_tps_shutdown(void);
struct ast_taskprocessor *ast_taskprocessor_get(const char *name, enum ast_tps_options create);
struct ast_taskprocessor *ast_taskprocessor_unreference(struct ast_taskprocessor *tps);
int ast_taskprocessor_push(struct ast_taskprocessor *tps, ast_task_fn task, void *data);
const char *ast_taskprocessor_name(struct ast_taskprocessor *tps);
/* Numbers that make names unique, and a name with one. */
unsigned ast_taskprocessor_seq_num(void);
void ast_taskprocessor_name_append(char *buf, unsigned size, const char *name);
void ast_taskprocessor_build_name(char *buf, unsigned size, const char *format, ...) __attribute__((format(printf, 3, 4)));
long ast_taskprocessor_size(struct ast_taskprocessor *tps);
int ast_taskprocessor_is_task(struct ast_taskprocessor *tps);
int ast_taskprocessor_suspend(struct ast_taskprocessor *tps);
int ast_taskprocessor_unsuspend(struct ast_taskprocessor *tps);
int ast_taskprocessor_is_suspended(struct ast_taskprocessor *tps);
int ast_taskprocessor_alert_set_levels(struct ast_taskprocessor *tps, long low_water, long high_water);
unsigned ast_taskprocessor_alert_get(void);
/* Of those whose name begins with the subsystem and a slash. */
unsigned ast_taskprocessor_get_subsystem_alert(const char *subsystem);
struct ast_taskprocessor_local { void *local_data, *data; };
typedef int (*ast_task_local_fn)(struct ast_taskprocessor_local *local);
int ast_taskprocessor_push_local(struct ast_taskprocessor *tps, ast_task_local_fn task, void *data);
void ast_taskprocessor_set_local(struct ast_taskprocessor *tps, void *local_data);
/* A listener decides when and where the tasks of its task processor run: it calls ast_taskprocessor_execute. */
struct ast_taskprocessor_listener;
struct ast_taskprocessor_listener_callbacks {
  int (*start)(struct ast_taskprocessor_listener *listener);
  void (*task_pushed)(struct ast_taskprocessor_listener *listener, int was_empty);
  void (*emptied)(struct ast_taskprocessor_listener *listener);
  void (*shutdown)(struct ast_taskprocessor_listener *listener);
  void (*dtor)(struct ast_taskprocessor_listener *listener);
};
struct ast_taskprocessor_listener *ast_taskprocessor_listener_alloc(const struct ast_taskprocessor_listener_callbacks *callbacks, void *user_data);
void *ast_taskprocessor_listener_get_user_data(const struct ast_taskprocessor_listener *listener);
struct ast_taskprocessor *ast_taskprocessor_listener_get_tps(const struct ast_taskprocessor_listener *listener);
/* Takes the listener, whatever it returns. */
struct ast_taskprocessor *ast_taskprocessor_create_with_listener(const char *name, struct ast_taskprocessor_listener *listener);
/* Runs the next task on this thread: 1 if more wait, 0 if not. */
int ast_taskprocessor_execute(struct ast_taskprocessor *tps);
/* The console's `core show taskprocessors [like NAME]`, `core show taskprocessor name NAME`, `core ping taskprocessor NAME`,
   `core reset taskprocessors` and `core reset taskprocessor NAME`: 0, or -1 for another command. */
int ast_cli_command(int fd, const char *command);
struct ast_taskpool *ast_taskpool_create(const char *name, const struct ast_taskpool_options *options);
int ast_taskpool_push(struct ast_taskpool *pool, ast_task_fn task, void *data);
int ast_taskpool_push_wait(struct ast_taskpool *pool, ast_task_fn task, void *data);
size_t ast_taskpool_taskprocessors_count(struct ast_taskpool *pool);
long ast_taskpool_queue_size(struct ast_taskpool *pool);
void ast_taskpool_shutdown(struct ast_taskpool *pool);
struct ast_taskprocessor *ast_taskpool_serializer(const char *name, struct ast_taskpool *pool);
struct ast_taskprocessor *ast_taskpool_serializer_group(const char *name, struct ast_taskpool *pool, struct ast_serializer_shutdown_group *group);
int ast_taskpool_serializer_push_wait(struct ast_taskprocessor *serializer, ast_task_fn task, void *data);
struct ast_taskprocessor *ast_taskpool_serializer_get_current(void);
/* -1 inside of a task of a pool, where waiting for the task that runs could last for ever. */
int ast_taskpool_serializer_suspend(struct ast_taskprocessor *serializer);
int ast_taskpool_serializer_unsuspend(struct ast_taskprocessor *serializer);
struct ast_serializer_shutdown_group *ast_serializer_shutdown_group_alloc(void);
/* For groups that no serializer uses any more. */
void ast_serializer_shutdown_group_free(struct ast_serializer_shutdown_group *group);
/* How many serializers were not done after so many seconds. */
int ast_serializer_shutdown_group_join(struct ast_serializer_shutdown_group *group, int timeout);

/* Several serializers of a task pool, of which the one with the fewest tasks gets the next. */
struct ast_serializer_pool;
struct ast_serializer_pool *ast_serializer_taskpool_create(const char *name, unsigned size, struct ast_taskpool *pool, int timeout);
/* How many of them were not done within the time limit: the pool is freed if none, and otherwise it can be destroyed again. */
int ast_serializer_pool_destroy(struct ast_serializer_pool *pool);
const char *ast_serializer_pool_name(const struct ast_serializer_pool *pool);
struct ast_taskprocessor *ast_serializer_pool_get(struct ast_serializer_pool *pool);
/* A thread pool is a task pool by another name. */
struct ast_threadpool;
struct ast_threadpool_listener;
struct ast_threadpool_options {
  int version, idle_timeout, auto_increment, initial_size, max_size;
  void (*thread_start)(void), (*thread_end)(void);
};
#define AST_THREADPOOL_OPTIONS_VERSION 1
/* The listener is NULL. */
struct ast_threadpool *ast_threadpool_create(const char *name, struct ast_threadpool_listener *listener, const struct ast_threadpool_options *options);
int ast_threadpool_push(struct ast_threadpool *pool, ast_task_fn task, void *data);
long ast_threadpool_queue_size(struct ast_threadpool *pool);
void ast_threadpool_shutdown(struct ast_threadpool *pool);
struct ast_taskprocessor *ast_threadpool_serializer(const char *name, struct ast_threadpool *pool);
struct ast_taskprocessor *ast_threadpool_serializer_get_current(void);
struct ast_serializer_pool *ast_serializer_pool_create(const char *name, unsigned size, struct ast_threadpool *pool, int timeout);
int ast_serializer_pool_set_alerts(struct ast_serializer_pool *pool, long high, long low);

#endif
