// The plans of recent calls, so that calling again costs a look-up.
//
// Bounded: kSets sets of kWays plans, the oldest of a set making room. Nobody ever waits: a set
// that another thread holds (or held when the process forked) is passed by, and the plan is made
// anew.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "execute.hpp"
#include "plan.hpp"

namespace hptp {

inline uint64_t hash(const Problem& problem) {
  uint64_t h = static_cast<uint64_t>(problem.elem_bytes);
  const auto mix = [&h](int64_t value) {
    h = (h ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  };
  for (int i = 0; i < problem.ndim; ++i) {
    mix(problem.axes[i].size);
    mix(problem.axes[i].src_stride_bytes);
    mix(problem.axes[i].dst_stride_bytes);
  }
  return h;
}

struct PlanCacheInfo {
  uint64_t hits;
  uint64_t misses;
  int size;
  int capacity;
};

class PlanCache {
 public:
  // The plan for a problem; num_threads has been resolved. Null when there is no memory for one.
  std::shared_ptr<const Plan> get(const Problem& problem, int num_threads) noexcept {
    Set& set = sets_[(hash(problem) + static_cast<uint64_t>(num_threads)) % kSets];
    if (auto plan = find(set, problem, num_threads)) {
      hits_.fetch_add(1, std::memory_order_relaxed);
      return plan;
    }
    misses_.fetch_add(1, std::memory_order_relaxed);
    std::shared_ptr<const Plan> plan;
    try {
      plan = std::make_shared<const Plan>(make_plan(problem, num_threads));
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    insert(set, {num_threads, plan});
    return plan;
  }

  PlanCacheInfo info() noexcept {
    PlanCacheInfo info{hits_, misses_, 0, kSets * kWays};
    for (Set& set : sets_) {
      std::unique_lock<std::mutex> lock(set.mutex, std::try_to_lock);
      if (!lock.owns_lock()) continue;
      for (const Entry& entry : set.entries) info.size += entry.plan != nullptr;
    }
    return info;
  }

 private:
  static constexpr int kSets = 64;
  static constexpr int kWays = 4;

  struct Entry {
    int num_threads = 0;  // as asked for: the plan may use fewer
    std::shared_ptr<const Plan> plan;
  };
  struct Set {
    std::mutex mutex;
    Entry entries[kWays];
    int oldest = 0;
  };

  static std::shared_ptr<const Plan> find(Set& set, const Problem& problem, int num_threads) {
    std::unique_lock<std::mutex> lock(set.mutex, std::try_to_lock);
    if (!lock.owns_lock()) return nullptr;
    for (const Entry& entry : set.entries) {
      if (entry.plan != nullptr && entry.num_threads == num_threads &&
          entry.plan->problem == problem) {
        return entry.plan;
      }
    }
    return nullptr;
  }

  static void insert(Set& set, Entry entry) {
    std::unique_lock<std::mutex> lock(set.mutex, std::try_to_lock);
    if (!lock.owns_lock()) return;
    std::swap(set.entries[set.oldest], entry);
    set.oldest = (set.oldest + 1) % kWays;
  }

  Set sets_[kSets];
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
};

// Never destroyed, because threads may still be calling at exit.
inline PlanCache& plan_cache() {
  alignas(PlanCache) static unsigned char storage[sizeof(PlanCache)];
  static PlanCache* const cache = new (storage) PlanCache;
  return *cache;
}

// Executes a problem that has been checked, through the cache.
inline Status execute_cached(const Problem& problem, const void* src, void* dst,
                             int num_threads) noexcept {
  num_threads = resolve_threads(num_threads, static_cast<uint64_t>(num_bytes(problem)));
  const std::shared_ptr<const Plan> plan = plan_cache().get(problem, num_threads);
  return plan != nullptr ? execute(*plan, src, dst) : Status::out_of_memory;
}

}  // namespace hptp
