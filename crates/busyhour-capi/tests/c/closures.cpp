// busyhour.hpp: handles that free themselves, closures, and no exceptions.
#include <busyhour.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#define CHECK(condition)                                                                                      \
  do {                                                                                                        \
    if (!(condition)) {                                                                                       \
      std::fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, busyhour::last_error().c_str()); \
      std::exit(1);                                                                                           \
    }                                                                                                         \
  } while (0)

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
  auto report = pool->shutdown(60s);
  CHECK(report && report->not_run == 0);
  CHECK(pool->push([alive] {}) == BH_SHUT_DOWN);
  CHECK(alive.use_count() == 1);  // every closure is gone
}

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

int main() {
  tasks();
  timers_in_virtual_time();
  heaps_and_queues();
  groups();
  pins();
  last_values();
  return 0;
}
