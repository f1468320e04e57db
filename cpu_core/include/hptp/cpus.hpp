// How many threads are worth using: what this process may run on, and what a copy can feed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace hptp {

constexpr uint64_t kBytesPerAutoThread = uint64_t{2} << 20;  // below, waking a thread costs more
constexpr uint64_t kMinBytesPerThread = uint64_t{64} << 10;
constexpr int kMaxAutoThreads = 16;  // memory is saturated by then
constexpr int kMaxThreads = 256;

namespace detail {

#if defined(__linux__)

// The first line of a small file as text, or false.
inline bool read_line(const char* path, char* line, int capacity) {
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return false;
  const bool ok = std::fgets(line, capacity, file) != nullptr;
  std::fclose(file);
  if (ok) line[std::strcspn(line, "\n")] = '\0';
  return ok;
}

inline int whole_cpus(double quota_us, double period_us) {
  if (quota_us <= 0 || period_us <= 0) return kMaxThreads;
  const double cpus = (quota_us + period_us - 1) / period_us;
  return cpus >= kMaxThreads ? kMaxThreads : std::max(1, static_cast<int>(cpus));
}

// cgroup v2: "cpu.max" holds "quota period" or "max period".
inline int quota_v2(const char* directory) {
  char path[4096 + 64];
  char line[64];
  std::snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", directory);
  double quota_us = 0;
  double period_us = 0;
  if (!read_line(path, line, sizeof line)) return kMaxThreads;
  if (std::sscanf(line, "%lf %lf", &quota_us, &period_us) != 2) return kMaxThreads;
  return whole_cpus(quota_us, period_us);
}

// cgroup v1: one file each; a quota of -1 means none.
inline int quota_v1(const char* directory) {
  char path[4096 + 64];
  char quota[32];
  char period[32];
  std::snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", directory);
  if (!read_line(path, quota, sizeof quota)) return kMaxThreads;
  std::snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", directory);
  if (!read_line(path, period, sizeof period)) return kMaxThreads;
  return whole_cpus(std::atof(quota), std::atof(period));
}

// The smallest quota of this process's cgroup and the groups around it. Inside a container the path
// in /proc/self/cgroup may be the host's; the walk up ends at the mount, which is the container's.
inline int cgroup_quota() {
  std::FILE* file = std::fopen("/proc/self/cgroup", "r");
  if (file == nullptr) return kMaxThreads;
  int cpus = kMaxThreads;
  char line[4096];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    line[std::strcspn(line, "\n")] = '\0';
    char* controllers = std::strchr(line, ':');
    if (controllers == nullptr) continue;
    char* directory = std::strchr(++controllers, ':');
    if (directory == nullptr) continue;
    *directory++ = '\0';
    const bool v2 = *controllers == '\0';
    if (!v2 && std::strstr(controllers, "cpu") == nullptr) continue;
    for (char* end = directory + std::strlen(directory); end != nullptr;
         end = std::strrchr(directory, '/')) {
      *end = '\0';
      cpus = std::min(cpus, v2 ? quota_v2(directory) : quota_v1(directory));
    }
  }
  std::fclose(file);
  return cpus;
}

inline int affinity_cpus() {
  // A fixed mask of 8192 CPUs, because the default one of 1024 fails on larger machines.
  unsigned long mask[8192 / (8 * sizeof(unsigned long))] = {};
  if (sched_getaffinity(0, sizeof mask, reinterpret_cast<cpu_set_t*>(mask)) != 0) {
    return kMaxThreads;
  }
  int cpus = 0;
  for (unsigned long word : mask) {
    for (; word != 0; word &= word - 1) ++cpus;
  }
  return cpus;
}

#else

inline int cgroup_quota() { return kMaxThreads; }
inline int affinity_cpus() {
  const unsigned cpus = std::thread::hardware_concurrency();
  return cpus == 0 ? 1 : static_cast<int>(cpus);
}

#endif

inline int env_num_threads() {
  const char* text = std::getenv("HPTP_NUM_THREADS");
  if (text == nullptr) return 0;
  return static_cast<int>(std::clamp(std::strtol(text, nullptr, 10), 0L, long{kMaxThreads}));
}

// The cap a user put on automatic thread counts; 0 when there is none.
inline std::atomic<int>& user_cap() {
  static std::atomic<int> cap{env_num_threads()};
  return cap;
}

}  // namespace detail

// The CPUs this process may use: its affinity now, and the cgroup quota it started with.
inline int usable_cpus() {
  static const int quota = detail::cgroup_quota();
  return std::clamp(std::min(detail::affinity_cpus(), quota), 1, kMaxThreads);
}

// Caps automatic thread counts for this process; n <= 0 restores the default (HPTP_NUM_THREADS, or
// the CPUs there are, 16 at most).
inline void set_num_threads(int n) {
  detail::user_cap() = n > 0 ? std::min(n, kMaxThreads) : detail::env_num_threads();
}

// One thread per 2 MiB, within the cap.
inline int auto_threads(uint64_t num_bytes) {
  const uint64_t wanted = num_bytes / kBytesPerAutoThread;
  if (wanted <= 1) return 1;
  const int user_cap = detail::user_cap();
  const int cap = user_cap > 0 ? user_cap : std::min(usable_cpus(), kMaxAutoThreads);
  return static_cast<int>(std::min(wanted, static_cast<uint64_t>(cap)));
}

// The threads for a call that asked for `requested` (<= 0: automatic): an upper bound, and never
// more than one per 64 KiB.
inline int resolve_threads(int requested, uint64_t num_bytes) {
  if (requested <= 0) return auto_threads(num_bytes);
  const uint64_t useful = std::max(num_bytes / kMinBytesPerThread, uint64_t{1});
  return static_cast<int>(
      std::min(useful, static_cast<uint64_t>(std::min(requested, kMaxThreads))));
}

}  // namespace hptp
