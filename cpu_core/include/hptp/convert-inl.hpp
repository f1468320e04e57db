// The loops of conversion for the instruction set HPTP_ISA_NOW. Included by convert_kernels.hpp
// once per set.

namespace hptp {
#if HPTP_ISA_NOW == HPTP_ISA_SCALAR
namespace scalar {
#elif HPTP_ISA_NOW == HPTP_ISA_AVX2
namespace avx2 {
#endif

// dst[i] = convert_one(src[i], i) for all i below count.
template <typename From, typename To, typename ConvertOne>
HPTP_INLINE void for_each(const char* __restrict src, char* __restrict dst, int64_t count,
                          ConvertOne convert_one) {
  constexpr int64_t kFrom = sizeof(From);
  constexpr int64_t kTo = sizeof(To);
  for (int64_t i = 0; i < count; ++i) {
    detail::store<To>(dst + i * kTo, convert_one(detail::load<From>(src + i * kFrom), i));
  }
}

template <typename From, typename To>
HPTP_LOOP void convert_loop(const char* __restrict src, char* __restrict dst, int64_t count) {
  for_each<From, To>(src, dst, count, [](From value, int64_t) { return convert<To>(value); });
}

template <typename To>
HPTP_LOOP void round_loop(const char* __restrict src, char* __restrict dst, int64_t count) {
  for_each<float, To>(src, dst, count, [](float value, int64_t) { return round_to<To>(value); });
}

// The product and the sum are made by two functions, never inlined, with floats in memory between
// them: no compiler can contract the two into one operation, or keep more precision than a float's.
template <typename From>
HPTP_LOOP void scale_loop(const char* __restrict src, const float* __restrict factors,
                          bool one_factor, float* __restrict dst, int64_t count) {
  char* const to = reinterpret_cast<char*>(dst);
  if (one_factor) {
    const float factor = *factors;
    for_each<From, float>(src, to, count,
                          [=](From value, int64_t) { return convert<float>(value) * factor; });
  } else {
    for_each<From, float>(
        src, to, count, [=](From value, int64_t i) { return convert<float>(value) * factors[i]; });
  }
}

template <typename To>
HPTP_LOOP void shift_loop(const float* __restrict src, const float* __restrict terms, bool one_term,
                          char* __restrict dst, int64_t count) {
  const char* const from = reinterpret_cast<const char*>(src);
  if (one_term) {
    const float term = *terms;
    for_each<float, To>(from, dst, count, [=](float value, int64_t) {
      return round_to<To>(detail::as_float(value + term));
    });
  } else {
    for_each<float, To>(from, dst, count, [=](float value, int64_t i) {
      return round_to<To>(detail::as_float(value + terms[i]));
    });
  }
}

template <typename From, typename To>
detail::ConvertLoops convert_loops() {
  detail::ConvertLoops loops{};
  if constexpr (detail::is_vectorised<From, To>) {
    loops.convert = convert_loop<From, To>;
  } else {
    loops.convert = scalar::convert_loop<From, To>;
  }
  if constexpr (sizeof(From) < 8) {  // others are not scaled
    loops.to_float = convert_loop<From, float>;
    loops.scale = scale_loop<From>;
    loops.shift = shift_loop<To>;
    loops.round = round_loop<To>;
  }
  return loops;
}

}  // namespace
}  // namespace hptp
