// Busyhour's runtime for C++17: busyhour.h with handles that free themselves and closures as callbacks.
// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A call that fails returns a bh_result, or a busyhour::result<T>: a value, or the code why there is none. Two things throw, as
// they do everywhere in C++: memory that is out (std::bad_alloc), for a closure, a text or a list, and a copy of the
// program's closure or struct that throws. A closure that throws when it is called ends the process (std::terminate).

#ifndef BUSYHOUR_HPP
#define BUSYHOUR_HPP

#include <busyhour.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#if defined(__has_include) && __has_include(<span>) && __cplusplus >= 202002L
#include <span>
#endif

namespace busyhour {

using nanoseconds = std::chrono::nanoseconds;

// A sentence about a code.
inline const char *sentence(bh_result code) { return bh_strerror(code); }

// The version of the library.
inline const char *version() { return bh_version(); }

namespace detail {

// `result::value` of a call that failed.
[[noreturn]] inline void no_value(bh_result code) {
  char why[512];
  bh_last_error(why, sizeof why);
  std::fprintf(stderr, "busyhour: there is no value: %s (last error: %s); the process ends\n", bh_strerror(code), why);
  std::abort();
}

}  // namespace detail

// A value, or the code why there is none.
template <class T>
class [[nodiscard]] result {
 public:
  result(bh_result code) : code_(code) {}
  result(T value) : code_(BH_OK), value_(std::move(value)) {}
  explicit operator bool() const { return value_.has_value(); }
  bh_result code() const { return code_; }
  // The value. If there is none, it says why on stderr and ends the process (SIGABRT): the header throws nothing of its own.
  T &value() & { return checked(), *value_; }
  const T &value() const & { return checked(), *value_; }
  T &&value() && { return checked(), std::move(*value_); }
  // The value, or `other` if there is none.
  template <class U>
  T value_or(U &&other) const & { return value_.value_or(std::forward<U>(other)); }
  template <class U>
  T value_or(U &&other) && { return std::move(value_).value_or(std::forward<U>(other)); }
  // Only if there is a value: to use that of a call that failed is undefined.
  T &operator*() & { return *value_; }
  const T &operator*() const & { return *value_; }
  T &&operator*() && { return std::move(*value_); }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

 private:
  void checked() const {
    if (!value_) detail::no_value(code_);
  }

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

// Calls a function of C that writes a value.
template <class T, class Function, class... Arguments>
result<T> get(Function function, Arguments... arguments) {
  T out;
  bh_result code = function(arguments..., &out);
  if (code != BH_OK) return code;
  return out;
}

// Calls a function of C that copies a text and returns its length.
template <class Function, class... Arguments>
std::string text(Function function, Arguments... arguments) {
  std::string text;
  for (std::size_t len = function(arguments..., nullptr, 0);;) {
    text.resize(len);
    len = function(arguments..., text.data(), text.size() + 1);
    if (len > text.size()) continue;  // it has grown meanwhile
    text.resize(len);
    return text;
  }
}

// Calls a function of C that gives a text.
template <class Function, class T>
result<std::string> taken(Function function, T *handle) {
  char *out;
  bh_result code = function(handle, &out);
  if (code != BH_OK) return code;
  detail::handle<char, bh_text_free> text(out);
  return std::string(out);
}

// A closure that is called during a call, for each thing or to choose some. If it returns nothing, it goes on.
template <class F, class S>
int32_t each(const S *one, void *data) noexcept {
  F &closure = *static_cast<F *>(data);
  if constexpr (std::is_void_v<std::invoke_result_t<F &, const S &>>) {
    closure(*one);
    return 1;
  } else {
    return closure(*one) ? 1 : 0;
  }
}
template <class F>
void *during(F &closure) { return const_cast<void *>(static_cast<const void *>(std::addressof(closure))); }

}  // namespace detail

// What the last failed call of this thread had to say.
inline std::string last_error() { return detail::text(bh_last_error); }

// A task that an executor of the program has taken. It runs or is freed once.
class task {
 public:
  explicit task(bh_task *handle) : handle_(handle) {}
  bh_result run() { return bh_task_run(handle_.release()); }
  bh_task *release() { return handle_.release(); }

 private:
  detail::handle<bh_task, bh_task_free> handle_;
};

// Where callbacks run.
class executor {
 public:
  explicit executor(bh_executor *handle) : handle_(handle) {}
  // On the thread that delivers.
  static result<executor> on_this_thread() { return detail::make<executor, bh_executor>(bh_executor_inline); }
  // An event loop of the program: `accept(task &&)` keeps the task to run it later, and must not block. It may be called by
  // any thread.
  template <class F>
  static result<executor> of_program(F &&accept) {
    using C = std::decay_t<F>;
    bh_execute_fn execute = [](bh_task *task, void *data) noexcept -> int32_t {
      (*static_cast<C *>(data))(busyhour::task(task));
      return 0;
    };
    return detail::make<executor, bh_executor>(bh_executor_new, execute, detail::keep(std::forward<F>(accept)), detail::drop<C>);
  }
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

// Lets a spawned task go on, from any thread.
class waker {
 public:
  explicit waker(bh_waker *handle) : handle_(handle) {}
  bh_result wake() const { return bh_waker_wake(handle_.get()); }

