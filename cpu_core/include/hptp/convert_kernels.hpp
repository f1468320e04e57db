// Conversions of runs of numbers: loops that compilers vectorise, for the baseline and for AVX2.
//
// convert-inl.hpp is included below once for each, as kernels-inl.hpp is by kernels.hpp. Its loops
// take adjacent numbers; what is further apart is gathered and scattered outside of them. AVX2's
// serve AVX-512 too, since conversions wait for memory, and are only those of the pairs that
// matter, from and to float32 and of one width, since every user compiles them.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "isa.hpp"
#include "kernels.hpp"
#include "numbers.hpp"

// A function of its own, with everything it calls inside: no vectors are made of loops over calls.
#if defined(_MSC_VER)
#define HPTP_LOOP __declspec(noinline)
#else
#define HPTP_LOOP __attribute__((noinline, flatten))
#endif

namespace hptp {

namespace detail {

// count adjacent numbers → as many. Neither side need be aligned; the two do not overlap.
using ConvertLoop = void (*)(const char* src, char* dst, int64_t count);

// Numbers · factors → float32. There is one factor for all, or one for each.
using ScaleLoop = void (*)(const char* src, const float* factors, bool one_factor, float* dst,
                           int64_t count);

// Floats + terms → numbers, integers to the nearest. Likewise.
using ShiftLoop = void (*)(const float* src, const float* terms, bool one_term, char* dst,
                           int64_t count);

// From one type to another: at once, or in two steps with arithmetic in between.
struct ConvertLoops {
  ConvertLoop convert;
  ConvertLoop to_float;
  ScaleLoop scale;
  ShiftLoop shift;
  ConvertLoop round;  // from float32
};

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

// The pairs AVX2 has a loop of its own for.
template <typename From, typename To>
constexpr bool is_vectorised =
    std::is_same_v<From, float> || std::is_same_v<To, float> || sizeof(From) == sizeof(To);

}  // namespace detail
}  // namespace hptp

HPTP_BEGIN_O3

#define HPTP_ISA_NOW HPTP_ISA_SCALAR
#include "convert-inl.hpp"
#undef HPTP_ISA_NOW

#if defined(HPTP_X86)

HPTP_BEGIN_TARGET("avx2")
#define HPTP_ISA_NOW HPTP_ISA_AVX2
#include "convert-inl.hpp"
#undef HPTP_ISA_NOW
HPTP_END_TARGET

#endif

HPTP_END_O3

namespace hptp {
namespace detail {

template <typename From, typename To>
ConvertLoops convert_loops(Isa isa) {
#if defined(HPTP_X86)
  if (isa == Isa::avx2 || isa == Isa::avx512) return avx2::convert_loops<From, To>();
#endif
  (void)isa;
  return scalar::convert_loops<From, To>();
}

}  // namespace detail

// How to convert one type to another: a value of this type stands for the pair.
struct Conversion {
  int64_t from_bytes;
  int64_t to_bytes;
  detail::ConvertLoops (*loops)(Isa);

  bool widens() const { return from_bytes < to_bytes; }
};

template <typename From, typename To>
constexpr Conversion conversion = {sizeof(From), sizeof(To), detail::convert_loops<From, To>};

}  // namespace hptp
