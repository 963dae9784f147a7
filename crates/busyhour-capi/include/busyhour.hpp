// Busyhour's runtime for C++17: busyhour.h with handles that free themselves and closures as callbacks.
// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Nothing here throws. A call that can fail returns a bh_result, or a busyhour::result<T>: a value, or the code why there is
// none. A closure that throws ends the process (std::terminate).

#ifndef BUSYHOUR_HPP
#define BUSYHOUR_HPP

#include <busyhour.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#if defined(__has_include) && __has_include(<span>) && __cplusplus >= 202002L
#include <span>
#endif

namespace busyhour {

using nanoseconds = std::chrono::nanoseconds;

// What the last failed call of this thread had to say.
inline std::string last_error() {
  std::string text(bh_last_error(nullptr, 0), '\0');
  bh_last_error(text.data(), text.size() + 1);
  return text;
}

// A value, or the code why there is none.
template <class T>
class [[nodiscard]] result {
 public:
  result(bh_result code) : code_(code) {}
  result(T value) : code_(BH_OK), value_(std::move(value)) {}
  explicit operator bool() const { return code_ == BH_OK; }
  bh_result code() const { return code_; }
  // Only if there is a value.
  T &operator*() & { return *value_; }
  T &&operator*() && { return std::move(*value_); }
  T *operator->() { return &*value_; }

 private:
  bh_result code_;
  std::optional<T> value_;
};

namespace detail {

template <auto Free>
struct deleter {
  template <class T>
  void operator()(T *handle) const noexcept { Free(handle); }
};
template <class T, auto Free>
using handle = std::unique_ptr<T, deleter<Free>>;

// A closure on its way through C: made with the callback, freed by its destructor, which the library calls exactly once.
template <class F>
void run(void *data) noexcept { (*static_cast<F *>(data))(); }
template <class F>
void drop(void *data) noexcept { delete static_cast<F *>(data); }
template <class F>
uint64_t next_delay(void *data) noexcept {
  nanoseconds delay = (*static_cast<F *>(data))();
  return delay.count() > 0 ? static_cast<uint64_t>(delay.count()) : 0;
}
template <class F>
std::decay_t<F> *keep(F &&closure) { return new std::decay_t<F>(std::forward<F>(closure)); }

inline uint64_t count(nanoseconds span) { return span.count() > 0 ? static_cast<uint64_t>(span.count()) : 0; }

// Calls a function of C that makes a handle.
template <class Owner, class T, class Function, class... Arguments>
result<Owner> make(Function function, Arguments... arguments) {
  T *out = nullptr;
  bh_result code = function(arguments..., &out);
  if (code != BH_OK) return code;
  return Owner(out);
}

}  // namespace detail

// Where callbacks run.
class executor {
 public:
  explicit executor(bh_executor *handle) : handle_(handle) {}
  // On the thread that delivers.
  static result<executor> on_this_thread() { return detail::make<executor, bh_executor>(bh_executor_inline); }
  bh_executor *get() const { return handle_.get(); }

 private:
  detail::handle<bh_executor, bh_executor_free> handle_;
};

// As long as it lives, its serializer starts no task.
class suspension {
 public:
  explicit suspension(bh_suspension *handle) : handle_(handle) {}

 private:
  detail::handle<bh_suspension, bh_suspension_free> handle_;
};

// A queue whose tasks run one at a time, in order, on any worker.
class serializer {
 public:
  explicit serializer(bh_serializer *handle) : handle_(handle) {}
  // The one whose task runs on this thread.
  static result<serializer> current() { return detail::make<serializer, bh_serializer>(bh_serializer_current); }

