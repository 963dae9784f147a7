// busyhour.hpp: handles that free themselves, closures, and codes instead of exceptions.
#include <busyhour.hpp>

#include "check.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <vector>

using namespace std::chrono_literals;

static void tasks() {
  auto pool = busyhour::pool::make([] { bh_pool_options options{}; options.workers = 2; return options; }());
  CHECK(pool);
  auto calls = pool->serializer("calls");
  CHECK(calls && pool->serializer("calls").code() == BH_EXISTS);
  CHECK(busyhour::last_error().find("calls") != std::string::npos);
  auto alive = std::make_shared<int>(0);
  std::vector<int> order;
  for (int i = 0; i < 100; i++) CHECK(calls->push([alive, i, &order] { order.push_back(i); }) == BH_OK);
  int answer = 0;
  CHECK(calls->push_wait([&] {
    answer = static_cast<int>(order.size());
    CHECK(*busyhour::serializer::current() == *calls);
  }) == BH_OK);
  CHECK(answer == 100);
  for (int i = 0; i < 100; i++) CHECK(order[static_cast<size_t>(i)] == i);
  {
    auto suspended = calls->suspend();
    CHECK(suspended && calls->push([alive] {}) == BH_OK && calls->size() == 1);
  }
  CHECK(pool->push_wait([&] { answer = 42; }) == BH_OK && answer == 42);
  const auto adds = [&answer] { answer++; };  // operator() is const
  CHECK(calls->push_wait(adds) == BH_OK && pool->push_wait(adds) == BH_OK && answer == 44);
  auto report = pool->shutdown(60s);
  CHECK(report && report->not_run == 0);
  CHECK(pool->push([alive] {}) == BH_SHUT_DOWN);
  CHECK(alive.use_count() == 1);  // every closure is gone
}

// A text of C that is as long as the next of these.
static const std::size_t *next_length;
static std::size_t changing(char *text, std::size_t size) {
  std::size_t len = *next_length++;
  if (text) {
    std::size_t part = std::min(len, size - 1);
    std::memset(text, 'x', part);
    text[part] = 0;
  }
  return len;
}

static void results_and_texts() {
  busyhour::result<int> none(BH_OK), failed(BH_FULL), some(7);
  CHECK(!none && !failed && some && *some == 7 && failed.code() == BH_FULL);
  const auto &fixed = some;
  CHECK(some.value() == 7 && fixed.value() == 7 && busyhour::result<int>(8).value() == 8);
  CHECK(some.value_or(9) == 7 && failed.value_or(9) == 9);
  auto owned = busyhour::result<std::unique_ptr<int>>(std::make_unique<int>(3)).value();
  CHECK(*owned == 3 && *busyhour::result<std::unique_ptr<int>>(BH_FULL).value_or(std::move(owned)) == 3);
  std::vector<std::size_t> shrinks{5, 3}, grows{5, 9, 9}, grows_twice{0, 20, 30, 25};
  for (auto *each : {&shrinks, &grows, &grows_twice}) {
    next_length = each->data();
    CHECK(busyhour::detail::text(changing) == std::string(each->back(), 'x'));
  }
  std::string before = busyhour::last_error();
  CHECK(before == busyhour::last_error() && before.find('\0') == std::string::npos);
}

// A checked access to what is not there says why, and ends the process.
static void no_value_ends_the_process() {
  int ends[2];
  CHECK(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    auto buffers = busyhour::buffers::make();
    auto found = buffers.value().find(static_cast<std::size_t>(1) << 60);
    found.value();
    _exit(0);
  }
  close(ends[1]);
  char said[600] = "";
  ssize_t len = 0, more;
  while ((more = read(ends[0], said + len, sizeof said - 1 - static_cast<std::size_t>(len))) > 0) len += more;
  close(ends[0]);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  CHECK(std::strstr(said, "there is no value") && std::strstr(said, "longest"));
}