 private:
  detail::handle<bh_waker, bh_waker_free> handle_;
};

// Inside of a step: what wakes its task.
class step {
 public:
  explicit step(const bh_waker *waker) : waker_(waker) {}
  result<busyhour::waker> waker() const { return detail::make<busyhour::waker, bh_waker>(bh_waker_clone, waker_); }
  bh_result wake() const { return bh_waker_wake(waker_); }

 private:
  const bh_waker *waker_;
};

// Waits for the result of a spawned task. If it is destroyed, the task goes on.
class join {
 public:
  explicit join(bh_join *handle) : handle_(handle) {}
  // Once.
  result<uint64_t> wait() { return detail::get<uint64_t>(bh_join_wait, handle_.release()); }
  bh_result abort() { return bh_join_abort(handle_.get()); }
  bool is_finished() const { return bh_join_is_finished(handle_.get()) != 0; }

 private:
  detail::handle<bh_join, bh_join_free> handle_;
};

namespace detail {

// `F` takes a `step` and returns an optional number: none if it has to wait.
template <class F>
int32_t poll(const bh_waker *waker, uint64_t *out, void *data) noexcept {
  std::optional<uint64_t> done = (*static_cast<F *>(data))(step(waker));
  if (done) *out = *done;
  return done.has_value();
}

// Shuts something down, tells `each` what it left, and returns the numbers.
template <class T, class Function, class F>
result<bh_shutdown_report> shutdown_each(Function function, T *handle, nanoseconds limit, F &each) {
  return get<bh_shutdown_report>(function, handle, count(limit), detail::each<F, bh_leftover>, during(each));
}

}  // namespace detail

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
    return bh_serializer_push_wait(get(), detail::run<std::remove_reference_t<F>>, detail::during(task), nullptr);
  }
  // With BH_OVERFLOW_CONFLATE it replaces a waiting task with the same key.
  template <class F>
  bh_result push_keyed(uint64_t key, F &&task) {
    using C = std::decay_t<F>;
    return bh_serializer_push_keyed(get(), key, detail::run<C>, detail::keep(std::forward<F>(task)), detail::drop<C>);
  }
  // A task that waits without a worker: it takes a `step`, and returns its result or, to wait, nothing.
  template <class F>
  result<join> spawn(F &&poll) {
    using C = std::decay_t<F>;
    return detail::make<join, bh_join>(bh_serializer_spawn, get(), detail::poll<C>, detail::keep(std::forward<F>(poll)),
                                       detail::drop<C>);
  }
  // Another handle on the same serializer.
  result<serializer> clone() const { return detail::make<serializer, bh_serializer>(bh_serializer_clone, get()); }
  bh_result set_priority(uint32_t priority) { return bh_serializer_set_priority(get(), priority); }
  bh_result set_watermarks(uint64_t low, uint64_t high) { return bh_serializer_set_watermarks(get(), low, high); }
  result<uint64_t> reset_high_water() { return detail::get<uint64_t>(bh_serializer_reset_high_water, get()); }
  result<bh_serializer_stats> stats() const { return detail::get<bh_serializer_stats>(bh_serializer_get_stats, get()); }
  std::string name() const { return detail::text(bh_serializer_name, get()); }
  // The label of the task that runs.
  std::string running() const { return detail::text(bh_serializer_running, get()); }
  bool is_idle() const { return bh_serializer_is_idle(get()) != 0; }
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

// The options that many serializers of one kind share.
class serializer_template {
 public:
  explicit serializer_template(bh_template *handle) : handle_(handle) {}
  result<busyhour::serializer> serializer() const {
    return detail::make<busyhour::serializer, bh_serializer>(bh_template_serializer, handle_.get());
  }
  std::string name() const { return detail::text(bh_template_name, handle_.get()); }

 private:
  detail::handle<bh_template, bh_template_free> handle_;
};

// Counts serializers above their high watermark: the `alert_group` of their options.
class alert_group {
 public:
  explicit alert_group(bh_alert_group *handle) : handle_(handle) {}
  static result<alert_group> make() { return detail::make<alert_group, bh_alert_group>(bh_alert_group_new); }
  std::size_t count() const { return bh_alert_group_count(get()); }
  uint64_t raised() const { return bh_alert_group_raised(get()); }
  bh_alert_group *get() const { return handle_.get(); }