  template <class F>
  bh_result push(F &&task) {
    using C = std::decay_t<F>;
    return bh_serializer_push(get(), detail::run<C>, detail::keep(std::forward<F>(task)), detail::drop<C>);
  }
  template <class F>
  bh_result try_push(F &&task) {
    using C = std::decay_t<F>;
    return bh_serializer_try_push(get(), detail::run<C>, detail::keep(std::forward<F>(task)), detail::drop<C>);
  }
  // Runs the task and waits for it; the closure may refer to what lives on this stack.
  template <class F>
  bh_result push_wait(F &&task) {
    return bh_serializer_push_wait(get(), detail::run<std::remove_reference_t<F>>, std::addressof(task), nullptr);
  }
  result<suspension> suspend() { return detail::make<suspension, bh_suspension>(bh_serializer_suspend, get()); }
  result<busyhour::executor> executor() const {
    return detail::make<busyhour::executor, bh_executor>(bh_executor_of_serializer, get());
  }
  std::size_t size() const { return bh_serializer_len(get()); }
  bool operator==(const serializer &other) const { return bh_serializer_is_same(get(), other.get()) != 0; }
  bh_serializer *get() const { return handle_.get(); }

 private:
  detail::handle<bh_serializer, bh_serializer_free> handle_;
};

// Workers.
class pool {
 public:
  explicit pool(bh_pool *handle) : handle_(handle) {}
  static result<pool> make(bh_pool_options options = {}) {
    options.size = sizeof options;
    return detail::make<pool, bh_pool>(bh_pool_new, &options);
  }

  template <class F>
  bh_result push(F &&task) {
    using C = std::decay_t<F>;
    return bh_pool_push(get(), detail::run<C>, detail::keep(std::forward<F>(task)), detail::drop<C>);
  }
  // Runs the task and waits for it; the closure may refer to what lives on this stack.
  template <class F>
  bh_result push_wait(F &&task) {
    return bh_pool_push_wait(get(), detail::run<std::remove_reference_t<F>>, std::addressof(task), nullptr);
  }
  result<busyhour::serializer> serializer(const char *name = nullptr, bh_serializer_options options = {}) {
    options.size = sizeof options;
    if (name) options.name = name;
    return detail::make<busyhour::serializer, bh_serializer>(bh_serializer_new, get(),
                                                                                                      &options);
  }
  result<busyhour::executor> executor() const {
    return detail::make<busyhour::executor, bh_executor>(bh_executor_of_pool, get());
  }
  result<bh_shutdown_report> shutdown(nanoseconds limit) {
    bh_shutdown_report report;
    bh_result code = bh_pool_shutdown(get(), detail::count(limit), &report);
    if (code != BH_OK) return code;
    return report;
  }
  bh_pool *get() const { return handle_.get(); }

 private:
  detail::handle<bh_pool, bh_pool_free> handle_;
};

// Serializers that are shut down together: the `group` of their options.
class group {
 public:
  explicit group(bh_group *handle) : handle_(handle) {}
  static result<group> make() { return detail::make<group, bh_group>(bh_group_new); }
  result<bh_shutdown_report> shutdown(nanoseconds limit) {
    bh_shutdown_report report;
    bh_result code = bh_group_shutdown(get(), detail::count(limit), &report);
    if (code != BH_OK) return code;
    return report;
  }
  std::size_t size() const { return bh_group_len(get()); }
  bh_group *get() const { return handle_.get(); }

 private:
  detail::handle<bh_group, bh_group_free> handle_;
};

// Pointers to T, the one that Before puts first on top; Before has no state. It owns nothing, and needs a lock of yours.
template <class T, class Before>
class heap {
 public:
  explicit heap(bh_heap *handle) : handle_(handle) {}
  static result<heap> make() { return detail::make<heap, bh_heap>(bh_heap_new, compare, nullptr, nullptr); }

