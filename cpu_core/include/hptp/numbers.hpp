// The numbers hptp converts between, and what converting one means.
//
// Values that fit stay exact. Integers saturate. Floating point to integer truncates toward zero
// and saturates, NaN becomes 0. Integer to floating point and narrowing floating point round once,
// to nearest even; overflow becomes infinity and NaN stays NaN.
//
// Everything is branch-free arithmetic on values or bits where the types allow, so that compilers
// vectorise loops over it and every instruction set yields the same bits.
#pragma once

#include <cfloat>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

// Compiled as at -O3: below that, GCC leaves branches in what follows, and makes no vectors of
// loops over it.
#if defined(__GNUC__) && !defined(__clang__)
#define HPTP_BEGIN_O3 _Pragma("GCC push_options") _Pragma("GCC optimize(\"O3\")")
#define HPTP_END_O3 _Pragma("GCC pop_options")
#else
#define HPTP_BEGIN_O3
#define HPTP_END_O3
#endif

HPTP_BEGIN_O3

namespace hptp {

struct float16 {
  uint16_t bits;
};

struct bfloat16 {
  uint16_t bits;
};

namespace detail {

template <typename To, typename From>
To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit_cast keeps the size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Either of two values, without a branch: compilers see branches through, and then turn no loop
// over them into vectors.
template <typename T>
T select(bool condition, T yes, T no) {
  using Bits = std::conditional_t<
      sizeof(T) == 1, uint8_t,
      std::conditional_t<sizeof(T) == 2, uint16_t,
                         std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
  const Bits mask = static_cast<Bits>(Bits{0} - Bits{condition});
  return bit_cast<T>(
      static_cast<Bits>((bit_cast<Bits>(yes) & mask) | (bit_cast<Bits>(no) & ~mask)));
}

// A float that was computed as one: where the compiler may keep more precision (x87), memory
// rounds.
inline float as_float(float value) {
#if FLT_EVAL_METHOD == 0
  return value;
#else
  volatile float stored = value;
  return stored;
#endif
}

// ---- To float or double, exactly
// ------------------------------------------------------------------

inline float widen(bfloat16 value) { return bit_cast<float>(uint32_t{value.bits} << 16); }

// The exponent and fraction, moved to float's place, are right up to the bias; subnormals are made
// normal by a float subtraction, which is exact.
inline float widen(float16 value) {
  constexpr uint32_t kExponent = 0x7C00u << 13;
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  uint32_t bits = uint32_t{value.bits & 0x7FFFu} << 13;
  const uint32_t exponent = bits & kExponent;
  bits += exponent == kExponent ? 2 * kRebias : kRebias;
  const float subnormal = bit_cast<float>(bits + (1u << 23)) - bit_cast<float>(113u << 23);
  bits = select(exponent == 0, bit_cast<uint32_t>(subnormal), bits);
  return bit_cast<float>(bits | sign);
}

inline float widen(float value) { return value; }
inline double widen(double value) { return value; }

// ---- From float or double, rounded once
// -----------------------------------------------------------

// The last step of these two is a shift: without one, GCC does part of the rest in 16 bits, and
// takes twice the time.
inline bfloat16 to_bfloat16(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7FFFu + (bits >> 16 & 1u);
  const uint32_t quiet_nan = bits | 0x0040u << 16;
  return {static_cast<uint16_t>(select(value != value, quiet_nan, rounded) >> 16)};
}

// Below float16's normal range, adding a half makes the float unit round at the right bit; within
// it the bits are rebiased and rounded as an integer. What is chosen from has 13 bits to drop.
inline float16 to_float16(float value) {
  constexpr uint32_t kInfinity = 255u << 23;
  constexpr uint32_t kOverflow = (127u + 16u) << 23;   // 2^16
  constexpr uint32_t kMinNormal = (127u - 14u) << 23;  // 2^-14
  const uint32_t bits = bit_cast<uint32_t>(value);
  const uint32_t size = bits & 0x7FFFFFFFu;
  const uint32_t special = select(size > kInfinity, 0x7E00u << 13, 0x7C00u << 13);
  const uint32_t half = bit_cast<uint32_t>(0.5f);
  const uint32_t subnormal = (bit_cast<uint32_t>(as_float(bit_cast<float>(size) + 0.5f)) - half)
                             << 13;
  const uint32_t normal = size - ((127u - 15u) << 23) + 0x0FFFu + (size >> 13 & 1u);
  const uint32_t finite = select(size < kMinNormal, subnormal, normal);
  const uint32_t chosen = select(size >= kOverflow, special, finite);
  return {static_cast<uint16_t>((chosen | (bits >> 31) << 28) >> 13)};
}

// A float that a second rounding, to a narrower type, takes where one rounding would: inexact
// results have an odd last bit ("round to odd"), so they are never mistaken for a tie.
inline float to_odd_float(double value) {
  const float nearest = as_float(static_cast<float>(value));
  const uint32_t bits = bit_cast<uint32_t>(nearest);
  const double back = static_cast<double>(nearest);
  const bool is_exact_or_odd = back == value || value != value || (bits & 1u) != 0;
  const bool too_large = (back < 0 ? -back : back) > (value < 0 ? -value : value);
  return bit_cast<float>(is_exact_or_odd ? bits : too_large ? bits - 1 : bits + 1);
}

// The same idea for integers that a double may not hold: the bits below its precision become one.
inline double to_odd_double(uint64_t value) {
  constexpr uint64_t kBelow = 0x7FF;
  const uint64_t sticky = (value & ~kBelow) | ((value & kBelow) != 0 ? kBelow + 1 : 0);
  return static_cast<double>(value >> 53 != 0 ? sticky : value);
}
inline double to_odd_double(int64_t value) {
  const double size = to_odd_double(value < 0 ? uint64_t{0} - static_cast<uint64_t>(value)
                                              : static_cast<uint64_t>(value));
  return value < 0 ? -size : size;
}

// Truncates and saturates. The bounds are powers of two or 0 and therefore exact. What becomes an
// integer of a size that vectors convert is converted in any case, and is 0 where it does not fit.
template <typename Integer, typename Float>
Integer truncate(Float value) {
  constexpr Integer kMin = std::numeric_limits<Integer>::min();
  constexpr Integer kMax = std::numeric_limits<Integer>::max();
  constexpr Float kBelow = static_cast<Float>(kMin);
  constexpr Float kAbove = static_cast<Float>(kMax / 2 + 1) * 2;
  if constexpr (sizeof(Integer) == 8) {
    if (!(value >= kBelow)) return value != value ? Integer{0} : kMin;
    return value >= kAbove ? kMax : static_cast<Integer>(value);
  }
  const bool above = value >= kAbove;
  const bool fits = !above & (value >= kBelow);
  const Integer truncated = static_cast<Integer>(select(fits, value, Float{0}));
  const Integer limit = select(above, kMax, select(value < kBelow, kMin, Integer{0}));
  return select(fits, truncated, limit);
}

template <typename To, typename From>
To saturate(From value) {
  using ToLimits = std::numeric_limits<To>;
  using FromLimits = std::numeric_limits<From>;
  if constexpr (std::is_signed_v<From> && !std::is_signed_v<To>) {
    if (value < 0) return 0;
  } else if constexpr (std::is_signed_v<From> && FromLimits::digits > ToLimits::digits) {
    if (value < static_cast<From>(ToLimits::min())) return ToLimits::min();
  }
  if constexpr (FromLimits::digits > ToLimits::digits) {
    if (value > static_cast<From>(ToLimits::max())) return ToLimits::max();
  }
  return static_cast<To>(value);
}

template <typename T>
constexpr bool is_small_float = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

template <typename To>
To from_float(float value) {
  if constexpr (std::is_same_v<To, float16>) {
    return to_float16(value);
  } else if constexpr (std::is_same_v<To, bfloat16>) {
    return to_bfloat16(value);
  } else if constexpr (std::is_floating_point_v<To>) {
    return value;
  } else {
    return truncate<To>(value);
  }
}

}  // namespace detail

template <typename To, typename From>
To convert(From value) {
  using namespace detail;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_integral_v<From>) {
    if constexpr (std::is_integral_v<To>) {
      return saturate<To>(value);
    } else if constexpr (!is_small_float<To>) {
      return static_cast<To>(value);
    } else if constexpr (sizeof(From) <= 2) {
      return from_float<To>(static_cast<float>(value));
    } else {
      using Wide = std::conditional_t<std::is_signed_v<From>, int64_t, uint64_t>;
      return from_float<To>(to_odd_float(to_odd_double(static_cast<Wide>(value))));
    }
  } else if constexpr (!std::is_same_v<From, double>) {
    return from_float<To>(widen(value));
  } else if constexpr (is_small_float<To>) {
    return from_float<To>(to_odd_float(value));
  } else if constexpr (std::is_integral_v<To>) {
    return truncate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

// A float → the target of a scaled conversion: integers take the nearest, ties to even.
template <typename To>
To round_to(float value) {
  using namespace detail;
  if constexpr (std::is_integral_v<To>) {
    // From 2^23 on every float is an integer; below, adding that makes the float unit round.
    constexpr float kInteger = 8388608.0f;
    const uint32_t sign = bit_cast<uint32_t>(value) & 0x80000000u;
    const float size = bit_cast<float>(bit_cast<uint32_t>(value) ^ sign);
    const float nearest = as_float(size + kInteger) - kInteger;
    const float rounded = bit_cast<float>(bit_cast<uint32_t>(nearest) | sign);
    return truncate<To>(select(size < kInteger, rounded, value));
  } else {
    return from_float<To>(value);
  }
}

}  // namespace hptp

HPTP_END_O3