 private:
  detail::handle<bh_alert_group, bh_alert_group_free> handle_;
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
    return bh_pool_push_wait(get(), detail::run<std::remove_reference_t<F>>, detail::during(task), nullptr);
  }
  result<busyhour::serializer> serializer(const char *name = nullptr, bh_serializer_options options = {}) {
    options.size = sizeof options;
    if (name) options.name = name;
    return detail::make<busyhour::serializer, bh_serializer>(bh_serializer_new, get(), &options);
  }
  result<serializer_template> make_template(const char *name, bh_serializer_options options = {}) {
    options.size = sizeof options;
    options.name = name;
    return detail::make<serializer_template, bh_template>(bh_template_new, get(), &options);
  }
  result<busyhour::serializer> find_serializer(const char *name) const {
    return detail::make<busyhour::serializer, bh_serializer>(bh_pool_find_serializer, get(), name);
  }
  // Runs the task, which may block, on this thread; others run meanwhile.
  template <class F>
  bh_result blocking(F &&task) {
    return bh_pool_blocking(get(), detail::run<std::remove_reference_t<F>>, detail::during(task), nullptr);
  }
  // A task that waits without a worker: it takes a `step`, and returns its result or, to wait, nothing.
  template <class F>
  result<join> spawn(F &&poll) {
    using C = std::decay_t<F>;
    return detail::make<join, bh_join>(bh_pool_spawn, get(), detail::poll<C>, detail::keep(std::forward<F>(poll)), detail::drop<C>);
  }
  result<bh_pool_stats> stats() const { return detail::get<bh_pool_stats>(bh_pool_get_stats, get()); }
  // Each takes a `const bh_serializer_stats &`, or a `const bh_worker_stats &`, and may return false to end the list.
  template <class F>
  bh_result list(F &&each) const {
    using C = std::remove_reference_t<F>;
    return bh_pool_list(get(), detail::each<C, bh_serializer_stats>, detail::during(each));
  }
  template <class F>
  bh_result list_workers(F &&each) const {
    using C = std::remove_reference_t<F>;
    return bh_pool_list_workers(get(), detail::each<C, bh_worker_stats>, detail::during(each));
  }
  std::size_t alert_count() const { return bh_pool_alert_count(get()); }
  bh_result reset_high_waters() { return bh_pool_reset_high_waters(get()); }
  result<busyhour::executor> executor() const {
    return detail::make<busyhour::executor, bh_executor>(bh_executor_of_pool, get());
  }
  result<bh_shutdown_report> shutdown(nanoseconds limit) {
    bh_shutdown_report report;
    bh_result code = bh_pool_shutdown(get(), detail::count(limit), &report);
    if (code != BH_OK) return code;
    return report;
  }
  // Tells `each`, which takes a `const bh_leftover &`, what was left.
  template <class F>
  result<bh_shutdown_report> shutdown(nanoseconds limit, F &&each) {
    return detail::shutdown_each(bh_pool_shutdown_each, get(), limit, each);
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
  template <class F>
  result<bh_shutdown_report> shutdown(nanoseconds limit, F &&each) {
    return detail::shutdown_each(bh_group_shutdown_each, get(), limit, each);
  }
  result<bh_group_stats> stats() const { return detail::get<bh_group_stats>(bh_group_get_stats, get()); }
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
  T *find(uint64_t handle) const {
    void *entry;
    return bh_heap_get(get(), handle, &entry) == BH_OK ? static_cast<T *>(entry) : nullptr;
  }
  result<uint64_t> peek_handle() const { return detail::get<uint64_t>(bh_heap_peek_handle, get()); }
  bh_result clear() { return bh_heap_clear(get()); }
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
  T *find(uint64_t handle) const {
    void *entry;
    return bh_timer_queue_get(get(), handle, &entry, nullptr) == BH_OK ? static_cast<T *>(entry) : nullptr;
  }
  // Takes the earliest due entry out of the order, but keeps it until `reschedule` or `cancel` with the handle in `handle`.
  T *hold_due(nanoseconds now, uint64_t &handle) {
    bh_due_entry due;
    return bh_timer_queue_hold_due(get(), detail::count(now), &due, &handle) == BH_OK ? static_cast<T *>(due.entry) : nullptr;
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

// What a run queue knows of one entity. It stays where it is while the entity is queued.
class sched_state {
 public:
  explicit sched_state(bh_sched_state *handle) : handle_(handle) {}
  // 1 to 40, or 100 to 199 for real time; 0: 20.
  static result<sched_state> make(uint32_t priority = 0) {
    return detail::make<sched_state, bh_sched_state>(bh_sched_state_new, priority);
  }
  uint32_t counter() const { return bh_sched_state_counter(get()); }
  uint32_t priority() const { return bh_sched_state_priority(get()); }
  uint32_t goodness(uint16_t worker) const { return bh_sched_state_goodness(get(), worker); }
  result<uint16_t> ran_on() const { return detail::get<uint16_t>(bh_sched_state_ran_on, get()); }
  // Not while the entity is queued.
  bh_result set_priority(uint32_t priority) { return bh_sched_state_set_priority(get(), priority); }
  bh_sched_state *get() const { return handle_.get(); }

 private:
  detail::handle<bh_sched_state, bh_sched_state_free> handle_;
};

// Runnable entities of one worker, by Linux 2.2 goodness. An entity is a T with its state in the member `State`. It owns nothing,
// and needs a lock of yours.
template <class T, sched_state T::*State>
class run_queue {
 public:
  explicit run_queue(bh_run_queue *handle) : handle_(handle) {}
  static result<run_queue> make(uint16_t worker, nanoseconds tick = nanoseconds(0)) {
    return detail::make<run_queue, bh_run_queue>(bh_run_queue_new, worker, detail::count(tick));
  }
  static result<run_queue> make(uint16_t worker, nanoseconds tick, std::size_t sorted_max, std::size_t sorted_again) {
    return detail::make<run_queue, bh_run_queue>(bh_run_queue_with_thresholds, worker, detail::count(tick), sorted_max, sorted_again);
  }

  bh_result wake(T &entity, bool in_front = false) { return bh_run_queue_wake(get(), number(entity), state(entity), in_front); }
  // Null if nothing is runnable.
  T *pick() {
    uint64_t picked;
    return bh_run_queue_pick(get(), &picked) == BH_OK ? entity(picked) : nullptr;
  }
  bh_result put_back(T &entity, nanoseconds ran) {
    return bh_run_queue_put_back(get(), number(entity), state(entity), detail::count(ran));
  }
  // `put_back` and `pick` in one step; null if the call fails.
  T *switch_from(T &from, nanoseconds ran) {
    uint64_t picked;
    bh_result code = bh_run_queue_switch(get(), number(from), state(from), detail::count(ran), &picked);
    return code == BH_OK ? entity(picked) : nullptr;
  }
  bh_result charge(T &entity, nanoseconds ran) { return bh_run_queue_charge(get(), state(entity), detail::count(ran)); }
  bh_result remove(T &entity) { return bh_run_queue_remove(get(), number(entity), state(entity)); }
  bh_result sync_epoch(T &entity) { return bh_run_queue_sync_epoch(get(), state(entity)); }
  // The state of an entity that `parent` creates: the two share what the parent has left.
  result<sched_state> fork(T &parent, uint32_t priority = 0) {
    return detail::make<sched_state, bh_sched_state>(bh_run_queue_fork, get(), state(parent), priority);
  }
  std::size_t size() const { return bh_run_queue_len(get()); }
  uint32_t epoch() const { return bh_run_queue_epoch(get()); }
  bool is_bucketed() const { return bh_run_queue_is_bucketed(get()) != 0; }
  uint16_t worker() const { return bh_run_queue_worker(get()); }
  bh_run_queue *get() const { return handle_.get(); }

 private:
  static uint64_t number(T &entity) { return reinterpret_cast<uintptr_t>(std::addressof(entity)); }
  static T *entity(uint64_t number) { return reinterpret_cast<T *>(static_cast<uintptr_t>(number)); }
  static bh_sched_state *state(T &entity) { return (entity.*State).get(); }

  detail::handle<bh_run_queue, bh_run_queue_free> handle_;
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
  // Cancels what `timer` names and adds another instead; if that fails, the old one stays.
  template <class F>
  result<bh_cancel> replace(bh_timer &timer, bh_timer_options options, const executor &on, F &&callback) {
    using C = std::decay_t<F>;
    bh_cancel outcome;
    options.size = sizeof options;
    bh_result code = bh_timers_replace(get(), &timer, &options, on.get(), detail::run<C>,
                                       detail::keep(std::forward<F>(callback)), detail::drop<C>, &outcome);
    if (code != BH_OK) return code;
    return outcome;
  }
  // The same with a callback that returns the delay until it is to run again.
  template <class F>
  result<bh_cancel> replace_variable(bh_timer &timer, bh_timer_options options, const executor &on, F &&callback) {
    using C = std::decay_t<F>;
    bh_cancel outcome;
    options.size = sizeof options;
    bh_result code = bh_timers_replace_variable(get(), &timer, &options, on.get(), detail::next_delay<C>,
                                                detail::keep(std::forward<F>(callback)), detail::drop<C>, &outcome);
    if (code != BH_OK) return code;
    return outcome;
  }
  // These four say how many were prevented.
  result<std::size_t> cancel_owner(uint64_t owner) { return detail::get<std::size_t>(bh_timers_cancel_owner, get(), owner); }
  result<std::size_t> cancel_label(const char *label) { return detail::get<std::size_t>(bh_timers_cancel_label, get(), label); }
  // `is_wanted` takes a `const bh_pending_timer &`.
  template <class F>
  result<std::size_t> cancel_where(F &&is_wanted) {
    using C = std::remove_reference_t<F>;
    return detail::get<std::size_t>(bh_timers_cancel_where, get(), detail::each<C, bh_pending_timer>, detail::during(is_wanted));
  }
  result<std::size_t> close() { return detail::get<std::size_t>(bh_timers_close, get()); }
  bh_result reschedule(bh_timer timer, nanoseconds deadline) {
    return bh_timers_reschedule(get(), timer, detail::count(deadline));
  }
  result<nanoseconds> time_left(bh_timer timer) const { return span(bh_timers_time_left, timer); }
  result<bh_timer> by_id(int32_t id) const { return detail::get<bh_timer>(bh_timers_by_id, get(), id); }
  // Each takes a `const bh_pending_timer &`, or a `const bh_label_stats &`, and may return false to end the list.
  template <class F>
  bh_result list(F &&each) const {
    using C = std::remove_reference_t<F>;
    return bh_timers_list(get(), detail::each<C, bh_pending_timer>, detail::during(each));
  }
  template <class F>
  bh_result with(bh_timer timer, F &&look) const {
    using C = std::remove_reference_t<F>;
    return bh_timers_get(get(), timer, detail::each<C, bh_pending_timer>, detail::during(look));
  }
  template <class F>
  bh_result labels(F &&each) const {
    using C = std::remove_reference_t<F>;
    return bh_timers_labels(get(), detail::each<C, bh_label_stats>, detail::during(each));
  }
  result<bh_timers_stats> stats() const { return detail::get<bh_timers_stats>(bh_timers_get_stats, get()); }
  result<std::string> report() const { return detail::taken(bh_timers_report, get()); }
  bh_result spawn_driver() { return bh_timers_spawn_driver(get()); }
  bh_result stop_driver(nanoseconds limit) { return bh_timers_stop_driver(get(), detail::count(limit)); }
  // For a loop of the program: what is due, how long it may sleep (nanoseconds::max(): no timer), and who ends the sleep.
  bh_result run_due() { return bh_timers_run_due(get(), nullptr); }
  result<nanoseconds> next_wait() { return span(bh_timers_next_wait); }
  result<nanoseconds> next_deadline() const { return span(bh_timers_next_deadline); }
  template <class F>
  bh_result on_earlier(F &&hook) {
    using C = std::decay_t<F>;
    return bh_timers_on_earlier(get(), detail::run<C>, detail::keep(std::forward<F>(hook)), detail::drop<C>);
  }
  result<nanoseconds> now() const { return span(bh_timers_now); }
  bh_result advance(nanoseconds time) { return bh_timers_advance(get(), detail::count(time)); }
  bh_timers *get() const { return handle_.get(); }

 private:
  template <class Function, class... Arguments>
  result<nanoseconds> span(Function function, Arguments... arguments) const {
    uint64_t ns;
    bh_result code = function(get(), arguments..., &ns);
    if (code != BH_OK) return code;
    return ns > INT64_MAX ? nanoseconds::max() : nanoseconds(static_cast<int64_t>(ns));
  }
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
  // Keeps only some bytes: a copy of them, if they are a small part of a large buffer. Then the pin is on that.
  bh_result compact(std::size_t begin, std::size_t size) {
    if (begin > size_ || size > size_ - begin) return BH_INVALID;
    void *kept;
    bh_result code = bh_buffers_compact(pool_, data() + begin, size, &kept);
    if (code == BH_OK) address_ = kept, size_ = size;
    return code;
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
  result<buffers> owned_by(const char *owner) const { return detail::make<buffers, bh_buffers>(bh_buffers_owned_by, get(), owner); }
  // Memory that went back to the system, in bytes.
  result<std::size_t> trim() { return detail::get<std::size_t>(bh_buffers_trim, get()); }
  result<bh_buffers_stats> stats() const { return detail::get<bh_buffers_stats>(bh_buffers_get_stats, get()); }
  result<std::string> dump() const { return detail::taken(bh_buffers_dump, get()); }
  // Each takes a `const bh_live_buffer &`, or a `const bh_owner_usage &`, and may return false to end the list.
  template <class F>
  bh_result list(F &&each) const {
    using C = std::remove_reference_t<F>;
    return bh_buffers_each(get(), detail::each<C, bh_live_buffer>, detail::during(each));
  }
  template <class F>
  bh_result owners(F &&each) const {
    using C = std::remove_reference_t<F>;
    return bh_buffers_owners(get(), detail::each<C, bh_owner_usage>, detail::during(each));
  }
  bh_buffers *get() const { return handle_.get(); }

 private:
  detail::handle<bh_buffers, bh_buffers_free> handle_;
};

// A record that something else keeps: a sort, a subject, and typed elements with numbers.
class record_view {
 public:
  explicit record_view(const bh_record *record) : record_(record) {}
  uint16_t sort() const { return bh_record_sort(get()); }
  std::string subject() const { return detail::text(bh_record_subject, get()); }
  std::size_t size() const { return bh_record_len(get()); }
  result<uint16_t> id_at(std::size_t index) const { return detail::get<uint16_t>(bh_record_id_at, get(), index); }
  bh_element_type type(uint16_t id) const { return bh_record_type(get(), id); }
  // A number or 32 switches.
  result<uint32_t> number(uint16_t id) const { return detail::get<uint32_t>(bh_record_get_u32, get(), id); }
  // A text, bytes or switches, where they lie in the record.
  result<std::string_view> bytes(uint16_t id) const {
    const void *begin;
    std::size_t size;
    bh_result code = bh_record_get_bytes(get(), id, &begin, &size);
    if (code != BH_OK) return code;
    return std::string_view(static_cast<const char *>(begin), size);
  }
  // Empty if there is no text.
  std::string text(uint16_t id) const { return detail::text(bh_record_get_text, get(), id); }
  bool has_bit(uint16_t id, uint16_t bit) const { return bh_record_has_bit(get(), id, bit) != 0; }
  // As bytes for the wire.
  result<std::string> encode() const {
    std::size_t size = 0;
    bh_result code = bh_record_encode(get(), nullptr, 0, &size);
    if (code != BH_FULL) return code;
    std::string wire(size, '\0');
    code = bh_record_encode(get(), wire.data(), wire.size(), &size);
    if (code != BH_OK) return code;
    return wire;
  }
  const bh_record *get() const { return record_; }

 private:
  const bh_record *record_;
};

// A record of its own.
class record {
 public:
  explicit record(bh_record *handle) : handle_(handle) {}
  static result<record> make(uint16_t sort, const char *subject) {
    return detail::make<record, bh_record>(bh_record_new, sort, subject);
  }
  static result<record> decode(std::string_view wire) {
    return detail::make<record, bh_record>(bh_record_decode, static_cast<const void *>(wire.data()), wire.size());
  }
  static result<record> copy(record_view of) { return detail::make<record, bh_record>(bh_record_clone, of.get()); }

  bh_result set_number(uint16_t id, uint32_t value) { return bh_record_set_u32(get(), id, value); }
  bh_result set_text(uint16_t id, const char *value) { return bh_record_set_text(get(), id, value); }
  bh_result set_bytes(uint16_t id, std::string_view value) {
    return bh_record_set_bytes(get(), id, value.data(), value.size());
  }
  bh_result set_flags(uint16_t id, uint32_t value) { return bh_record_set_flags(get(), id, value); }
  bh_result set_bits(uint16_t id, std::string_view value) {
    return bh_record_set_bits(get(), id, value.data(), value.size());
  }
  bh_result remove(uint16_t id) { return bh_record_remove(get(), id); }
  record_view view() const { return record_view(get()); }
  operator record_view() const { return view(); }
  bh_record *get() const { return handle_.get(); }

 private:
  detail::handle<bh_record, bh_record_free> handle_;
};

// What a record must be; an empty pattern matches every record.
class pattern {
 public:
  explicit pattern(bh_pattern *handle) : handle_(handle) {}
  static result<pattern> make() { return detail::make<pattern, bh_pattern>(bh_pattern_new); }
  bh_result sort(uint16_t sort) { return bh_pattern_sort(get(), sort); }
  bh_result subject(const char *subject) { return bh_pattern_subject(get(), subject); }
  bh_result exists(uint16_t id) { return bh_pattern_exists(get(), id); }
  bh_result number(uint16_t id, uint32_t value) { return bh_pattern_u32(get(), id, value); }
  bh_result text(uint16_t id, const char *value) { return bh_pattern_text(get(), id, value); }
  bh_result bytes(uint16_t id, std::string_view value) {
    return bh_pattern_bytes(get(), id, value.data(), value.size());
  }
  bh_result flags(uint16_t id, uint32_t value) { return bh_pattern_flags(get(), id, value); }
  bh_result bits(uint16_t id, std::string_view value) {
    return bh_pattern_bits(get(), id, value.data(), value.size());
  }
  bool matches(record_view record) const { return bh_pattern_matches(get(), record.get()) != 0; }
  bh_pattern *get() const { return handle_.get(); }

 private:
  detail::handle<bh_pattern, bh_pattern_free> handle_;
};

// An event, which never changes; each object is one reference.
class event {
 public:
  explicit event(bh_event *handle) : handle_(handle) {}
  static result<event> of(record_view record) { return detail::make<event, bh_event>(bh_event_of_record, record.get()); }
  // Keeps one that is valid only during a callback.
  static result<event> keep(const bh_event *event) { return detail::make<busyhour::event, bh_event>(bh_event_clone, event); }
  record_view record() const { return record_view(bh_event_record(get())); }
  // The struct that was published; null if the event is a record.
  template <class T>
  const T *object() const { return static_cast<const T *>(bh_event_object(get())); }
  const bh_event *get() const { return handle_.get(); }

 private:
  detail::handle<bh_event, bh_event_free> handle_;
};

// A property of events, which a publisher computes once for all subscriptions: the `attribute` of their options.
class attribute {
 public:
  explicit attribute(bh_attribute *handle) : handle_(handle) {}
  static result<attribute> of_element(uint16_t id) {
    return detail::make<attribute, bh_attribute>(bh_attribute_of_element, id);
  }
  // `of` takes a `const bh_event *` and returns a number.
  template <class F>
  static result<attribute> make(F &&of) {
    using C = std::decay_t<F>;
    bh_attribute_fn compute = [](const bh_event *event, void *data) noexcept -> uint64_t {
      return (*static_cast<C *>(data))(event);
    };
    return detail::make<attribute, bh_attribute>(bh_attribute_new, compute, detail::keep(std::forward<F>(of)), detail::drop<C>);
  }
  bh_attribute *get() const { return handle_.get(); }

 private:
  detail::handle<bh_attribute, bh_attribute_free> handle_;
};

// A subscription; it ends with this object.
class subscription {
 public:
  explicit subscription(bh_subscription *handle) : handle_(handle) {}
  bh_result replay() { return bh_subscription_replay(handle_.get()); }
  uint64_t lost() const { return bh_subscription_lost(handle_.get()); }
  std::size_t size() const { return bh_subscription_len(handle_.get()); }
  bool is_idle() const { return bh_subscription_is_idle(handle_.get()) != 0; }

 private:
  detail::handle<bh_subscription, bh_subscription_free> handle_;
};

// Forwards events from one topic to another until it is destroyed.
class forward {
 public:
  explicit forward(bh_forward *handle) : handle_(handle) {}
  // What became of the events that were cached when it began.
  result<bh_published> published() const { return detail::get<bh_published>(bh_forward_published, handle_.get()); }

 private:
  detail::handle<bh_forward, bh_forward_free> handle_;
};

// What all topics have.
class any_topic {
 public:
  explicit any_topic(bh_topic *handle) : handle_(handle) {}

  result<bh_published> publish_from(uint64_t node, const event &event) {
    return detail::get<bh_published>(bh_topic_publish_from, get(), node, event.get());
  }
  result<bh_published> publish_for(nanoseconds life, const event &event) {
    return detail::get<bh_published>(bh_topic_publish_for, get(), detail::count(life), event.get());
  }
  // Those with the key of `like`.
  result<event> get_from(uint64_t node, const event &like) const {
    return detail::make<event, bh_event>(bh_topic_get_from, get(), node, like.get());
  }
  result<bh_published> remove(const event &like) { return detail::get<bh_published>(bh_topic_remove, get(), like.get()); }
  result<bh_published> remove_from(uint64_t node, const event &like) {
    return detail::get<bh_published>(bh_topic_remove_from, get(), node, like.get());
  }
  result<bh_published> remove_node(uint64_t node) { return detail::get<bh_published>(bh_topic_remove_node, get(), node); }
  result<uint64_t> origin_of(const event &like) const { return detail::get<uint64_t>(bh_topic_origin_of, get(), like.get()); }
  bool would_deliver(const event &like) const { return bh_topic_would_deliver(get(), like.get()) != 0; }
  result<forward> forward_to(any_topic &to) { return detail::make<forward, bh_forward>(bh_topic_forward, get(), to.get()); }
  std::size_t size() const { return bh_topic_len(get()); }
  std::string name() const { return detail::text(bh_topic_name, get()); }
  result<bh_topic_stats> stats() const { return detail::get<bh_topic_stats>(bh_topic_get_stats, get()); }
  // `each` takes a `const bh_subscription_stats &` and may return false to end the list.
  template <class F>
  bh_result subscriptions(F &&each) const {
    using C = std::remove_reference_t<F>;
    return bh_topic_subscriptions(get(), detail::each<C, bh_subscription_stats>, detail::during(each));
  }
  bh_topic *get() const { return handle_.get(); }

 protected:
  template <class C, class F>
  result<subscription> start(bh_subscription_options options, bh_delivery_fn tell, F &&receive) {
    options.size = sizeof options;
    return detail::make<subscription, bh_subscription>(bh_topic_subscribe, get(), &options, tell,
                                                       detail::keep(std::forward<F>(receive)), detail::drop<C>);
  }

 private:
  detail::handle<bh_topic, bh_topic_free> handle_;
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
  // Their alerts are published on `alerts`.
  result<busyhour::serializer> serializer(const char *name, bh_serializer_options options = {}) const {
    options.size = sizeof options;
    options.name = name;
    return detail::make<busyhour::serializer, bh_serializer>(bh_runtime_serializer, get(), &options);
  }
  result<serializer_template> make_template(const char *name, bh_serializer_options options = {}) const {
    options.size = sizeof options;
    options.name = name;
    return detail::make<serializer_template, bh_template>(bh_runtime_template, get(), &options);
  }
  template <class Topic>
  result<Topic> alerts() const { return detail::make<Topic, bh_topic>(bh_runtime_alerts, get()); }
  template <class F>
  bh_result subscriptions(F &&each) const {
    using C = std::remove_reference_t<F>;
    return bh_runtime_subscriptions(get(), detail::each<C, bh_subscription_stats>, detail::during(each));
  }
  result<bh_snapshot> snapshot() const { return detail::get<bh_snapshot>(bh_runtime_snapshot, get()); }
  result<std::string> snapshot_json() const { return detail::taken(bh_runtime_snapshot_json, get()); }
  result<bh_shutdown_report> shutdown(nanoseconds limit) {
    return detail::get<bh_shutdown_report>(bh_runtime_shutdown, get(), detail::count(limit));
  }
  template <class F>
  result<bh_shutdown_report> shutdown(nanoseconds limit, F &&each) {
    return detail::shutdown_each(bh_runtime_shutdown_each, get(), limit, each);
  }
  // The simulation.
  bool step() {
    int32_t ran = 0;
    bh_simulation_step(get(), &ran);
    return ran != 0;
  }
  bh_result run_for(nanoseconds span) { return bh_simulation_run_for(get(), detail::count(span)); }
  bh_result run_until(nanoseconds end) { return bh_simulation_run_until(get(), detail::count(end)); }
  bh_result run_until_idle() { return bh_simulation_run_until_idle(get()); }
  result<uint64_t> random() { return detail::get<uint64_t>(bh_simulation_random, get()); }
  bh_result trace(std::string_view bytes) { return bh_simulation_trace(get(), bytes.data(), bytes.size()); }
  result<uint64_t> trace_hash() { return detail::get<uint64_t>(bh_simulation_trace_hash, get()); }
  bh_runtime *get() const { return handle_.get(); }

 private:
  detail::handle<bh_runtime, bh_runtime_free> handle_;
};

// Options of a topic that keeps the last event of each key: what `make` of both sorts of topics has by default.
inline bh_topic_options cached_topic(const char *name = nullptr) {
  bh_topic_options options{};
  options.cached = 1, options.name = name;
  return options;
}

// Records, by default with the last one of each sort and subject; options without `cached` make one that keeps none.
class record_topic : public any_topic {
 public:
  using any_topic::any_topic;
  static result<record_topic> make(bh_topic_options options = cached_topic(), const runtime *listed_by = nullptr) {
    options.size = sizeof options;
    return detail::make<record_topic, bh_topic>(bh_topic_new, listed_by ? listed_by->get() : nullptr, &options);
  }

  result<bh_published> publish(record_view record) {
    return detail::get<bh_published>(bh_topic_publish_record, get(), record.get());
  }
  result<event> last(uint16_t sort, const char *subject) const {
    return detail::make<event, bh_event>(bh_topic_get_record, get(), sort, subject);
  }
  // By whatever elements.
  result<event> find(const pattern &wanted) const {
    return detail::make<event, bh_event>(bh_topic_find_record, get(), wanted.get());
  }
  result<bh_published> remove(const pattern &wanted) {
    return detail::get<bh_published>(bh_topic_remove_records, get(), wanted.get());
  }
  using any_topic::remove;
  // `each` takes a `record_view`, and may return false to end the list.
  template <class F>
  bh_result each(F &&each) const {
    auto look = [&each](const bh_event &event) { return each(record_view(bh_event_record(&event))); };
    return bh_topic_each(get(), detail::each<decltype(look), bh_event>, detail::during(look));
  }
  // `receive` takes a `const bh_delivery &`, whose event is a record.
  template <class F>
  result<subscription> subscribe(bh_subscription_options options, F &&receive) {
    using C = std::decay_t<F>;
    bh_delivery_fn tell = [](const bh_delivery *delivery, void *data) noexcept { (*static_cast<C *>(data))(*delivery); };
    return start<C>(options, tell, std::forward<F>(receive));
  }
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

// Events of type T, by default with the last one of each key; options without `cached` make one that keeps none. Hash and Equal look at the key alone; both have no state.
template <class T, class Hash, class Equal>
class topic : public any_topic {
 public:
  using any_topic::any_topic;
  static result<topic> make(bh_topic_options options = cached_topic(), const runtime *listed_by = nullptr) {
    options.size = sizeof options;
    options.hash = hash;
    options.equal = equal;
    return detail::make<topic, bh_topic>(bh_topic_new, listed_by ? listed_by->get() : nullptr, &options);
  }

  result<bh_published> publish(T event) {
    return detail::get<bh_published>(bh_topic_publish, get(), new T(std::move(event)), detail::drop<T>);
  }
  // For publish_from, publish_for, and as the key of others.
  result<busyhour::event> make_event(T event) const {
    return detail::make<busyhour::event, bh_event>(bh_event_of_object, get(), new T(std::move(event)), detail::drop<T>);
  }
  // A copy of the last event with the key of `wanted`.
  std::optional<T> get_last(const T &wanted) const { return copied(bh_topic_get, &wanted); }
  // Each takes a `const T &`; `each` may return false to end the list.
  template <class F>
  std::optional<T> find(F &&is_wanted) const {
    auto look = [&is_wanted](const bh_event &event) { return is_wanted(object(event)); };
    return copied(bh_topic_find, detail::each<decltype(look), bh_event>, detail::during(look));
  }
  template <class F>
  bh_result each(F &&each) const {
    auto look = [&each](const bh_event &event) { return each(object(event)); };
    return bh_topic_each(get(), detail::each<decltype(look), bh_event>, detail::during(look));
  }
  template <class F>
  result<bh_published> remove_where(F &&is_wanted) {
    auto look = [&is_wanted](const bh_event &event) { return is_wanted(object(event)); };
    return detail::get<bh_published>(bh_topic_remove_where, get(), detail::each<decltype(look), bh_event>, detail::during(look));
  }
  // `receive` takes a `const delivery<T> &`.
  template <class F>
  result<subscription> subscribe(bh_subscription_options options, F &&receive) {
    using C = std::decay_t<F>;
    return start<C>(options, tell<C>, std::forward<F>(receive));
  }

 private:
  static uint64_t hash(const void *object, void *) noexcept { return Hash{}(*static_cast<const T *>(object)); }
  static int32_t equal(const void *one, const void *other, void *) noexcept {
    return Equal{}(*static_cast<const T *>(one), *static_cast<const T *>(other));
  }
  static const T &object(const bh_event &event) { return *static_cast<const T *>(bh_event_object(&event)); }
  template <class Function, class... Arguments>
  std::optional<T> copied(Function function, Arguments... arguments) const {
    bh_event *event;
    if (function(get(), arguments..., &event) != BH_OK) return std::nullopt;
    std::optional<T> copy(object(*event));
    bh_event_free(event);
    return copy;
  }
  template <class F>
  static void tell(const bh_delivery *from, void *data) noexcept {
    delivery<T> to{from->kind, from->event ? &object(*from->event) : nullptr,
                   static_cast<const T *>(from->removed_object), from->origin, from->lost};
    (*static_cast<F *>(data))(to);
  }
};

}  // namespace busyhour

#endif