#ifdef __cpp_exceptions
// Counts itself, and throws when the copies are used up.
struct copied {
  static inline int alive = 0, left = 0;
  copied() { alive++; }
  copied(const copied &) {
    if (left-- <= 0) throw 7;
    alive++;
  }
  ~copied() { alive--; }
  void operator()() const {}
};

// A copy that throws goes to the caller, and nothing has happened.
static void a_copy_that_throws() {
  auto pool = busyhour::pool::make();
  auto calls = pool->serializer("calls");
  {
    copied task;
    for (int copies = 0; copies < 2; copies++) {
      copied::left = copies;
      bool threw = false;
      try {
        CHECK(calls->push(task) == BH_OK);
      } catch (int) {
        threw = true;
      }
      CHECK(threw == (copies == 0));
    }
    CHECK(calls->push_wait([] {}) == BH_OK);
  }
  CHECK(pool->shutdown(60s) && copied::alive == 0);
}
#else
static void a_copy_that_throws() {}
#endif

static void timers_in_virtual_time() {
  auto runtime = busyhour::runtime::simulated(7);
  auto pool = runtime->pool();
  auto timers = runtime->timers();
  auto on = pool->executor();
  CHECK(runtime && pool && timers && on);
  int once = 0, every = 0, variable = 0;
  auto timer = timers->after(1h, *on, [&] { once++; });
  bh_timer_options options{};
  options.period_ns = 60'000'000'000;
  auto periodic = timers->add(options, *on, [&] { every++; });
  CHECK(timers->add_variable({}, *on, [&]() -> busyhour::nanoseconds { return ++variable < 3 ? 10s : 0s; }));
  CHECK(runtime->run_for(30min) == BH_OK);
  CHECK(once == 0 && every == 30 && variable == 3);
  CHECK(timers->cancel(*timer) == BH_CANCEL_PREVENTED && timers->cancel_and_wait(*periodic) == BH_CANCEL_PREVENTED);
  CHECK(runtime->run_for(2h) == BH_OK && once == 0 && every == 30);
}

static void heaps_and_queues() {
  struct before { bool operator()(int a, int b) const { return a < b; } };
  int numbers[] = {5, 3, 9, 1};
  uint64_t handles[4];
  auto heap = busyhour::heap<int, before>::make();
  CHECK(heap && heap->pop() == nullptr);
  for (int i = 0; i < 4; i++) handles[i] = *heap->push(numbers[i]);
  CHECK(*heap->peek() == 1 && heap->remove(handles[3]) == &numbers[3] && heap->remove(handles[3]) == nullptr);
  numbers[2] = 2;
  CHECK(heap->update(handles[2]) == BH_OK && heap->is_valid() && *heap->pop() == 2 && *heap->pop() == 3 && heap->size() == 1);

  auto queue = busyhour::timer_queue<int>::make();
  CHECK(queue && !queue->next_deadline());
  auto late = queue->add(30s, numbers[0]);
  auto soon = queue->add(20s, numbers[1]);
  CHECK(queue->add(10s, numbers[3]) && queue->cancel(*soon) == &numbers[1] && queue->reschedule(*late, 15s) == BH_OK);
  std::vector<int> due;
  queue->drain_due(15s, [&](int &number, busyhour::nanoseconds deadline) {
    due.push_back(number);
    if (due.size() == 1) CHECK(deadline == 10s && queue->add(60s, number));
  });
  CHECK((due == std::vector<int>{1, 5}) && *queue->next_deadline() == 60s && queue->size() == 1);
}

static void groups() {
  auto pool = busyhour::pool::make();
  auto group = busyhour::group::make();
  CHECK(pool && group);
  bh_serializer_options options{};
  options.group = group->get();
  auto calls = pool->serializer("calls", options);
  auto ran = std::make_shared<int>(0);
  for (int i = 0; i < 10; i++) CHECK(calls->push([ran] { ++*ran; }) == BH_OK);
  CHECK(group->size() == 1);
  auto report = group->shutdown(60s);
  CHECK(report && report->not_run == 0 && *ran == 10 && calls->push([] {}) == BH_SHUT_DOWN);
}

