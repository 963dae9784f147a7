/* Asterisk's events, task processors and task pools over Busyhour (compat/asterisk), held to what Asterisk's documentation says of them. */
#include "../../../../compat/asterisk/asterisk.h"
#include "check.h"

#include <semaphore.h>

/* Events. */
static long received;
static void receive(const struct ast_event *event, void *userdata) { *(long *)userdata += 1 + 0 * ast_event_get_type(event); }

static struct ast_event *mwi(const char *mailbox, uint32_t messages) {
  return ast_event_new(AST_EVENT_MWI, AST_EVENT_IE_MAILBOX, AST_EVENT_IE_PLTYPE_STR, mailbox, AST_EVENT_IE_CONTEXT,
                       AST_EVENT_IE_PLTYPE_STR, "default", AST_EVENT_IE_NEWMSGS, AST_EVENT_IE_PLTYPE_UINT, messages, AST_EVENT_IE_END);
}

static void elements(void) {
  struct ast_event *event = ast_event_new(
      AST_EVENT_CUSTOM, AST_EVENT_IE_STATE, AST_EVENT_IE_PLTYPE_UINT, 7u, AST_EVENT_IE_DEVICE, AST_EVENT_IE_PLTYPE_STR, "SIP/alice",
      AST_EVENT_IE_EVENT_VERSION, AST_EVENT_IE_PLTYPE_BITFLAGS, 6u, AST_EVENT_IE_EID, AST_EVENT_IE_PLTYPE_RAW, "\0\1\2", (size_t)3, AST_EVENT_IE_END);
  CHECK(ast_event_get_type(event) == AST_EVENT_CUSTOM && ast_event_get_ie_uint(event, AST_EVENT_IE_STATE) == 7);
  CHECK(strcmp(ast_event_get_ie_str(event, AST_EVENT_IE_DEVICE), "SIP/alice") == 0 && ast_event_get_ie_str(event, AST_EVENT_IE_EID) == NULL);
  CHECK(ast_event_get_ie_bitflags(event, AST_EVENT_IE_EVENT_VERSION) == 6 && ast_event_get_ie_raw_payload_len(event, AST_EVENT_IE_EID) == 3);
  CHECK(memcmp(ast_event_get_ie_raw(event, AST_EVENT_IE_EID), "\0\1\2", 3) == 0 && ast_event_get_ie_raw(event, AST_EVENT_IE_MAILBOX) == NULL);
  ast_event_destroy(event);
}

/* Elements one by one make the event that all at once make. */
static void appended_elements(void) {
  struct ast_event *event = ast_event_new(AST_EVENT_CUSTOM, AST_EVENT_IE_END);
  CHECK(ast_event_append_ie_str(&event, AST_EVENT_IE_DEVICE, "SIP/alice") == 0 && ast_event_append_ie_uint(&event, AST_EVENT_IE_NEWMSGS, 7) == 0);
  CHECK(ast_event_append_ie_bitflags(&event, AST_EVENT_IE_STATE, 6) == 0 && ast_event_append_ie_raw(&event, AST_EVENT_IE_EID, "abc", 3) == 0);
  struct ast_event *whole = ast_event_new(
      AST_EVENT_CUSTOM, AST_EVENT_IE_DEVICE, AST_EVENT_IE_PLTYPE_STR, "SIP/alice", AST_EVENT_IE_NEWMSGS, AST_EVENT_IE_PLTYPE_UINT, 7u,
      AST_EVENT_IE_STATE, AST_EVENT_IE_PLTYPE_BITFLAGS, 6u, AST_EVENT_IE_EID, AST_EVENT_IE_PLTYPE_RAW, "abc", (size_t)3, AST_EVENT_IE_END);
  CHECK(ast_event_get_size(event) == ast_event_get_size(whole) && ast_event_get_size(whole) > 0);
  CHECK(strcmp(ast_event_get_ie_str(event, AST_EVENT_IE_DEVICE), "SIP/alice") == 0 && ast_event_get_ie_uint(event, AST_EVENT_IE_NEWMSGS) == 7);
  CHECK(ast_event_get_ie_bitflags(event, AST_EVENT_IE_STATE) == 6 && ast_event_get_ie_raw_payload_len(event, AST_EVENT_IE_EID) == 3);
  ast_event_destroy(event), ast_event_destroy(whole);
}