  // The handle identifies the entry while it is in the heap.
  result<uint64_t> push(T &entry) {
    uint64_t handle;
    bh_result code = bh_heap_push(get(), &entry, &handle);
    if (code != BH_OK) return code;
    return handle;
  }
  // Null if there is none.
  T *pop() {
    void *entry;
    return bh_heap_pop(get(), &entry) == BH_OK ? static_cast<T *>(entry) : nullptr;
  }
  T *remove(uint64_t handle) {
    void *entry;
    return bh_heap_remove(get(), handle, &entry) == BH_OK ? static_cast<T *>(entry) : nullptr;
  }
  T *peek(std::size_t position = 0) const {
    void *entry;
    return bh_heap_peek(get(), position, &entry) == BH_OK ? static_cast<T *>(entry) : nullptr;
  }
  // After what the entry is compared by has changed.
  bh_result update(uint64_t handle) { return bh_heap_update(get(), handle); }
  bool is_valid() const { return bh_heap_verify(get()) == BH_OK; }
  std::size_t size() const { return bh_heap_len(get()); }
  bh_heap *get() const { return handle_.get(); }

 private:
  static int32_t compare(const void *one, const void *other, void *) noexcept {
    const T &a = *static_cast<const T *>(one), &b = *static_cast<const T *>(other);
    return Before{}(b, a) - Before{}(a, b);
  }

  detail::handle<bh_heap, bh_heap_free> handle_;
};

// Pointers to T by deadline, then by insertion. It owns nothing, and needs a lock of yours.
template <class T>
class timer_queue {
 public:
  explicit timer_queue(bh_timer_queue *handle) : handle_(handle) {}
  static result<timer_queue> make() { return detail::make<timer_queue, bh_timer_queue>(bh_timer_queue_new); }

  result<uint64_t> add(nanoseconds deadline, T &entry) {
    uint64_t handle;
    bh_result code = bh_timer_queue_add(get(), detail::count(deadline), &entry, &handle);
    if (code != BH_OK) return code;
    return handle;
  }
  // Null if it has left before.
  T *cancel(uint64_t handle) {
    void *entry;
    return bh_timer_queue_cancel(get(), handle, &entry) == BH_OK ? static_cast<T *>(entry) : nullptr;
  }
  bh_result reschedule(uint64_t handle, nanoseconds deadline) {
    return bh_timer_queue_reschedule(get(), handle, detail::count(deadline));
  }
  // Takes what is due, in order, and calls `each(T &, nanoseconds deadline)`, which may add and cancel.
  template <class F>
  void drain_due(nanoseconds now, F &&each) {
    bh_due_entry due;
    std::size_t count;
    while (bh_timer_queue_drain_due(get(), detail::count(now), &due, 1, &count) == BH_OK && count > 0)
      each(*static_cast<T *>(due.entry), nanoseconds(due.deadline_ns));
  }
  std::optional<nanoseconds> next_deadline() const {
    uint64_t next = bh_timer_queue_next_deadline(get());
    return next == UINT64_MAX ? std::nullopt : std::optional(nanoseconds(next));
  }
  std::size_t size() const { return bh_timer_queue_len(get()); }
  bh_timer_queue *get() const { return handle_.get(); }

 private:
  detail::handle<bh_timer_queue, bh_timer_queue_free> handle_;
};

// Timers.
class timers {
 public:
  explicit timers(bh_timers *handle) : handle_(handle) {}
  static result<timers> make(bh_timers_options options = {}) {
    options.size = sizeof options;
    return detail::make<timers, bh_timers>(bh_timers_new, &options);
  }