static void pins() {
  bh_buffers_options options{};
  options.budget_bytes = 64 << 20;
  auto buffers = busyhour::buffers::make(options);
  auto first = buffers->find(100);
  CHECK(buffers && first);
  first->data()[50] = 'x';
  auto second = buffers->at(first->data() + 50);
  CHECK(second && second->size() == 100 && second->data() == first->data());
  {
    busyhour::pin copy(*second), moved(std::move(*first)), assigned(copy);
    assigned = moved;
    CHECK(assigned.data()[50] == 'x');
#if defined(__cpp_lib_span)
    CHECK(assigned.bytes().size() == 100);
#endif
  }
  int local;
  CHECK(buffers->at(&local).code() == BH_FOREIGN);
  bh_buffers_stats stats;
  bh_buffers_get_stats(buffers->get(), &stats);
  CHECK(stats.live_count == 1);
}

struct presence {
  std::string device;
  bool online;
};
struct hash_device {
  uint64_t operator()(const presence &one) const { return std::hash<std::string>{}(one.device); }
};
struct same_device {
  bool operator()(const presence &one, const presence &other) const { return one.device == other.device; }
};

static void last_values() {
  bh_topic_options cached{};
  cached.cached = 1;
  auto topic = busyhour::topic<presence, hash_device, same_device>::make(cached);
  CHECK(topic);
  CHECK(topic->publish({"alice", true})->delivered == 0);
  std::map<std::string, bool> seen;
  bh_subscription_options replay{};
  replay.replay = 1;
  auto subscription = topic->subscribe(replay, [&](const busyhour::delivery<presence> &delivery) {
    if (delivery.event) seen[delivery.event->device] = delivery.event->online;
  });
  CHECK(subscription && seen.at("alice"));
  CHECK(topic->publish({"alice", false}) && topic->publish({"bob", true}));
  CHECK(!seen.at("alice") && seen.at("bob") && topic->size() == 2);
  CHECK(!topic->get_last({"alice", true})->online && !topic->get_last({"carol", true}));
}

struct walker {
  int priority;
  busyhour::sched_state state;
};

// Entities in the order of their priorities, since nobody has run yet; then the one that ran comes last of its equals.
static void run_queues() {
  using queue_of_walkers = busyhour::run_queue<walker, &walker::state>;
  auto queue = queue_of_walkers::make(2, 100us);
  CHECK(queue && queue->pick() == nullptr && queue->worker() == 2);
  std::vector<walker> walkers;
  for (int priority : {7, 30, 12, 105, 12}) walkers.push_back({priority, *busyhour::sched_state::make(static_cast<uint32_t>(priority))});
  for (auto &one : walkers) CHECK(queue->wake(one) == BH_OK);
  CHECK(queue->size() == 5 && queue->remove(walkers[0]) == BH_OK && queue->remove(walkers[0]) == BH_NOT_FOUND);
  std::vector<int> order;
  for (walker *next; (next = queue->pick());) order.push_back(next->priority);
  CHECK((order == std::vector<int>{105, 30, 12, 12}) && walkers[1].state.counter() == 30 && *walkers[1].state.ran_on() == 2);
  CHECK(walkers[3].state.goodness(0) == 1005 && walkers[3].state.priority() == 105);
  CHECK(queue->wake(walkers[2]) == BH_OK && queue->wake(walkers[4]) == BH_OK && queue->pick() == &walkers[2]);
  CHECK(queue->switch_from(walkers[2], 0us) == &walkers[4]); /* its equal */
  CHECK(queue->put_back(walkers[4], 500us) == BH_OK && walkers[4].state.counter() == 7 && queue->pick() == &walkers[2]);
  auto child = queue->fork(walkers[1]);
  CHECK(child && child->counter() + walkers[1].state.counter() == 30 && queue->charge(walkers[1], 1ms) == BH_OK);
  CHECK(queue->pick() == &walkers[4] && queue->sync_epoch(walkers[4]) == BH_OK && queue->epoch() == 0 && !queue->is_bucketed());
  CHECK(queue_of_walkers::make(0, 0us, 4, 4).code() == BH_INVALID && queue_of_walkers::make(0, 0us, 4, 2));
  CHECK(walkers[1].state.set_priority(41) == BH_INVALID && busyhour::sched_state::make(200).code() == BH_INVALID);
}

