// Number types named at run time, for callers that have no templates: every pair is compiled in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "convert_kernels.hpp"
#include "numbers.hpp"

namespace hptp {

// In the order of Numbers.
enum class DType : int { i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64 };

using Numbers = std::tuple<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                           float16, bfloat16, float, double>;
constexpr size_t kNumDTypes = std::tuple_size_v<Numbers>;

namespace detail {

using Conversions = std::array<Conversion, kNumDTypes>;

template <typename From, size_t... kTo>
constexpr Conversions conversions_from(std::index_sequence<kTo...>) {
  return {conversion<From, std::tuple_element_t<kTo, Numbers>>...};
}

template <size_t... kFrom>
constexpr std::array<Conversions, kNumDTypes> all_conversions(std::index_sequence<kFrom...> all) {
  return {conversions_from<std::tuple_element_t<kFrom, Numbers>>(all)...};
}

}  // namespace detail

inline const Conversion& conversion_of(DType from, DType to) {
  static constexpr auto kAll = detail::all_conversions(std::make_index_sequence<kNumDTypes>());
  return kAll[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

}  // namespace hptp