/* The elements one after the other, by their numbers, with their names and types. */
static void iterated_elements(void) {
  struct ast_event *event = ast_event_new(
      AST_EVENT_CUSTOM, AST_EVENT_IE_STATE, AST_EVENT_IE_PLTYPE_UINT, 7u, AST_EVENT_IE_DEVICE, AST_EVENT_IE_PLTYPE_STR, "SIP/alice", AST_EVENT_IE_END);
  struct ast_event *empty = ast_event_new(AST_EVENT_MWI, AST_EVENT_IE_END);
  struct ast_event_iterator next;
  enum ast_event_ie_type ie;
  CHECK(ast_event_iterator_init(&next, event) == 0 && ast_event_iterator_get_ie_type(&next) == AST_EVENT_IE_DEVICE);
  CHECK(strcmp(ast_event_iterator_get_ie_str(&next), "SIP/alice") == 0 && ast_event_iterator_next(&next) == 0);
  CHECK(ast_event_iterator_get_ie_type(&next) == AST_EVENT_IE_STATE && ast_event_iterator_get_ie_uint(&next) == 7);
  CHECK(ast_event_iterator_next(&next) == -1 && ast_event_iterator_get_ie_type(&next) == AST_EVENT_IE_END);
  CHECK(ast_event_iterator_init(&next, empty) == -1 && ast_event_get_size(empty) == ast_event_minimum_length());
  CHECK(strcmp(ast_event_get_type_name(event), "Custom") == 0 && strcmp(ast_event_get_type_name(empty), "MWI") == 0);
  CHECK(strcmp(ast_event_get_ie_type_name(AST_EVENT_IE_DEVICE), "Device") == 0 && !*ast_event_get_ie_type_name(4711));
  CHECK(ast_event_get_ie_pltype(AST_EVENT_IE_EID) == AST_EVENT_IE_PLTYPE_RAW && ast_event_get_ie_pltype(4711) == AST_EVENT_IE_PLTYPE_UNKNOWN);
  CHECK(ast_event_str_to_ie_type("mailbox", &ie) == 0 && ie == AST_EVENT_IE_MAILBOX && ast_event_str_to_ie_type("no such", &ie) == -1);
  ast_eid_default = (struct ast_eid){{1, 2, 3, 4, 5, 6}};
  CHECK(ast_event_append_eid(&event) == 0 && ast_event_get_ie_raw_payload_len(event, AST_EVENT_IE_EID) == 6);
  CHECK(memcmp(ast_event_get_ie_raw(event, AST_EVENT_IE_EID), &ast_eid_default, 6) == 0);
  ast_event_destroy(event), ast_event_destroy(empty);
}

static void subscriptions(void) {
  long all = 0, exists = 0, text = 0, flags = 0, bytes = 0, number = 0;
  struct ast_event_sub *subs[] = {
      ast_event_subscribe(AST_EVENT_ALL, receive, "all", &all, AST_EVENT_IE_END),
      ast_event_subscribe(AST_EVENT_CUSTOM, receive, "exists", &exists, AST_EVENT_IE_DEVICE, AST_EVENT_IE_PLTYPE_EXISTS, AST_EVENT_IE_END),
      ast_event_subscribe(AST_EVENT_CUSTOM, receive, "text", &text, AST_EVENT_IE_DEVICE, AST_EVENT_IE_PLTYPE_STR, "FOO/bar", AST_EVENT_IE_END),
      ast_event_subscribe(AST_EVENT_CUSTOM, receive, "flags", &flags, AST_EVENT_IE_STATE, AST_EVENT_IE_PLTYPE_BITFLAGS, 6u, AST_EVENT_IE_END),
      ast_event_subscribe(AST_EVENT_CUSTOM, receive, "bytes", &bytes, AST_EVENT_IE_EID, AST_EVENT_IE_PLTYPE_RAW, "abc", (size_t)3, AST_EVENT_IE_END),
      ast_event_subscribe(AST_EVENT_CUSTOM, receive, "number", &number, AST_EVENT_IE_NEWMSGS, AST_EVENT_IE_PLTYPE_UINT, 5u, AST_EVENT_IE_END),
  };
  ast_event_queue(ast_event_new(AST_EVENT_CUSTOM, AST_EVENT_IE_DEVICE, AST_EVENT_IE_PLTYPE_STR, "FOO/bar", AST_EVENT_IE_NEWMSGS, AST_EVENT_IE_PLTYPE_UINT, 5u, AST_EVENT_IE_END));
  ast_event_queue(ast_event_new(AST_EVENT_CUSTOM, AST_EVENT_IE_DEVICE, AST_EVENT_IE_PLTYPE_STR, "FOO/baz", AST_EVENT_IE_STATE, AST_EVENT_IE_PLTYPE_BITFLAGS, 2u, AST_EVENT_IE_END));
  ast_event_queue(ast_event_new(AST_EVENT_CUSTOM, AST_EVENT_IE_EID, AST_EVENT_IE_PLTYPE_RAW, "abc", (size_t)3, AST_EVENT_IE_STATE, AST_EVENT_IE_PLTYPE_BITFLAGS, 8u, AST_EVENT_IE_END));
  ast_event_queue(ast_event_new(AST_EVENT_CUSTOM, AST_EVENT_IE_EID, AST_EVENT_IE_PLTYPE_RAW, "abd", (size_t)3, AST_EVENT_IE_NEWMSGS, AST_EVENT_IE_PLTYPE_UINT, 6u, AST_EVENT_IE_END));
  ast_event_queue(mwi("1", 0));
  CHECK(all == 5 && exists == 2 && text == 1 && flags == 1 && bytes == 1 && number == 1);
  CHECK(ast_event_check_subscriber(AST_EVENT_CUSTOM, AST_EVENT_IE_NEWMSGS, AST_EVENT_IE_PLTYPE_UINT, 5u, AST_EVENT_IE_END) == AST_EVENT_SUB_EXISTS);
  subs[0] = ast_event_unsubscribe(subs[0]);
  CHECK(ast_event_check_subscriber(AST_EVENT_MWI, AST_EVENT_IE_END) == AST_EVENT_SUB_NONE);
  for (int i = 1; i < 6; i++) CHECK(ast_event_unsubscribe(subs[i]) == NULL);
  CHECK(ast_event_queue(mwi("1", 0)) == 0 && all == 5);
}