static busyhour::record call(const char *line, uint32_t state) {
  auto record = busyhour::record::make(7, line);
  CHECK(record && record->set_number(1, state) == BH_OK && record->set_text(2, state ? "up" : "idle") == BH_OK);
  return std::move(*record);
}

static void records() {
  auto full = call("line", 1);
  CHECK(full.set_bytes(3, std::string_view("\0x", 2)) == BH_OK && full.set_flags(4, 6) == BH_OK && full.set_bits(5, "\x02") == BH_OK);
  auto wire = full.view().encode();
  auto back = busyhour::record::decode(*wire);
  CHECK(wire && back && back->view().size() == 5 && back->view().sort() == 7 && back->view().subject() == "line");
  CHECK(*back->view().number(1) == 1 && back->view().text(2) == "up" && *back->view().bytes(3) == std::string_view("\0x", 2));
  CHECK(back->view().has_bit(4, 2) && !back->view().has_bit(4, 0) && back->view().has_bit(5, 1) && *back->view().id_at(4) == 5);
  CHECK(back->view().type(9) == BH_ELEMENT_NONE && back->view().bytes(9).code() == BH_NOT_FOUND && back->view().text(9).empty());
  auto copy = busyhour::record::copy(*back);
  CHECK(copy && copy->remove(3) == BH_OK && back->view().size() == 5 && busyhour::record::decode("?").code() == BH_INVALID);
  auto wanted = busyhour::pattern::make();
  CHECK(wanted && wanted->sort(7) == BH_OK && wanted->subject("line") == BH_OK && wanted->text(2, "up") == BH_OK);
  CHECK(wanted->bits(5, "\x02") == BH_OK && wanted->flags(4, 2) == BH_OK && wanted->matches(*copy));
  CHECK(wanted->exists(3) == BH_OK && wanted->bytes(3, std::string_view("\0x", 2)) == BH_OK && !wanted->matches(*copy) && wanted->matches(full));

  auto by_default = busyhour::record_topic::make(), keeps_none = busyhour::record_topic::make({});
  CHECK(by_default->publish(call("one", 1)) && by_default->last(7, "one") && keeps_none->publish(call("one", 1)));
  bh_subscription_options replayed{};
  replayed.replay = 1;
  CHECK(by_default->subscribe(replayed, [](const bh_delivery &) {}) && keeps_none->last(7, "one").code() == BH_NOT_FOUND);
  CHECK(keeps_none->subscribe(replayed, [](const bh_delivery &) {}).code() == BH_INVALID);
  CHECK(busyhour::last_error().find("the topic is not cached") != std::string::npos);
  bh_topic_options cached = busyhour::cached_topic("calls");
  auto topic = busyhour::record_topic::make(cached);
  auto state = busyhour::attribute::of_element(1);
  auto length = busyhour::attribute::make([](const bh_event *event) { return busyhour::record_view(bh_event_record(event)).subject().size(); });
  CHECK(topic && state && length && topic->name() == "calls");
  long up = 0, longer = 0;
  bh_subscription_options by_state{}, by_length{};
  by_state.attribute = state->get(), by_state.attribute_number = 1;
  by_length.attribute = length->get(), by_length.attribute_number = 6;
  auto first = topic->subscribe(by_state, [&](const bh_delivery &) { up++; });
  auto second = topic->subscribe(by_length, [&](const bh_delivery &) { longer++; });
  CHECK(first && second && topic->publish(call("one", 1)) && topic->publish(call("two", 0)) && topic->publish(call("longer", 1)));
  CHECK(up == 2 && longer == 1 && topic->size() == 3 && first->is_idle() && first->lost() == 0 && first->size() == 0);
  std::string names;
  CHECK(topic->subscriptions([&](const bh_subscription_stats &one) { return names += one.topic, one.filter != BH_FILTER_ATTRIBUTE; }) == BH_OK);
  CHECK(names == "calls"); /* false has ended the list */
  auto idle = busyhour::pattern::make();
  CHECK(idle->number(1, 0) == BH_OK);
  auto found = topic->find(*idle);
  CHECK(found && found->record().subject() == "two" && *topic->origin_of(*found) == 0 && topic->would_deliver(*found));
  CHECK(topic->last(7, "one")->record().text(2) == "up" && topic->last(8, "one").code() == BH_NOT_FOUND);
  CHECK(topic->publish_from(5, *found) && *topic->origin_of(*found) == 5 && topic->get_from(5, *found) && topic->remove_from(4, *found)->removed == 1);
  CHECK(topic->publish_for(1s, *found).code() == BH_INVALID); /* it has no timers */
  auto all = busyhour::record_topic::make(cached);
  auto forwarded = topic->forward_to(*all);
  CHECK(forwarded && forwarded->published() && all->size() == 2 && topic->forward_to(*all).code() == BH_EXISTS);
  int seen = 0;
  CHECK(topic->each([&](busyhour::record_view) { seen++; }) == BH_OK && seen == 2 && topic->stats()->cached_count == 2);
  CHECK(topic->remove(*busyhour::event::of(call("one", 0)))->removed == 1 && topic->remove(*busyhour::pattern::make())->removed == 1);
  CHECK(topic->remove_node(9)->removed == 0 && all->size() == 0);
}

