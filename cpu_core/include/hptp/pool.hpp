// A persistent pool of threads that runs one loop at a time.
//
// parallel_for cuts the loop into one contiguous range per thread. The calling thread takes part,
// and ranges are claimed one by one, so a helper that is late, busy or could not be created costs
// time and never correctness. Helpers spin briefly for the next loop, giving way to others that
// want their CPU, and then sleep; while they spin, no lock is taken. They are detached and the pool
// is never destroyed: sleeping threads hold up no exit. A caller that finds the pool at work for
// another thread (or for itself, nested) runs its loop alone, since the CPUs are taken. After
// fork() the child, which has no helpers, starts a new pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "cpus.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define HPTP_HAS_FORK 1
#endif

namespace hptp {
namespace detail {

inline void cpu_relax() {
#if (defined(__GNUC__) || defined(__clang__)) && (defined(__x86_64__) || defined(__i386__))
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// One loop, erased to a function pointer: nothing is allocated for it.
struct Loop {
  void (*run)(void* body, int64_t first, int64_t last);
  void* body;
  int64_t num_tasks;
  int num_ranges;
  std::atomic<int> next_range{0};

  void work() {
    for (;;) {
      const int range = next_range.fetch_add(1, std::memory_order_relaxed);
      if (range >= num_ranges) return;
      run(body, start_of(range), start_of(range + 1));
    }
  }

  // Ranges differ by one task at most; written so that no product can overflow.
  int64_t start_of(int range) const {
    const int64_t whole = num_tasks / num_ranges;
    const int64_t rest = num_tasks % num_ranges;
    return whole * range + (range < rest ? range : rest);
  }
};

// Waits for ready() for about as long as waking a thread takes; false if that was in vain. Yields
// between short spins, so that a thread that shares its CPU with another is not in its way.
template <typename Ready>
bool spin_until(Ready ready) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kSpinTime = std::chrono::microseconds(100);
  constexpr int kPauses = 64;
  if (ready()) return true;
  const auto end = Clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPauses; ++i) {
      cpu_relax();
      if (ready()) return true;
    }
    std::this_thread::yield();
  } while (Clock::now() < end);
  return ready();
}

class Pool {
 public:
  // Runs the loop on up to num_threads threads, this one included.
  void run(Loop* loop, int num_threads) {
    std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (!turn.owns_lock()) {
      loop->work();
      return;
    }
    const int seats = std::min(num_threads, kMaxThreads) - 1;
    ensure_helpers(seats);
    publish(loop, seats);
    loop->work();
    retire();
  }

 private:
  // Bits of state_: the seats for helpers that may still join the loop, those at work on it, and
  // whether the caller sleeps until the last of them leaves.
  static constexpr uint32_t kSeat = 1;
  static constexpr uint32_t kActive = 1u << 12;
  static constexpr uint32_t kCallerSleeps = 1u << 24;
  static_assert(kMaxThreads < kActive / kSeat && kMaxThreads < kCallerSleeps / kActive);

  static uint32_t num_seats(uint32_t state) { return state % kActive; }
  static uint32_t num_active(uint32_t state) { return state % kCallerSleeps / kActive; }

  // Creates missing helpers; where the system refuses, those there are do the work.
  void ensure_helpers(int wanted) {
    while (num_helpers_ < wanted) {
      try {
        std::thread([this] { help(); }).detach();
      } catch (const std::system_error&) {
        return;
      } catch (const std::bad_alloc&) {
        return;
      }
      ++num_helpers_;
    }
  }

  // Either the seats are seen by a helper about to sleep, or the sleeper is seen here.
  void publish(Loop* loop, int seats) {
    loop_ = loop;
    state_.store(static_cast<uint32_t>(seats) * kSeat);
    if (num_sleepers_.load() == 0) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
    }
    for (int i = 0; i < seats; ++i) wake_.notify_one();
  }

  // Lets nobody else in and waits for those inside.
  void retire() {
    state_.fetch_and(~(kActive - 1), std::memory_order_relaxed);
    const auto is_done = [this] { return num_active(state_.load()) == 0; };
    if (spin_until(is_done)) return;
    std::unique_lock<std::mutex> lock(mutex_);
    state_.fetch_or(kCallerSleeps);
    done_.wait(lock, is_done);
  }

  void help() {
    for (;;) {
      const auto has_seats = [this] { return num_seats(state_.load()) > 0; };
      if (!spin_until(has_seats)) {
        std::unique_lock<std::mutex> lock(mutex_);
        num_sleepers_.fetch_add(1);
        wake_.wait(lock, has_seats);
        num_sleepers_.fetch_sub(1);
      }
      if (!join()) continue;
      loop_->work();
      leave();
    }
  }

  // Takes a seat, unless the last one has gone.
  bool join() {
    uint32_t state = state_.load();
    while (num_seats(state) > 0) {
      if (state_.compare_exchange_weak(state, state - kSeat + kActive)) return true;
    }
    return false;
  }

  void leave() {
    if (state_.fetch_sub(kActive) != kCallerSleeps + kActive) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
    }
    done_.notify_one();
  }

  std::mutex turn_;  // held by the caller whose loop the pool runs
  int num_helpers_ = 0;

  Loop* loop_ = nullptr;  // for those who have a seat
  std::atomic<uint32_t> state_{0};
  std::atomic<int> num_sleepers_{0};
  std::mutex mutex_;  // held from a last look at state_ until asleep
  std::condition_variable wake_;
  std::condition_variable done_;
};

inline std::atomic<Pool*>& pool_slot() {
  static std::atomic<Pool*> slot{nullptr};
  return slot;
}

// The process's pool, made on first use; null when there is no memory for it.
inline Pool* pool() {
  Pool* current = pool_slot().load(std::memory_order_acquire);
  if (current != nullptr) return current;
  Pool* made = new (std::nothrow) Pool;
  if (made == nullptr) return nullptr;
  if (!pool_slot().compare_exchange_strong(current, made)) {
    delete made;
    return current;
  }
#ifdef HPTP_HAS_FORK
  static const int registered = pthread_atfork(
      nullptr, nullptr, [] { pool_slot().store(nullptr, std::memory_order_relaxed); });
  (void)registered;
#endif
  return made;
}

}  // namespace detail

// Calls body(first, last) for contiguous ranges that together cover [0, num_tasks), on up to
// num_threads threads. Returns when all of it is done. The body must not throw.
template <typename Body>
void parallel_for(int64_t num_tasks, int num_threads, Body body) {
  if (num_tasks <= 0) return;
  if (num_threads > num_tasks) num_threads = static_cast<int>(num_tasks);
  detail::Pool* pool = num_threads > 1 ? detail::pool() : nullptr;
  if (pool == nullptr) {
    body(int64_t{0}, num_tasks);
    return;
  }
  detail::Loop loop;
  loop.run = [](void* erased, int64_t first, int64_t last) {
    (*static_cast<Body*>(erased))(first, last);
  };
  loop.body = &body;
  loop.num_tasks = num_tasks;
  loop.num_ranges = num_threads;
  pool->run(&loop, num_threads);
}

}  // namespace hptp