  template <class F>
  result<bh_timer> after(nanoseconds delay, const executor &on, F &&callback) {
    using C = std::decay_t<F>;
    return made(bh_timers_after, detail::count(delay), on.get(), detail::run<C>, detail::keep(std::forward<F>(callback)),
                detail::drop<C>);
  }
  // A period in the options makes it a periodic one.
  template <class F>
  result<bh_timer> add(bh_timer_options options, const executor &on, F &&callback) {
    using C = std::decay_t<F>;
    options.size = sizeof options;
    return made(bh_timers_add, &options, on.get(), detail::run<C>, detail::keep(std::forward<F>(callback)), detail::drop<C>);
  }
  // The callback returns the delay until it is to run again; zero ends the timer.
  template <class F>
  result<bh_timer> add_variable(bh_timer_options options, const executor &on, F &&callback) {
    using C = std::decay_t<F>;
    options.size = sizeof options;
    return made(bh_timers_add_variable, &options, on.get(), detail::next_delay<C>, detail::keep(std::forward<F>(callback)),
                detail::drop<C>);
  }
  bh_cancel cancel(bh_timer timer) {
    bh_cancel outcome = BH_CANCEL_ALREADY_RAN;
    bh_timers_cancel(get(), timer, &outcome);
    return outcome;
  }
  bh_cancel cancel_and_wait(bh_timer timer) {
    bh_cancel outcome = BH_CANCEL_ALREADY_RAN;
    bh_timers_cancel_and_wait(get(), timer, &outcome);
    return outcome;
  }
  bh_result spawn_driver() { return bh_timers_spawn_driver(get()); }
  bh_result run_due() { return bh_timers_run_due(get(), nullptr); }
  bh_timers *get() const { return handle_.get(); }

 private:
  template <class Function, class... Arguments>
  result<bh_timer> made(Function function, Arguments... arguments) {
    bh_timer timer;
    bh_result code = function(get(), arguments..., &timer);
    if (code != BH_OK) return code;
    return timer;
  }

