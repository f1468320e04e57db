// Conversions of runs of numbers: loops that compilers vectorise.
#pragma once

#include <cstdint>
#include <cstring>

#include "numbers.hpp"

namespace hptp {

namespace detail {

// count numbers, src_stride_bytes apart → as many, dst_stride_bytes apart. Neither side need be
// aligned.
using ConvertRun = void (*)(const char* src, int64_t src_stride_bytes, char* dst,
                            int64_t dst_stride_bytes, int64_t count);

// count floats → numbers, integers to the nearest.
using RoundRun = void (*)(const float* src, char* dst, int64_t dst_stride_bytes, int64_t count);

template <typename T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store(char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <typename From, typename To>
void convert_run(const char* src, int64_t src_stride_bytes, char* dst, int64_t dst_stride_bytes,
                 int64_t count) {
  constexpr int64_t kFrom = sizeof(From);
  constexpr int64_t kTo = sizeof(To);
  if (src_stride_bytes == kFrom && dst_stride_bytes == kTo) {  // apart, because it is vectorised
    for (int64_t i = 0; i < count; ++i) {
      store(dst + i * kTo, convert<To>(load<From>(src + i * kFrom)));
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    store(dst + i * dst_stride_bytes, convert<To>(load<From>(src + i * src_stride_bytes)));
  }
}

template <typename To>
void round_run(const float* src, char* dst, int64_t dst_stride_bytes, int64_t count) {
  constexpr int64_t kTo = sizeof(To);
  if (dst_stride_bytes == kTo) {
    for (int64_t i = 0; i < count; ++i) store(dst + i * kTo, round_to<To>(src[i]));
    return;
  }
  for (int64_t i = 0; i < count; ++i) store(dst + i * dst_stride_bytes, round_to<To>(src[i]));
}

// Separate functions, never inlined, so that each result is rounded to a float in memory: no
// compiler can contract the two into one operation, or keep more precision between them.
#if defined(_MSC_VER)
#define HPTP_NOINLINE __declspec(noinline)
#else
#define HPTP_NOINLINE __attribute__((noinline))
#endif

HPTP_NOINLINE inline void multiply_run(float* values, const float* factors, bool one_factor,
                                       int64_t count) {
  if (one_factor) {
    const float factor = *factors;
    for (int64_t i = 0; i < count; ++i) values[i] *= factor;
  } else {
    for (int64_t i = 0; i < count; ++i) values[i] *= factors[i];
  }
}
HPTP_NOINLINE inline void add_run(float* values, const float* terms, bool one_term, int64_t count) {
  if (one_term) {
    const float term = *terms;
    for (int64_t i = 0; i < count; ++i) values[i] += term;
  } else {
    for (int64_t i = 0; i < count; ++i) values[i] += terms[i];
  }
}

}  // namespace detail

// How to convert one type to another: a value of this type stands for the pair.
struct Conversion {
  int64_t from_bytes;
  int64_t to_bytes;
  detail::ConvertRun convert;
  detail::ConvertRun to_float;  // for scaled conversions: to float32, and, after the arithmetic,
  detail::RoundRun from_float;  // from it
};

template <typename From, typename To>
constexpr Conversion conversion = {sizeof(From), sizeof(To), detail::convert_run<From, To>,
                                   detail::convert_run<From, float>, detail::round_run<To>};

}  // namespace hptp