static void cache(void) {
  received = 0;
  struct ast_event_sub *sub = ast_event_subscribe(AST_EVENT_MWI, receive, "mwi", &received, AST_EVENT_IE_CONTEXT, AST_EVENT_IE_PLTYPE_STR, "default", AST_EVENT_IE_END);
  for (uint32_t i = 0; i < 10; i++) {
    CHECK(ast_event_queue_and_cache(mwi("alice", i)) == 0 && ast_event_queue_and_cache(mwi("bob", 10 * i)) == 0);
    CHECK(ast_event_queue(mwi("carol", i)) == 0); /* not kept */
  }
  CHECK(received == 30);
  ast_event_dump_cache(sub);
  CHECK(received == 32);
  ast_event_unsubscribe(sub);
  struct ast_event *last = ast_event_get_cached(AST_EVENT_MWI, AST_EVENT_IE_MAILBOX, AST_EVENT_IE_PLTYPE_STR, "bob", AST_EVENT_IE_END);
  CHECK(last && ast_event_get_ie_uint(last, AST_EVENT_IE_NEWMSGS) == 90 && strcmp(ast_event_get_ie_str(last, AST_EVENT_IE_MAILBOX), "bob") == 0);
  ast_event_destroy(last);
  CHECK(ast_event_get_cached(AST_EVENT_MWI, AST_EVENT_IE_MAILBOX, AST_EVENT_IE_PLTYPE_STR, "carol", AST_EVENT_IE_END) == NULL);
}

/* Task processors and task pools. */
static sem_t is_running, may_end;

/* Memory that is out, for the files of compat/asterisk: the linker calls these. */
static _Thread_local int allocations_left = -1;
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
static int is_out(void) { return allocations_left > 0 ? allocations_left--, 0 : allocations_left == 0; }
void *__wrap_malloc(size_t size) { return is_out() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return is_out() ? NULL : __real_calloc(count, size); }

static void events_without_memory(void) {
  struct ast_event *event = NULL;
  struct ast_event_sub *sub = NULL;
  int tries = 0;
  CHECK(ast_event_queue_and_cache(mwi("dave", 1)) == 0 && ast_event_queue(NULL) == -1);
  for (; !event; tries++) {
    allocations_left = tries;
    event = mwi("dave", 1);
  }
  CHECK(tries == 4 && strcmp(ast_event_get_ie_str(event, AST_EVENT_IE_MAILBOX), "dave") == 0); /* the event and two texts */
  ast_event_destroy(event);
  for (event = NULL, tries = 0; !event; tries++) {
    allocations_left = tries;
    event = ast_event_get_cached(AST_EVENT_MWI, AST_EVENT_IE_MAILBOX, AST_EVENT_IE_PLTYPE_STR, "dave", AST_EVENT_IE_END);
  }
  CHECK(tries == 4);
  ast_event_destroy(event);
  for (tries = 0; !sub; tries++) {
    allocations_left = tries;
    sub = ast_event_subscribe(AST_EVENT_MWI, receive, "all", &received, AST_EVENT_IE_END);
  }
  CHECK(tries == 2);
  for (tries = 0; tries < 3; tries++) {
    allocations_left = tries;
    enum ast_event_subscriber_res found = ast_event_check_subscriber(AST_EVENT_MWI, AST_EVENT_IE_MAILBOX, AST_EVENT_IE_PLTYPE_STR, "dave", AST_EVENT_IE_END);
    CHECK(found == (tries == 2 ? AST_EVENT_SUB_EXISTS : AST_EVENT_SUB_NONE));
  }
  allocations_left = -1;
  ast_event_unsubscribe(sub);
}

static int count_task(void *counter) { return atomic_fetch_add((atomic_long *)counter, 1), 0; }
static int next_number, in_order = 1;
static int expects(void *number) { return in_order &= next_number++ == (int)(intptr_t)number, 0; }
static int block(void *unused) { return (void)unused, sem_post(&is_running), sem_wait(&may_end), 0; }
static struct ast_taskprocessor *seen;
static int see(void *unused) { return (void)unused, seen = ast_taskpool_serializer_get_current(), 0; }
static int pushes_to_itself(void *unused) { return (void)unused, ast_taskpool_serializer_push_wait(ast_taskpool_serializer_get_current(), see, NULL); }

