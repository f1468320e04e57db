// Conversions of runs of numbers: loops that compilers vectorise.
#pragma once

#include <cstdint>
#include <cstring>

#include "numbers.hpp"

namespace hptp {

namespace detail {

// count numbers, src_stride_bytes apart → count packed ones. Neither side need be aligned.
using ConvertRun = void (*)(const char* src, int64_t src_stride_bytes, char* dst, int64_t count);

// count floats → packed numbers, integers to the nearest.
using RoundRun = void (*)(const float* src, char* dst, int64_t count);

template <typename From, typename To>
void convert_one(const char* src, char* dst) {
  From value;
  std::memcpy(&value, src, sizeof value);
  const To converted = convert<To>(value);
  std::memcpy(dst, &converted, sizeof converted);
}

template <typename From, typename To>
void convert_run(const char* src, int64_t src_stride_bytes, char* dst, int64_t count) {
  constexpr int64_t kFrom = sizeof(From);
  constexpr int64_t kTo = sizeof(To);
  if (src_stride_bytes == kFrom) {  // a loop of its own, because this one is vectorised
    for (int64_t i = 0; i < count; ++i) convert_one<From, To>(src + i * kFrom, dst + i * kTo);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      convert_one<From, To>(src + i * src_stride_bytes, dst + i * kTo);
    }
  }
}

template <typename To>
void round_run(const float* src, char* dst, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const To rounded = round_to<To>(src[i]);
    std::memcpy(dst + i * static_cast<int64_t>(sizeof(To)), &rounded, sizeof rounded);
  }
}

// Multiplication and addition go through memory between them: no compiler may contract them.
inline void multiply_run(float* values, const float* factors, bool one_factor, int64_t count) {
  if (one_factor) {
    for (int64_t i = 0; i < count; ++i) values[i] *= *factors;
  } else {
    for (int64_t i = 0; i < count; ++i) values[i] *= factors[i];
  }
}
inline void add_run(float* values, const float* terms, bool one_term, int64_t count) {
  if (one_term) {
    for (int64_t i = 0; i < count; ++i) values[i] += *terms;
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