  detail::handle<bh_timers, bh_timers_free> handle_;
};

// One pin on a buffer: a copy is another pin. The pool must outlive it.
class pin {
 public:
  pin(bh_buffers *pool, void *address, std::size_t size) : pool_(pool), address_(address), size_(size) {}
  pin(const pin &other) : pool_(other.pool_), address_(nullptr), size_(0) {
    if (other.address_ && bh_buffers_pin(pool_, other.address_) == BH_OK) address_ = other.address_, size_ = other.size_;
  }
  pin(pin &&other) noexcept : pool_(other.pool_), address_(std::exchange(other.address_, nullptr)), size_(other.size_) {}
  pin &operator=(pin other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(address_, other.address_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~pin() {
    if (address_) bh_buffers_unpin(pool_, address_);
  }
  unsigned char *data() const { return static_cast<unsigned char *>(address_); }
  std::size_t size() const { return size_; }
#if defined(__cpp_lib_span)
  std::span<unsigned char> bytes() const { return {data(), size_}; }
#endif

 private:
  bh_buffers *pool_;
  void *address_;
  std::size_t size_;
};

// Pinned buffers.
class buffers {
 public:
  explicit buffers(bh_buffers *handle) : handle_(handle) {}
  static result<buffers> make(bh_buffers_options options = {}) {
    options.size = sizeof options;
    return detail::make<buffers, bh_buffers>(bh_buffers_new, &options);
  }
  // A new buffer, held by one pin.
  result<pin> find(std::size_t size) {
    void *address;
    bh_result code = bh_buffers_find(get(), size, &address);
    if (code != BH_OK) return code;
    return pin(get(), address, size);
  }
  // Another pin on the whole buffer that has a byte at this address.
  result<pin> at(const void *address) {
    bh_result code = bh_buffers_pin(get(), address);
    if (code != BH_OK) return code;
    void *start;
    std::size_t size;
    bh_buffers_at(get(), address, &start, &size);
    return pin(get(), start, size);
  }
  bh_buffers *get() const { return handle_.get(); }

 private:
  detail::handle<bh_buffers, bh_buffers_free> handle_;
};

// All of them wired as one.
class runtime {
 public:
  explicit runtime(bh_runtime *handle) : handle_(handle) {}
  static result<runtime> make(bh_runtime_options options = {}) {
    options.size = sizeof options;
    return detail::make<runtime, bh_runtime>(bh_runtime_new, &options);
  }
  // Without threads: the order depends only on the seed.
  static result<runtime> simulated(uint64_t seed) { return detail::make<runtime, bh_runtime>(bh_runtime_simulated, seed); }

  result<busyhour::pool> pool() const { return detail::make<busyhour::pool, bh_pool>(bh_runtime_pool, get()); }
  result<busyhour::timers> timers() const {
    return detail::make<busyhour::timers, bh_timers>(bh_runtime_timers, get());
  }
  result<busyhour::buffers> buffers() const {
    return detail::make<busyhour::buffers, bh_buffers>(bh_runtime_buffers, get());
  }
  bh_result run_for(nanoseconds span) { return bh_simulation_run_for(get(), detail::count(span)); }
  bh_result run_until_idle() { return bh_simulation_run_until_idle(get()); }
  bh_runtime *get() const { return handle_.get(); }

 private:
  detail::handle<bh_runtime, bh_runtime_free> handle_;
};

// A subscription; it ends with this object.
class subscription {
 public:
  explicit subscription(bh_subscription *handle) : handle_(handle) {}
  bh_result replay() { return bh_subscription_replay(handle_.get()); }

 private:
  detail::handle<bh_subscription, bh_subscription_free> handle_;
};

// What a subscription to a topic<T> receives.
template <class T>
struct delivery {
  bh_delivery_kind kind;
  const T *event;    // BH_DELIVERY_EVENT
  const T *removed;  // BH_DELIVERY_REMOVED: something with the key
  uint64_t origin;
  uint64_t lost;  // BH_DELIVERY_LOST
};

// Events of type T with the last one of each key. Hash and Equal look at the key alone; both have no state.
template <class T, class Hash, class Equal>
class topic {
 public:
  explicit topic(bh_topic *handle) : handle_(handle) {}
  static result<topic> make(bh_topic_options options = {}, const runtime *listed_by = nullptr) {
    options.size = sizeof options;
    options.hash = hash;
    options.equal = equal;
    return detail::make<topic, bh_topic>(
        bh_topic_new, listed_by ? listed_by->get() : nullptr, &options);
  }

  result<bh_published> publish(T event) {
    bh_published published;
    bh_result code = bh_topic_publish(get(), new T(std::move(event)), detail::drop<T>, &published);
    if (code != BH_OK) return code;
    return published;
  }
  // A copy of the last event with the key of `wanted`.
  std::optional<T> get_last(const T &wanted) const {
    bh_event *event;
    if (bh_topic_get(get(), &wanted, &event) != BH_OK) return std::nullopt;
    std::optional<T> last(*static_cast<const T *>(bh_event_object(event)));
    bh_event_free(event);
    return last;
  }
  // `receive` takes a `const delivery<T> &`.
  template <class F>
  result<subscription> subscribe(bh_subscription_options options, F &&receive) {
    using C = std::decay_t<F>;
    bh_subscription *out;
    options.size = sizeof options;
    bh_result code =
        bh_topic_subscribe(get(), &options, tell<C>, detail::keep(std::forward<F>(receive)), detail::drop<C>, &out);
    if (code != BH_OK) return code;
    return subscription(out);
  }
  std::size_t size() const { return bh_topic_len(get()); }
  bh_topic *get() const { return handle_.get(); }

 private:
  static uint64_t hash(const void *object, void *) noexcept { return Hash{}(*static_cast<const T *>(object)); }
  static int32_t equal(const void *one, const void *other, void *) noexcept {
    return Equal{}(*static_cast<const T *>(one), *static_cast<const T *>(other));
  }
  template <class F>
  static void tell(const bh_delivery *from, void *data) noexcept {
    delivery<T> to{from->kind, from->event ? static_cast<const T *>(bh_event_object(from->event)) : nullptr,
                   static_cast<const T *>(from->removed_object), from->origin, from->lost};
    (*static_cast<F *>(data))(to);
  }

  detail::handle<bh_topic, bh_topic_free> handle_;
};

}  // namespace busyhour

#endif
