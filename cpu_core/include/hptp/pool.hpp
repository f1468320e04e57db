// A persistent pool of threads that runs one loop at a time.
//
// parallel_for cuts the loop into one contiguous range per thread. The calling thread takes part,
// and ranges are claimed one by one, so a helper that is late, busy or could not be created costs
// time and never correctness. Helpers spin briefly for the next loop and then sleep. They are
// detached and the pool is never destroyed: sleeping threads hold up no exit. A caller that finds
// the pool at work for another thread (or for itself, nested) runs its loop alone, since the CPUs
// are taken. After fork() the child, which has no helpers, starts a new pool.
#pragma once

#include <atomic>
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

class Pool {
 public:
  // Runs the loop on up to num_threads threads, this one included.
  void run(Loop* loop, int num_threads) {
    std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (!turn.owns_lock()) {
      loop->work();
      return;
    }
    ensure_helpers(num_threads - 1);
    publish(loop, num_threads - 1);
    loop->work();
    retire();
  }

 private:
  static constexpr int kSpins = 2000;  // tens of microseconds: about what waking a thread costs

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

  void publish(Loop* loop, int seats) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      loop_ = loop;
      seats_ = seats;
      generation_.fetch_add(1, std::memory_order_release);
    }
    for (int i = 0; i < seats; ++i) wake_.notify_one();
  }

  // Lets nobody else in and waits for those inside.
  void retire() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      loop_ = nullptr;
      seats_ = 0;
    }
    for (int i = 0; i < kSpins && active_.load(std::memory_order_acquire) != 0; ++i) cpu_relax();
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return active_.load(std::memory_order_relaxed) == 0; });
  }

  void help() {
    uint64_t seen = 0;
    for (;;) {
      for (int i = 0; i < kSpins && generation_.load(std::memory_order_acquire) == seen; ++i) {
        cpu_relax();
      }
      Loop* loop = nullptr;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return generation_.load(std::memory_order_relaxed) != seen; });
        seen = generation_.load(std::memory_order_relaxed);
        if (seats_ == 0) continue;
        --seats_;
        loop = loop_;
        active_.fetch_add(1, std::memory_order_relaxed);
      }
      loop->work();
      leave();
    }
  }

  void leave() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (active_.fetch_sub(1, std::memory_order_release) == 1) done_.notify_one();
  }

  std::mutex turn_;  // held by the caller whose loop the pool runs
  int num_helpers_ = 0;

  std::mutex mutex_;  // guards what follows; the atomics are also read by spinning threads
  std::condition_variable wake_;
  std::condition_variable done_;
  Loop* loop_ = nullptr;
  int seats_ = 0;  // helpers that may still join loop_
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> active_{0};
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