static void task_processors(void) {
  static atomic_long done;
  struct ast_taskprocessor *tps = ast_taskprocessor_get("test", TPS_REF_DEFAULT), *same = ast_taskprocessor_get("test", TPS_REF_IF_EXISTS);
  CHECK(tps && tps == same && ast_taskprocessor_get("other", TPS_REF_IF_EXISTS) == NULL && strcmp(ast_taskprocessor_name(tps), "test") == 0);
  CHECK(ast_taskprocessor_unreference(same) == NULL);
  CHECK(ast_taskprocessor_alert_set_levels(tps, 5, 3) == -1 && ast_taskprocessor_alert_set_levels(tps, 2, 10) == 0);
  CHECK(ast_taskprocessor_suspend(tps) == 0 && ast_taskprocessor_is_suspended(tps));
  for (intptr_t i = 0; i < 1000; i++) {
    CHECK(ast_taskprocessor_push(tps, expects, (void *)i) == 0 && ast_taskprocessor_size(tps) == i + 1);
    CHECK(ast_taskprocessor_alert_get() == (i + 1 >= 10));
  }
  CHECK(!ast_taskprocessor_is_task(tps) && next_number == 0);
  ast_taskprocessor_unsuspend(tps);
  ast_taskprocessor_push(tps, count_task, &done);
  await(&done, 1);
  CHECK(next_number == 1000 && in_order && ast_taskprocessor_alert_get() == 0 && !ast_taskprocessor_is_suspended(tps));
  ast_taskprocessor_suspend(tps);
  for (int i = 0; i < 600; i++) ast_taskprocessor_push(tps, count_task, &done);
  CHECK(ast_taskprocessor_alert_set_levels(tps, -1, 1000) == 0 && ast_taskprocessor_alert_get() == 0);
  CHECK(ast_taskprocessor_alert_set_levels(tps, -1, -1) == 0 && ast_taskprocessor_alert_get() == 1); /* 500 */
  ast_taskprocessor_unreference(tps); /* what is queued runs */
  await(&done, 601);
}

/* A listener that runs nothing by itself: what it is told, and when. */
static struct { int started, pushed, were_empty, emptied, shut_down, destroyed, refuses; } told;
static int told_start(struct ast_taskprocessor_listener *listener) {
  CHECK(ast_taskprocessor_listener_get_user_data(listener) == &told && ast_taskprocessor_listener_get_tps(listener) != NULL);
  return told.started++, told.refuses;
}
static void told_pushed(struct ast_taskprocessor_listener *listener, int was_empty) { (void)listener, told.pushed++, told.were_empty += was_empty; }
static void told_emptied(struct ast_taskprocessor_listener *listener) { (void)listener, told.emptied++; }
static void told_shutdown(struct ast_taskprocessor_listener *listener) {
  told.shut_down++;
  while (ast_taskprocessor_execute(ast_taskprocessor_listener_get_tps(listener))) {}
}
static void told_dtor(struct ast_taskprocessor_listener *listener) { (void)listener, told.destroyed++; }
static const struct ast_taskprocessor_listener_callbacks TOLD = {told_start, told_pushed, told_emptied, told_shutdown, told_dtor};

static struct ast_taskprocessor *listened;
static int pushes_more(void *counter) {
  CHECK(ast_taskprocessor_is_task(listened) && ast_taskprocessor_size(listened) == 0);
  return count_task(counter), ast_taskprocessor_push(listened, count_task, counter);
}
static int takes_local(struct ast_taskprocessor_local *local) { return *(const char **)local->data = local->local_data, 0; }

static void *push_and_run(void *counter) {
  for (int i = 0; i < 1000; i++) {
    CHECK(ast_taskprocessor_push(listened, count_task, counter) == 0);
    ast_taskprocessor_execute(listened);
  }
  return counter;
}

