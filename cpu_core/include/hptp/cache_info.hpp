// The size of the last cache level, which plans ask for: read from the machine once.
#pragma once

#include <cstdint>
#include <cstdio>

#include "cpus.hpp"

namespace hptp {

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

inline int64_t read_last_level_bytes() {
  // sysfs, and not the C library's sysconf, which in a guest reports the host's shared cache.
  const int64_t l3 = read_size("/sys/devices/system/cpu/cpu0/cache/index3/size");
  if (l3 > 0) return l3;
  const int64_t l2 = read_size("/sys/devices/system/cpu/cpu0/cache/index2/size");
  return l2 > 0 ? l2 : int64_t{32} << 20;
}

}  // namespace detail

inline int64_t last_level_bytes() {
  static const int64_t bytes = detail::read_last_level_bytes();
  return bytes;
}

}  // namespace hptp
