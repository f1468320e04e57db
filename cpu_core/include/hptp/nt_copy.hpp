// Two copies of plain memory on the thread pool. copy_non_temporal is the yardstick of every
// result: it reads each byte once and writes full lines past the caches, so nothing that moves the
// same bytes through memory can be expected to be faster. copy_cached is the C library's memcpy, in
// the same shares.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "pool.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace hptp {
namespace detail {

constexpr int64_t kCopyLineBytes = 64;
constexpr int64_t kCopyPageBytes = 4096;

// Copies on this thread with non-temporal stores, where the instruction set has them.
inline void copy_non_temporal_range(const char* src, char* dst, int64_t num_bytes) {
#if defined(__SSE2__)
  const int64_t misaligned =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(dst) % kCopyLineBytes);
  int64_t done = std::min((kCopyLineBytes - misaligned) % kCopyLineBytes, num_bytes);
  std::memcpy(dst, src, static_cast<size_t>(done));
  while (num_bytes - done >= kCopyLineBytes) {
    // The next page is on its way while this one is written: memory is read in long bursts.
    const int64_t end =
        done + std::min(kCopyPageBytes, (num_bytes - done) / kCopyLineBytes * kCopyLineBytes);
    for (int64_t i = end; i < std::min(end + kCopyPageBytes, num_bytes); i += kCopyLineBytes) {
      _mm_prefetch(src + i, _MM_HINT_T0);
    }
    for (; done < end; done += kCopyLineBytes) {
      const auto* from = reinterpret_cast<const __m128i*>(src + done);
      auto* to = reinterpret_cast<__m128i*>(dst + done);
      const __m128i a = _mm_loadu_si128(from);
      const __m128i b = _mm_loadu_si128(from + 1);
      const __m128i c = _mm_loadu_si128(from + 2);
      const __m128i d = _mm_loadu_si128(from + 3);
      _mm_stream_si128(to, a);
      _mm_stream_si128(to + 1, b);
      _mm_stream_si128(to + 2, c);
      _mm_stream_si128(to + 3, d);
    }
  }
  std::memcpy(dst + done, src + done, static_cast<size_t>(num_bytes - done));
  _mm_sfence();
#else
  std::memcpy(dst, src, static_cast<size_t>(num_bytes));
#endif
}

// Gives each thread one contiguous share of whole pages and calls copy(src, dst, num_bytes) for it.
template <typename Copy>
void copy_in_shares(const void* src, void* dst, int64_t num_bytes, int num_threads, Copy copy) {
  const int64_t num_pages = (num_bytes + kCopyPageBytes - 1) / kCopyPageBytes;
  parallel_for(num_pages, std::max(num_threads, 1), [=](int64_t first, int64_t last) {
    const int64_t start = first * kCopyPageBytes;
    const int64_t end = std::min(last * kCopyPageBytes, num_bytes);
    copy(static_cast<const char*>(src) + start, static_cast<char*>(dst) + start, end - start);
  });
}

}  // namespace detail

// src and dst must not overlap.
inline void copy_non_temporal(const void* src, void* dst, int64_t num_bytes, int num_threads) {
  detail::copy_in_shares(src, dst, num_bytes, num_threads, detail::copy_non_temporal_range);
}

// src and dst must not overlap.
inline void copy_cached(const void* src, void* dst, int64_t num_bytes, int num_threads) {
  detail::copy_in_shares(src, dst, num_bytes, num_threads,
                         [](const char* from, char* to, int64_t share_bytes) {
                           std::memcpy(to, from, static_cast<size_t>(share_bytes));
                         });
}

}  // namespace hptp