static void listeners(void) {
  static atomic_long done;
  const char *local = NULL;
  struct ast_taskprocessor_listener *listener = ast_taskprocessor_listener_alloc(&TOLD, &told);
  listened = ast_taskprocessor_create_with_listener("listened/one", listener);
  CHECK(listened && told.started == 1 && ast_taskprocessor_listener_get_tps(listener) == listened);
  CHECK(ast_taskprocessor_get("listened/one", TPS_REF_IF_EXISTS) == listened && ast_taskprocessor_unreference(listened) == NULL);
  CHECK(ast_taskprocessor_create_with_listener("listened/one", ast_taskprocessor_listener_alloc(&TOLD, &told)) == NULL && told.destroyed == 1);
  for (int i = 0; i < 3; i++) CHECK(ast_taskprocessor_push(listened, count_task, &done) == 0);
  CHECK(told.pushed == 3 && told.were_empty == 1 && told.emptied == 0 && atomic_load(&done) == 0 && ast_taskprocessor_size(listened) == 3);
  CHECK(ast_taskprocessor_execute(listened) == 1 && ast_taskprocessor_execute(listened) == 1 && told.emptied == 0);
  CHECK(ast_taskprocessor_execute(listened) == 0 && told.emptied == 1 && ast_taskprocessor_execute(listened) == 0 && told.emptied == 1);
  CHECK(atomic_load(&done) == 3 && !ast_taskprocessor_is_task(listened) && ast_taskprocessor_suspend(listened) == -1);
  CHECK(ast_taskprocessor_push(listened, pushes_more, &done) == 0 && ast_taskprocessor_execute(listened) == 1);
  CHECK(told.were_empty == 2 && told.emptied == 1 && ast_taskprocessor_execute(listened) == 0 && told.emptied == 2 && atomic_load(&done) == 5);
  ast_taskprocessor_set_local(listened, "local");
  CHECK(ast_taskprocessor_push_local(listened, takes_local, &local) == 0 && ast_taskprocessor_execute(listened) == 0 && strcmp(local, "local") == 0);

  /* Each task once, in whatever thread. */
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, push_and_run, &done) == 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  CHECK(atomic_load(&done) == 5 + 3000 && ast_taskprocessor_size(listened) == 0);
  for (int i = 0; i < 2; i++) ast_taskprocessor_push(listened, count_task, &done);
  CHECK(ast_taskprocessor_unreference(listened) == NULL && told.shut_down == 1 && told.destroyed == 2 && atomic_load(&done) == 5 + 3002);
  told.refuses = 1; /* a start that fails */
  CHECK(ast_taskprocessor_create_with_listener("listened/one", ast_taskprocessor_listener_alloc(&TOLD, &told)) == NULL);
  CHECK(told.destroyed == 3 && told.shut_down == 1 && ast_taskprocessor_get("listened/one", TPS_REF_IF_EXISTS) == NULL);
  told.refuses = 0;
}

/* By the part of the name before the slash, whoever runs the tasks. */
static void subsystem_alerts(void) {
  static const struct ast_taskprocessor_listener_callbacks silent;
  static atomic_long done;
  atomic_store(&done, 0);
  struct ast_taskprocessor *sip = ast_taskprocessor_get("sip/calls", TPS_REF_DEFAULT), *plain = ast_taskprocessor_get("plain", TPS_REF_DEFAULT);
  struct ast_taskprocessor *other = ast_taskprocessor_create_with_listener("sip/other", ast_taskprocessor_listener_alloc(&silent, NULL));
  struct ast_taskprocessor *all[] = {sip, plain, other};
  CHECK(sip && plain && other && ast_taskprocessor_get_subsystem_alert("sip") == 0 && ast_taskprocessor_get_subsystem_alert("nobody") == 0);
  ast_taskprocessor_suspend(sip), ast_taskprocessor_suspend(plain);
  CHECK(ast_taskprocessor_alert_set_levels(other, 4, 4) == -1);
  for (int i = 0; i < 3; i++) CHECK(ast_taskprocessor_alert_set_levels(all[i], 2, 4) == 0);
  for (int pushed = 1; pushed <= 5; pushed++)
    for (int i = 0; i < 3; i++) {
      CHECK(ast_taskprocessor_push(all[i], count_task, &done) == 0);
      CHECK(ast_taskprocessor_get_subsystem_alert("sip") == (pushed > 4 ? 2u : pushed == 4 ? 1u + (i == 2) : 0u));
    }
  CHECK(ast_taskprocessor_alert_get() == 3 && ast_taskprocessor_get_subsystem_alert("") == 1);
  for (int left = 4; left > 2; left--) {
    CHECK(ast_taskprocessor_execute(other) == 1 && ast_taskprocessor_get_subsystem_alert("sip") == 2);
  }
  CHECK(ast_taskprocessor_execute(other) == 1 && ast_taskprocessor_get_subsystem_alert("sip") == 1); /* low water */
  CHECK(ast_taskprocessor_alert_set_levels(other, 0, 1) == 0 && ast_taskprocessor_get_subsystem_alert("sip") == 2);
  ast_taskprocessor_unreference(other); /* with two tasks that nobody runs */
  CHECK(ast_taskprocessor_get_subsystem_alert("sip") == 1);
  ast_taskprocessor_unsuspend(sip), ast_taskprocessor_unsuspend(plain);
  await(&done, 3 + 5 + 5);
  CHECK(ast_taskprocessor_alert_get() == 0);
  ast_taskprocessor_unreference(sip), ast_taskprocessor_unreference(plain);
}

static atomic_long started, ended;
static void thread_started(void) { atomic_fetch_add(&started, 1); }
static void thread_ended(void) { atomic_fetch_add(&ended, 1); }

