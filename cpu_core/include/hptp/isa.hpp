// The instruction sets kernels exist for, and the one in use.
//
// Every set this compiler can emit is compiled in and picked at run time, so one binary is fast on
// every CPU it starts on. HPTP_ISA forces a set by name; a set this CPU lacks is ignored.
#pragma once

#include <cstdlib>
#include <cstring>

// HPTP_X86: x86 kernels can be compiled here. HPTP_NEON: likewise for 64-bit Arm.
// HPTP_SCALAR_KERNELS leaves both out.
#if defined(HPTP_SCALAR_KERNELS)
#elif defined(__x86_64__) || defined(_M_X64)
#define HPTP_X86 1
#elif (defined(__aarch64__) || defined(_M_ARM64)) && !defined(__ARM_BIG_ENDIAN)
#define HPTP_NEON 1
#endif

#if defined(HPTP_X86) && defined(_MSC_VER)
#include <immintrin.h>
#include <intrin.h>
#endif

namespace hptp {

enum class Isa : int { scalar, sse4, avx2, avx512, neon };

constexpr Isa kAllIsas[] = {Isa::scalar, Isa::sse4, Isa::avx2, Isa::avx512, Isa::neon};

inline const char* to_string(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::sse4:
      return "x86-64-v2";
    case Isa::avx2:
      return "x86-64-v3";
    case Isa::avx512:
      return "x86-64-v4";
    case Isa::neon:
      return "neon";
  }
  return "unknown";
}

namespace detail {

#if defined(HPTP_X86) && defined(_MSC_VER)

// Compiled-for and supported by CPU and operating system (the bits of XCR0).
inline bool cpu_has(Isa isa) {
  int leaf1[4];
  int leaf7[4];
  __cpuid(leaf1, 1);
  __cpuidex(leaf7, 7, 0);
  const unsigned long long saved = (leaf1[2] >> 27 & 1) != 0 ? _xgetbv(0) : 0;
  if (isa == Isa::sse4) return (leaf1[2] >> 9 & 1) != 0 && (leaf1[2] >> 19 & 1) != 0;
  if (isa == Isa::avx2) return (leaf7[1] >> 5 & 1) != 0 && (saved & 0x06) == 0x06;
  return (leaf7[1] >> 16 & 1) != 0 && (leaf7[1] >> 30 & 1) != 0 && (saved & 0xE6) == 0xE6;
}

#elif defined(HPTP_X86)

inline bool cpu_has(Isa isa) {
  if (isa == Isa::sse4) return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1");
  if (isa == Isa::avx2) return __builtin_cpu_supports("avx2");
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}

#endif

}  // namespace detail

inline bool is_available(Isa isa) {
  if (isa == Isa::scalar) return true;
#if defined(HPTP_X86)
  return isa != Isa::neon && detail::cpu_has(isa);
#elif defined(HPTP_NEON)
  return isa == Isa::neon;
#else
  return false;
#endif
}

namespace detail {

inline Isa choose_isa() {
  const char* forced = std::getenv("HPTP_ISA");
  Isa best = Isa::scalar;
  for (Isa isa : kAllIsas) {
    if (!is_available(isa)) continue;
    if (forced != nullptr && std::strcmp(forced, to_string(isa)) == 0) return isa;
    best = isa;
  }
  return best;
}

}  // namespace detail

// The set in use: the best of this CPU, or the one HPTP_ISA names.
inline Isa active_isa() {
  static const Isa isa = detail::choose_isa();
  return isa;
}

inline const char* isa_name() { return to_string(active_isa()); }

}  // namespace hptp