static void waiting_tasks() {
  auto runtime = busyhour::runtime::simulated(11);
  auto pool = runtime->pool();
  auto timers = runtime->timers();
  auto on = pool->executor();
  auto alive = std::make_shared<int>(0);
  auto sleeper = pool->spawn([&, alive, slept = false](busyhour::step step) mutable -> std::optional<uint64_t> {
    if (std::exchange(slept, true)) return 42;
    auto waker = std::make_shared<busyhour::waker>(std::move(*step.waker()));
    CHECK(timers->after(10s, *on, [waker] { waker->wake(); }));
    return std::nullopt;
  });
  CHECK(sleeper && !sleeper->is_finished() && *sleeper->wait() == 42 && timers->now()->count() >= 10'000'000'000);
  auto calls = runtime->serializer("calls");
  auto endless = calls->spawn([alive](busyhour::step step) { return step.wake(), std::optional<uint64_t>(); });
  CHECK(endless && runtime->step() && endless->abort() == BH_OK && endless->is_finished() && endless->wait().code() == BH_DROPPED);
  CHECK(alive.use_count() == 1);

  // Alerts of queues, and what a shutdown left.
  auto alerts = runtime->alerts<busyhour::record_topic>();
  bh_serializer_options marks{};
  marks.high_watermark = 2, marks.low_watermark = 1;
  auto busy = runtime->serializer("busy", marks);
  auto devices = runtime->make_template("device", marks);
  CHECK(alerts && busy && devices && devices->name() == "device" && devices->serializer());
  for (int i = 0; i < 3; i++) CHECK(busy->push([alive] {}) == BH_OK);
  CHECK(*alerts->last(1, "busy")->record().number(BH_ALERT_IS_HIGH) == 1 && pool->alert_count() == 1 && busy->stats()->queued_len == 3);
  CHECK(*busy->reset_high_water() == 3 && busy->set_watermarks(2, 9) == BH_OK && busy->set_priority(40) == BH_OK && !busy->is_idle());
  CHECK(busy->name() == "busy" && busy->running().empty() && *busy->clone() == *busy && *pool->find_serializer("busy") == *busy);
  std::string listed, left;
  CHECK(pool->list([&](const bh_serializer_stats &one) { listed += one.name; }) == BH_OK && listed == "busycalls");
  CHECK(pool->list_workers([](const bh_worker_stats &) {}) == BH_OK && pool->stats()->queued_len > 0 && runtime->snapshot()->serializer_count == 2);
  CHECK(runtime->snapshot_json()->find("\"busy\"") != std::string::npos && runtime->subscriptions([](const bh_subscription_stats &) {}) == BH_OK);
  CHECK(runtime->trace("x") == BH_OK && runtime->trace_hash() && runtime->random() && runtime->run_until(*timers->now()) == BH_OK && alive.use_count() == 1);
  for (int i = 0; i < 3; i++) CHECK(busy->push_keyed(1, [alive] {}) == BH_OK);
  auto report = runtime->shutdown(0s, [&](const bh_leftover &one) { left += one.name + std::to_string(one.count); });
  CHECK(report && report->not_run == 3 && left == "busy3" && alive.use_count() == 1);
}

// A loop of the program: its timers, its executor.
static void loops() {
  bh_timers_options virtually{};
  virtually.virtual_time = 1;
  auto timers = busyhour::timers::make(virtually);
  std::vector<busyhour::task> queue;
  auto loop = busyhour::executor::of_program([&](busyhour::task task) { queue.push_back(std::move(task)); });
  int ran = 0, earlier = 0, listed = 0;
  CHECK(timers && loop && timers->on_earlier([&] { earlier++; }) == BH_OK && *timers->next_wait() == busyhour::nanoseconds::max());
  bh_timer_options named{};
  int32_t id;
  named.delay_ns = 10, named.owner = 3, named.label = "named", named.out_id = &id;
  auto timer = timers->add(named, *loop, [&] { ran++; });
  CHECK(timer && earlier == 1 && *timers->next_wait() == 10ns && *timers->next_deadline() == 10ns && *timers->time_left(*timer) == 10ns);
  CHECK(timers->by_id(id)->bits[0] == timer->bits[0] && timers->reschedule(*timer, 20ns) == BH_OK && timers->advance(20ns) == BH_OK);
  CHECK(timers->list([&](const bh_pending_timer &one) { listed += one.repeat == BH_REPEAT_ONCE; }) == BH_OK && listed == 1);
  CHECK(timers->run_due() == BH_OK && ran == 0 && queue.size() == 1);
  CHECK(timers->with(*timer, [&](const bh_pending_timer &one) { listed += one.phase == BH_PHASE_DELIVERED; }) == BH_OK && listed == 2);
  CHECK(queue[0].run() == BH_OK && ran == 1 && timers->stats()->expired == 1);
  named.delay_ns = 0, named.deadline_ns = 100, named.out_id = nullptr;
  timer = timers->add(named, *loop, [&] { ran++; });
  CHECK(*timers->replace(*timer, named, *loop, [&] { ran += 10; }) == BH_CANCEL_PREVENTED);
  CHECK(*timers->replace_variable(*timer, named, *loop, [&] { return 5ns; }) == BH_CANCEL_PREVENTED);
  CHECK(*timers->cancel_owner(4) == 0 && *timers->cancel_label("other") == 0);
  CHECK(*timers->cancel_where([](const bh_pending_timer &one) { return one.owner == 3; }) == 1);
  CHECK(timers->labels([&](const bh_label_stats &one) { listed += std::string(one.label) == "named"; }) == BH_OK && listed == 3);
  CHECK(timers->report()->find("named") != std::string::npos && timers->stop_driver(1s) == BH_NOT_FOUND);
  CHECK(timers->after(1s, *loop, [] {}) && *timers->close() == 1 && ran == 1);
}

static void the_rest() {
  CHECK(std::string(busyhour::sentence(BH_OK)) == "the call succeeded" && busyhour::version()[0] != 0);
  bh_buffers_options options{};
  options.budget_bytes = 64 << 20;
  auto buffers = busyhour::buffers::make(options);
  auto decoder = buffers->owned_by("decoder");
  {
    auto packet = decoder->find(60000);
    packet->data()[100] = 'y';
    CHECK(packet->compact(100, 60000) == BH_INVALID && packet->compact(100, 8) == BH_OK && packet->size() == 8 && packet->data()[0] == 'y');
    std::size_t bytes = 0, count = 0;
    CHECK(buffers->list([&](const bh_live_buffer &one) { bytes += one.len; }) == BH_OK && bytes == 8);
    CHECK(buffers->owners([&](const bh_owner_usage &one) { count += one.live_count; }) == BH_OK && count == 1);
    CHECK(buffers->dump()->find("decoder") != std::string::npos && buffers->stats()->live_count == 1);
  }
  CHECK(buffers->trim() && buffers->stats()->live_count == 0);

  struct before { bool operator()(int a, int b) const { return a < b; } };
  int number = 3;
  auto heap = busyhour::heap<int, before>::make();
  auto handle = heap->push(number);
  CHECK(heap->find(*handle) == &number && *heap->peek_handle() == *handle && heap->clear() == BH_OK && heap->find(*handle) == nullptr);
  auto queue = busyhour::timer_queue<int>::make();
  uint64_t held;
  CHECK(queue->hold_due(9s, held) == nullptr && queue->add(1s, number) && queue->hold_due(9s, held) == &number);
  CHECK(queue->find(held) == &number && !queue->next_deadline() && queue->reschedule(held, 2s) == BH_OK && *queue->next_deadline() == 2s);

  auto pool = busyhour::pool::make();
  auto alerts = busyhour::alert_group::make();
  auto group = busyhour::group::make();
  bh_serializer_options marks{};
  marks.high_watermark = 2, marks.low_watermark = 1, marks.alert_group = alerts->get(), marks.group = group->get();
  auto made = pool->make_template("device", marks);
  auto device = made->serializer();
  {
    auto suspended = device->suspend();
    for (int i = 0; i < 2; i++) CHECK(device->push([] {}) == BH_OK);
    CHECK(alerts->count() == 1 && alerts->raised() == 1 && group->stats()->queued_len == 2 && pool->reset_high_waters() == BH_OK);
  }
  int blocked = 0;
  std::string left;
  CHECK(pool->blocking([&] { blocked++; }) == BH_OK && blocked == 1);
  CHECK(group->shutdown(60s, [&](const bh_leftover &one) { left += one.name; })->not_run == 0);
  CHECK(pool->shutdown(60s, [&](const bh_leftover &one) { left += one.name; }) && left.empty());

  bh_topic_options cached{};
  cached.cached = 1;
  auto topic = busyhour::topic<presence, hash_device, same_device>::make(cached);
  CHECK(topic->publish({"alice", true}) && topic->publish({"bob", false}) && topic->find([](const presence &one) { return !one.online; })->device == "bob");
  int seen = 0;
  CHECK(topic->each([&](const presence &) { return ++seen, false; }) == BH_OK && seen == 1);
  auto alice = topic->make_event({"alice", false});
  auto again = busyhour::event::keep(alice->get());
  CHECK(again && again->object<presence>()->device == "alice" && topic->remove(*again)->removed == 1);
  CHECK(topic->remove_where([](const presence &one) { return one.device == "bob"; })->removed == 1 && topic->size() == 0);
}

int main() {
  no_value_ends_the_process();  // first, since a child may use the library only if the parent has not yet
  tasks();
  results_and_texts();
  a_copy_that_throws();
  timers_in_virtual_time();
  heaps_and_queues();
  groups();
  pins();
  last_values();
  run_queues();
  records();
  waiting_tasks();
  loops();
  the_rest();
  return 0;
}