static void task_pools(enum ast_taskpool_selector selector) {
  static atomic_long done;
  atomic_store(&done, 0);
  struct ast_taskpool_options options = {
      .version = AST_TASKPOOL_OPTIONS_VERSION, .selector = selector, .minimum_size = 1, .initial_size = 2, .max_size = 4,
      .auto_increment = 2, .growth_threshold = 1, .idle_timeout = 1, .thread_start = thread_started, .thread_end = thread_ended};
  atomic_store(&started, 0), atomic_store(&ended, 0);
  struct ast_taskpool *pool = ast_taskpool_create("pool", &options);
  CHECK(pool && ast_taskpool_taskprocessors_count(pool) == 2);
  for (int i = 0; i < 2; i++) CHECK(ast_taskpool_push(pool, block, NULL) == 0);
  for (int i = 0; i < 2; i++) sem_wait(&is_running);
  for (int i = 0; i < 2; i++) CHECK(ast_taskpool_push(pool, block, NULL) == 0); /* no worker is free: it grows */
  for (int i = 0; i < 10; i++) CHECK(ast_taskpool_push(pool, count_task, &done) == 0);
  for (int i = 0; i < 2; i++) sem_wait(&is_running);
  CHECK(ast_taskpool_taskprocessors_count(pool) == 4);
  for (int i = 0; i < 4; i++) sem_post(&may_end);
  CHECK(ast_taskpool_push_wait(pool, count_task, &done) == 0);
  await(&done, 11);
  await(&ended, 3); /* idle for a second: down to the minimum */
  struct ast_taskprocessor *serializer = ast_taskpool_serializer("serial", pool);
  CHECK(serializer && ast_taskpool_serializer_push_wait(serializer, see, NULL) == 0 && seen == serializer);
  seen = NULL;
  CHECK(ast_taskpool_serializer_push_wait(serializer, pushes_to_itself, NULL) == 0 && seen == serializer);
  CHECK(ast_taskpool_serializer_get_current() == NULL && ast_taskpool_queue_size(pool) == 0);
  ast_taskprocessor_unreference(serializer);
  ast_taskpool_shutdown(pool);
  CHECK(atomic_load(&started) == atomic_load(&ended));
}

/* It has threads as long as there is something to do. */
static void pool_without_threads(void) {
  static atomic_long done;
  struct ast_taskpool_options options = {.version = AST_TASKPOOL_OPTIONS_VERSION, .auto_increment = 1, .max_size = 1, .idle_timeout = 1};
  struct ast_taskpool *pool = ast_taskpool_create("empty", &options);
  CHECK(pool && ast_taskpool_taskprocessors_count(pool) == 0 && ast_taskpool_queue_size(pool) == 0);
  ast_taskpool_shutdown(pool);
  pool = ast_taskpool_create("empty", &options);
  for (int i = 1; i <= 2; i++) {
    CHECK(ast_taskpool_push(pool, count_task, &done) == 0 && ast_taskpool_taskprocessors_count(pool) == 1);
    await(&done, i);
    while (ast_taskpool_taskprocessors_count(pool) != 0) usleep(1000);
  }
  struct ast_taskprocessor *serializer = ast_taskpool_serializer("wakes it", pool);
  CHECK(ast_taskpool_serializer_push_wait(serializer, count_task, &done) == 0 && atomic_load(&done) == 3);
  ast_taskprocessor_unreference(serializer);
  ast_taskpool_shutdown(pool);
}

/* What `ast_cli_command` prints. */
static const char *console(const char *command) {
  static char text[4096];
  int ends[2];
  CHECK(pipe(ends) == 0 && ast_cli_command(ends[1], command) == 0);
  close(ends[1]);
  ssize_t len = read(ends[0], text, sizeof text - 1);
  close(ends[0]);
  text[len > 0 ? len : 0] = 0;
  return text;
}

static void commands(void) {
  static atomic_long done;
  static const struct ast_taskprocessor_listener_callbacks silent;
  struct ast_taskprocessor *tps = ast_taskprocessor_get("shown/one", TPS_REF_DEFAULT);
  struct ast_taskprocessor *listens = ast_taskprocessor_create_with_listener("shown/two", ast_taskprocessor_listener_alloc(&silent, NULL));
  ast_taskprocessor_push(tps, block, NULL);
  sem_wait(&is_running);
  for (int i = 0; i < 2; i++) ast_taskprocessor_push(tps, count_task, &done);
  const char *text = console("core show taskprocessor name shown/one");
  CHECK(strstr(text, "Taskprocessor: shown/one\n") && strstr(text, "Subsystem:            shown\n") && strstr(text, "Current queue size:   2\n"));
  CHECK(strstr(text, "Currently executing:  Yes\n") && strstr(text, "Task #2") && !strstr(text, "Task #3"));
  CHECK(strstr(console("core show taskprocessors"), "shown/two") && strstr(console("core show taskprocessors like Shown"), "\n2 taskprocessors\n"));
  CHECK(strstr(console("core show taskprocessors like nobody"), "\n0 taskprocessors\n"));
  sem_post(&may_end);
  await(&done, 2);
  CHECK(strcmp(console("core ping taskprocessor shown/one"), "Pong.\n") == 0 && strstr(console("core ping taskprocessor shown/two"), "No answer"));
  CHECK(strstr(console("core show taskprocessor name shown/one"), "Max queue depth:      2\n"));
  CHECK(strstr(console("core reset taskprocessor shown/one"), "begin again") && !*console("core reset taskprocessors"));
  CHECK(strstr(console("core show taskprocessor name shown/one"), "Max queue depth:      0\n"));
  CHECK(strstr(console("core show taskprocessor name nobody"), "no task processor") && ast_cli_command(2, "core stop now") == -1);
  ast_taskprocessor_unreference(tps), ast_taskprocessor_unreference(listens);
}

