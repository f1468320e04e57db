// The cache sizes the plans are cut to: read from the machine once, with measured defaults.
#pragma once

#include <cstdint>
#include <cstdio>

#include "cpus.hpp"

namespace hptp {

struct CacheInfo {
  int64_t l2_bytes;
  int64_t last_level_bytes;
};

namespace detail {

// "512K" or "32M" in a file → bytes; 0 when it cannot be read.
inline int64_t read_size(const char* path) {
#if defined(__linux__)
  char line[64];
  long long value = 0;
  char unit = 'B';
  if (!read_line(path, line, sizeof line) || std::sscanf(line, "%lld%c", &value, &unit) < 1)
    return 0;
  return static_cast<int64_t>(value) << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
#else
  (void)path;
  return 0;
#endif
}

inline CacheInfo read_cache_info() {
  // sysfs, and not the C library's sysconf, which in a guest reports the host's shared cache.
  const int64_t l2 = read_size("/sys/devices/system/cpu/cpu0/cache/index2/size");
  const int64_t l3 = read_size("/sys/devices/system/cpu/cpu0/cache/index3/size");
  CacheInfo info{int64_t{512} << 10, int64_t{32} << 20};
  if (l2 > 0) info = {l2, l3 > 0 ? l3 : l2};
  return info;
}

}  // namespace detail

inline const CacheInfo& cache_info() {
  static const CacheInfo info = detail::read_cache_info();
  return info;
}

}  // namespace hptp