static void thread_pool(void) {
  static atomic_long done;
  struct ast_threadpool_options options = {.version = AST_THREADPOOL_OPTIONS_VERSION, .initial_size = 1};
  struct ast_threadpool *pool = ast_threadpool_create("threads", NULL, &options);
  CHECK(pool && ast_threadpool_push(pool, count_task, &done) == 0);
  struct ast_taskprocessor *serializer = ast_threadpool_serializer("of threads", pool);
  CHECK(ast_taskprocessor_push(serializer, count_task, &done) == 0 && ast_threadpool_serializer_get_current() == NULL);
  await(&done, 2);
  CHECK(ast_threadpool_queue_size(pool) == 0);
  ast_taskprocessor_unreference(serializer);
  struct ast_serializer_pool *several = ast_serializer_pool_create("of/threads", 2, pool, 1000);
  CHECK(several && ast_taskprocessor_push(ast_serializer_pool_get(several), count_task, &done) == 0);
  CHECK(ast_serializer_pool_destroy(several) == 0 && atomic_load(&done) == 3);
  ast_threadpool_shutdown(pool);
  options.version = 0;
  CHECK(ast_threadpool_create("other", NULL, &options) == NULL);
}

static int suspend_from_a_task(void *serializer) {
  seen = ast_taskpool_serializer_suspend(serializer) == -1 ? serializer : NULL;
  return 0;
}

static void suspended_serializer(void) {
  static atomic_long done;
  struct ast_taskpool_options options = {.version = AST_TASKPOOL_OPTIONS_VERSION, .initial_size = 2, .max_size = 2};
  struct ast_taskpool *pool = ast_taskpool_create("suspended", &options);
  struct ast_taskprocessor *serializer = ast_taskpool_serializer("stops", pool);
  for (int i = 0; i < 100; i++) ast_taskprocessor_push(serializer, count_task, &done);
  CHECK(ast_taskpool_serializer_suspend(serializer) == 0 && atomic_load(&done) == 100); /* none runs any more */
  CHECK(ast_taskpool_serializer_suspend(serializer) == 0);
  ast_taskprocessor_push(serializer, count_task, &done);
  CHECK(ast_taskprocessor_size(serializer) == 1 && atomic_load(&done) == 100);
  CHECK(ast_taskpool_serializer_unsuspend(serializer) == 0 && ast_taskpool_serializer_unsuspend(serializer) == 0);
  await(&done, 101);
  seen = NULL;
  CHECK(ast_taskpool_serializer_push_wait(serializer, suspend_from_a_task, serializer) == 0 && seen == serializer);
  ast_taskprocessor_unreference(serializer);
  ast_taskpool_shutdown(pool);
}

/* A name is free when its task processor is given up, although the last task of that still runs. */
static void names(void) {
  static atomic_long done;
  char name[AST_TASKPROCESSOR_MAX_NAME + 1], other[AST_TASKPROCESSOR_MAX_NAME + 1];
  struct ast_taskprocessor *first = ast_taskprocessor_get("again", TPS_REF_DEFAULT);
  ast_taskprocessor_push(first, block, NULL), ast_taskprocessor_push(first, count_task, &done);
  sem_wait(&is_running);
  CHECK(ast_taskprocessor_unreference(first) == NULL && ast_taskprocessor_unreference(NULL) == NULL);
  struct ast_taskprocessor *second = ast_taskprocessor_get("again", TPS_REF_DEFAULT);
  CHECK(second && strcmp(ast_taskprocessor_name(second), "again") == 0);
  CHECK(ast_taskprocessor_get("again", TPS_REF_IF_EXISTS) == second);
  ast_taskprocessor_push(second, count_task, &done);
  await(&done, 1);
  sem_post(&may_end);
  await(&done, 2);
  ast_taskprocessor_unreference(second), ast_taskprocessor_unreference(second);
  ast_taskprocessor_build_name(name, sizeof name, "pjsip/outreg/%s", "alice");
  ast_taskprocessor_name_append(other, sizeof other, "pjsip/outreg/alice");
  CHECK(strncmp(name, "pjsip/outreg/alice-", 19) == 0 && strlen(name) == 27 && strcmp(name, other) != 0);
  ast_taskprocessor_build_name(name, 20, "%s", "a name that is too long");
  CHECK(strlen(name) == 19 && strncmp(name, "a name tha-", 11) == 0);
}

static void serializer_pool(void) {
  static atomic_long done;
  struct ast_taskpool_options options = {.version = AST_TASKPOOL_OPTIONS_VERSION, .initial_size = 2, .max_size = 2};
  struct ast_taskpool *taskpool = ast_taskpool_create("several", &options);
  CHECK(ast_serializer_taskpool_create("none", 0, taskpool, 1) == NULL && ast_serializer_pool_destroy(NULL) == 0);
  struct ast_serializer_pool *pool = ast_serializer_taskpool_create("several/of", 3, taskpool, 1);
  CHECK(strcmp(ast_serializer_pool_name(pool), "several/of") == 0 && ast_serializer_pool_set_alerts(pool, 5, 2) == 0);
  struct ast_taskprocessor *stuck = ast_serializer_pool_get(pool);
  ast_taskprocessor_push(stuck, block, NULL);
  sem_wait(&is_running);
  ast_taskprocessor_push(stuck, count_task, &done);
  CHECK(ast_serializer_pool_get(pool) != stuck); /* another has less to do */
  for (int i = 0; i < 100; i++) CHECK(ast_taskprocessor_push(ast_serializer_pool_get(pool), count_task, &done) == 0);
  CHECK(ast_serializer_pool_destroy(pool) == 1); /* one task blocks for longer than a second */
  sem_post(&may_end);
  CHECK(ast_serializer_pool_destroy(pool) == 0 && atomic_load(&done) == 101);
  ast_taskpool_shutdown(taskpool);
}

static void tasks_without_memory(void) {
  static atomic_long done;
  struct ast_taskpool_options options = {.version = AST_TASKPOOL_OPTIONS_VERSION, .initial_size = 1};
  struct ast_taskpool *pool = ast_taskpool_create("poor", &options);
  struct ast_taskprocessor *tps = ast_taskpool_serializer("poor", pool);
  allocations_left = 0;
  CHECK(ast_taskpool_push(pool, count_task, &done) == -1 && ast_taskprocessor_push(tps, count_task, &done) == -1);
  CHECK(ast_taskpool_create("none", &options) == NULL && ast_taskpool_serializer("none/of", pool) == NULL);
  CHECK(ast_sched_context_create() == NULL);
  CHECK(ast_taskpool_push_wait(pool, count_task, &done) == 0 && ast_taskpool_serializer_push_wait(tps, count_task, &done) == 0);
  allocations_left = -1;
  ast_taskprocessor_unreference(tps);
  ast_taskpool_shutdown(pool);
  CHECK(atomic_load(&done) == 2);
}

static void shutdown_groups(void) {
  static atomic_long done;
  struct ast_taskpool_options options = {.version = AST_TASKPOOL_OPTIONS_VERSION, .initial_size = 2, .max_size = 2};
  struct ast_taskpool *pool = ast_taskpool_create("groups", &options);
  struct ast_serializer_shutdown_group *group = ast_serializer_shutdown_group_alloc();
  struct ast_taskprocessor *quick = ast_taskpool_serializer_group("quick", pool, group), *stuck = ast_taskpool_serializer_group("stuck", pool, group);
  for (int i = 0; i < 100; i++) ast_taskprocessor_push(quick, count_task, &done);
  ast_taskprocessor_push(stuck, block, NULL);
  sem_wait(&is_running);
  await(&done, 100);
  ast_taskprocessor_unreference(quick), ast_taskprocessor_unreference(stuck);
  while (ast_serializer_shutdown_group_join(group, 0) != 1) usleep(100); /* the worker lets go of the first one */
  CHECK(ast_serializer_shutdown_group_join(group, 1) == 1 && atomic_load(&done) == 100);
  sem_post(&may_end);
  CHECK(ast_serializer_shutdown_group_join(group, 1000) == 0);
  ast_serializer_shutdown_group_free(group);
  ast_taskpool_shutdown(pool);
}

int main(void) {
  sem_init(&is_running, 0, 0), sem_init(&may_end, 0, 0);
  CHECK(ast_event_init() == 0);
  elements(), appended_elements(), iterated_elements(), subscriptions(), cache(), events_without_memory();
  ast_event_shutdown();
  CHECK(ast_tps_init() == 0);
  task_processors(), listeners(), subsystem_alerts(), commands();
  task_pools(AST_TASKPOOL_SELECTOR_DEFAULT), task_pools(AST_TASKPOOL_SELECTOR_LEAST_FULL), task_pools(AST_TASKPOOL_SELECTOR_SEQUENTIAL);
  pool_without_threads(), suspended_serializer(), names(), serializer_pool(), thread_pool();
  shutdown_groups(), tasks_without_memory();
  ast_tps_shutdown();
  return 0;
}
