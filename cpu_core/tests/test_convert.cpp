// Every pair of types against conversions worked out in long double, then permutations of them.
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "check.hpp"
#include "hptp/convert.hpp"
#include "hptp/dtype.hpp"
#include "reference.hpp"
#include "wanted_isa.hpp"

using hptp::bfloat16;
using hptp::float16;
using hptp::Status;
using reference::Sizes;

namespace {

// ---- The oracle: long double holds every value of every type ------------------------------------

struct Format {
  int fraction_bits;
  int min_exponent;
  int max_exponent;
};

template <typename T>
constexpr Format format_of() {
  if constexpr (std::is_same_v<T, float16>) return {10, -14, 15};
  if constexpr (std::is_same_v<T, bfloat16>) return {7, -126, 127};
  if constexpr (std::is_same_v<T, float>) return {23, -126, 127};
  return {52, -1022, 1023};
}

template <typename T>
long double value_of(T number) {
  if constexpr (std::is_arithmetic_v<T>) {
    return number;
  } else {
    constexpr Format format = format_of<T>();
    const int exponent_mask = format.max_exponent * 2 + 1;
    const int exponent = number.bits >> format.fraction_bits & exponent_mask;
    const int fraction = number.bits & ((1 << format.fraction_bits) - 1);
    const long double sign = number.bits >> 15 != 0 ? -1 : 1;
    if (exponent == exponent_mask) {
      return fraction != 0 ? std::numeric_limits<long double>::quiet_NaN()
                           : sign * std::numeric_limits<long double>::infinity();
    }
    const int hidden = exponent != 0 ? 1 << format.fraction_bits : 0;
    const int power = (exponent != 0 ? exponent : 1) - format.max_exponent - format.fraction_bits;
    return sign * std::ldexp(static_cast<long double>(hidden + fraction), power);
  }
}

// To the nearest value of a floating-point type, ties to even; the default rounding mode.
template <typename T>
long double rounded_to(long double value) {
  constexpr Format format = format_of<T>();
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), format.min_exponent);
  const int quantum = exponent - format.fraction_bits;
  const long double rounded = std::ldexp(std::rint(std::ldexp(value, -quantum)), quantum);
  if (std::fabs(rounded) < std::ldexp(1.0L, format.max_exponent + 1)) return rounded;
  return std::copysign(std::numeric_limits<long double>::infinity(), value);
}

template <typename T>
long double saturated_to(long double value) {
  if (std::isnan(value)) return 0;
  if (value < value_of(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (value > value_of(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return value;
}

template <typename To>
void check_value(To actual, long double expected) {
  const long double value = value_of(actual);
  if (std::isnan(expected)) {
    CHECK(std::isnan(value));
  } else {
    CHECK(value == expected && std::signbit(value) == std::signbit(expected));
  }
}

template <typename From, typename To>
void check_conversion(From from) {
  const To to = hptp::convert<To>(from);
  const long double value = value_of(from);
  if constexpr (std::is_integral_v<To>) {
    check_value(to, std::trunc(saturated_to<To>(value)) + 0.0L);
  } else {
    check_value(to, rounded_to<To>(value));
  }
}

template <typename To>
void check_rounding(float value) {
  const To to = hptp::round_to<To>(value);
  if constexpr (std::is_integral_v<To>) {
    check_value(to, saturated_to<To>(std::rint(static_cast<long double>(value))) + 0.0L);
  } else {
    check_value(to, rounded_to<To>(value));
  }
}

// ---- Values that matter: the borders of every type, ties, and random bits -----------------------

template <typename T>
std::vector<T> interesting() {
  std::vector<T> values;
  std::mt19937_64 random(sizeof(T));
  if constexpr (!std::is_arithmetic_v<T>) {
    for (int bits = 0; bits < 65536; ++bits) values.push_back({static_cast<uint16_t>(bits)});
    return values;
  } else {
    for (int power = 0; power < 64; ++power) {
      for (long double around : {-2.0L, -1.5L, -1.0L, -0.5L, 0.0L, 0.5L, 1.0L, 1.5L, 2.0L}) {
        for (long double sign : {-1.0L, 1.0L}) {
          const long double value = sign * (std::ldexp(1.0L, power) + around);
          if (saturated_to<T>(value) == value || !std::is_integral_v<T>) {
            values.push_back(static_cast<T>(value));
          }
        }
      }
    }
    for (int i = 0; i < 4000; ++i) {
      T value;
      const uint64_t bits = random() >> (std::is_integral_v<T> ? random() % 64 : 0);
      std::memcpy(&value, &bits, sizeof value);
      values.push_back(value);
    }
    if constexpr (std::is_floating_point_v<T>) {
      for (int bits = 0; bits < 65536;
           bits += 7) {  // the 16-bit types' values and the ties between
        for (float exact : {hptp::detail::widen(float16{static_cast<uint16_t>(bits)}),
                            hptp::detail::widen(bfloat16{static_cast<uint16_t>(bits)})}) {
          const T value = static_cast<T>(exact);
          const T step = value / 4096;
          for (T v : {value, value + step, value - step, value + step * 2, value - step * 2}) {
            values.push_back(v);
            values.push_back(std::nextafter(v, T{0}));
            values.push_back(std::nextafter(v, std::numeric_limits<T>::infinity()));
          }
        }
      }
      for (T special :
           {T{0}, -T{0}, std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity(),
            std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::denorm_min()}) {
        values.push_back(special);
      }
    }
    return values;
  }
}

// x87 makes a signaling NaN quiet whenever it moves one.
template <typename T>
bool same_bits(T a, T b) {
  if (FLT_EVAL_METHOD != 0 && std::isnan(value_of(a)) && std::isnan(value_of(b))) return true;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// What a loop makes of values, against the function for one of them. The count is odd, and neither
// side aligned.
template <typename To, typename From, typename Loop, typename Expect>
void check_loop(const std::vector<From>& values, Loop loop, Expect expect) {
  std::vector<char> src(values.size() * sizeof(From) + 1);
  std::vector<char> dst(values.size() * sizeof(To) + 1);
  std::memcpy(src.data() + 1, values.data(), src.size() - 1);
  const size_t count = values.size() - 1 + values.size() % 2;
  loop(src.data() + 1, dst.data() + 1, static_cast<int64_t>(count));
  for (size_t i = 0; i < count; ++i) {
    CHECK(same_bits(hptp::detail::load<To>(dst.data() + 1 + i * sizeof(To)), expect(values[i], i)));
  }
}

std::vector<float> coefficients(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1000) / 333 - 1;
  return values;
}

// Rounded after the product, whatever a compiler is allowed.
template <typename From>
void check_scaling(const std::vector<From>& values, const hptp::detail::ConvertLoops& loops) {
  const std::vector<float> factors = coefficients(values.size());
  for (bool one : {true, false}) {
    check_loop<float>(
        values,
        [&](const char* src, char* dst, int64_t count) {
          std::vector<float> result(static_cast<size_t>(count));
          loops.scale(src, factors.data(), one, result.data(), count);
          std::memcpy(dst, result.data(), result.size() * sizeof(float));
        },
        [&](From value, size_t i) {
          const volatile float product = hptp::convert<float>(value) * factors[one ? 0 : i];
          return static_cast<float>(product);
        });
  }
}

template <typename To>
void check_shifting(const std::vector<float>& values, const hptp::detail::ConvertLoops& loops) {
  const std::vector<float> terms = coefficients(values.size());
  check_loop<To>(values, loops.round, [](float v, size_t) { return hptp::round_to<To>(v); });
  for (bool one : {true, false}) {
    check_loop<To>(
        values,
        [&](const char*, char* dst, int64_t count) {
          loops.shift(values.data(), terms.data(), one, dst, count);
        },
        [&](float value, size_t i) {
          const volatile float sum = value + terms[one ? 0 : i];
          return hptp::round_to<To>(sum);
        });
  }
}

// The loops of every instruction set this CPU has give the same bits.
template <typename From, typename To>
void check_loops(const std::vector<From>& values) {
  for (hptp::Isa isa : hptp::kAllIsas) {
    if (!hptp::is_available(isa)) continue;
    const hptp::detail::ConvertLoops loops = hptp::conversion<From, To>.loops(isa);
    check_loop<To>(values, loops.convert, [](From v, size_t) { return hptp::convert<To>(v); });
    if constexpr (std::is_same_v<To, float> && sizeof(From) < 8) check_scaling(values, loops);
    if constexpr (std::is_same_v<From, float>) check_shifting<To>(values, loops);
  }
}

template <typename From, typename To>
void check_pair() {
  static const std::vector<From> values = interesting<From>();
  for (From value : values) check_conversion<From, To>(value);
  check_loops<From, To>(values);
}

template <typename From, size_t... kTo>
void check_from(std::index_sequence<kTo...>) {
  (check_pair<From, std::tuple_element_t<kTo, hptp::Numbers>>(), ...);
}

template <size_t... kIndex>
void check_all_pairs(std::index_sequence<kIndex...> all) {
  (check_from<std::tuple_element_t<kIndex, hptp::Numbers>>(all), ...);
  for (float value : interesting<float>()) {
    (check_rounding<std::tuple_element_t<kIndex, hptp::Numbers>>(value), ...);
  }
}

// ---- Permutations -------------------------------------------------------------------------------

template <typename T>
std::vector<T> random_numbers(int64_t count, std::mt19937_64* random) {
  std::vector<T> numbers(static_cast<size_t>(count));
  for (T& number : numbers)
    number = hptp::convert<T>(static_cast<float>((*random)() % 2001) - 1000);
  return numbers;
}

struct Case {
  Sizes shape;
  Sizes perm;
  int64_t count;
};

Case random_case(std::mt19937_64* random) {
  const size_t ndim = (*random)() % 6;
  Case made{Sizes(ndim), Sizes(ndim), 1};
  const int64_t largest = ndim <= 2 ? 70 : ndim <= 4 ? 11 : 5;
  for (size_t i = 0; i < ndim; ++i) {
    made.shape[i] = 1 + static_cast<int64_t>((*random)() % static_cast<uint64_t>(largest));
    made.perm[i] = static_cast<int64_t>(i);
    made.count *= made.shape[i];
  }
  std::shuffle(made.perm.begin(), made.perm.end(), *random);
  return made;
}

// Walks the source in its own order; `index` is that of one axis, or 0.
template <typename From, typename Visit>
std::vector<From> mapped(const Case& c, const std::vector<From>& src, int axis, Visit visit) {
  const Sizes strides = reference::packed_strides(c.shape, 1);
  std::vector<From> result(src.size());
  for (size_t i = 0; i < src.size(); ++i) {
    const int64_t index = axis < 0 ? 0
                                   : static_cast<int64_t>(i) / strides[static_cast<size_t>(axis)] %
                                         c.shape[static_cast<size_t>(axis)];
    result[i] = visit(src[i], static_cast<size_t>(index));
  }
  return result;
}

template <typename To>
std::vector<To> permuted(const Case& c, const std::vector<To>& src) {
  std::vector<To> dst(src.size());
  const int64_t elem_bytes = sizeof(To);
  const Sizes shape = reference::permuted(c.shape, c.perm);
  reference::permute(reinterpret_cast<const unsigned char*>(src.data()),
                     reinterpret_cast<unsigned char*>(dst.data()), elem_bytes, shape,
                     reference::permuted(reference::packed_strides(c.shape, elem_bytes), c.perm),
                     reference::packed_strides(shape, elem_bytes));
  return dst;
}

template <typename From, typename To>
void check_permutation(const Case& c, std::mt19937_64* random) {
  const std::vector<From> src = random_numbers<From>(c.count, random);
  std::vector<To> expected(src.size());
  for (size_t i = 0; i < src.size(); ++i) expected[i] = hptp::convert<To>(src[i]);
  expected = permuted(c, expected);
  std::vector<To> actual(src.size());
  const int num_threads = static_cast<int>((*random)() % 3);
  CHECK(hptp::permute_convert(src.data(), actual.data(), static_cast<int>(c.shape.size()),
                              c.shape.data(), c.perm.data(), num_threads) == Status::ok);
  CHECK(std::memcmp(actual.data(), expected.data(), actual.size() * sizeof(To)) == 0);
}

template <typename From, typename To>
void check_affine(const Case& c, std::mt19937_64* random) {
  const int ndim = static_cast<int>(c.shape.size());
  const int axis = static_cast<int>((*random)() % static_cast<uint64_t>(ndim + 1)) - 1;
  const int64_t count = axis < 0 ? 1 : c.shape[static_cast<size_t>(axis)];
  std::vector<float> scale;
  std::vector<float> shift;
  for (int64_t i = 0; i < count; ++i) {
    scale.push_back(static_cast<float>((*random)() % 1000) / 999);
    shift.push_back(static_cast<float>((*random)() % 1000) / 77 - 6);
  }
  hptp::Affine affine;
  affine.axis = axis;
  const uint64_t given = (*random)() % 3;
  if (given != 1) affine.scale = scale.data();
  if (given != 0) affine.shift = shift.data();

  const std::vector<From> src = random_numbers<From>(c.count, random);
  std::vector<float> floats(src.size());
  for (size_t i = 0; i < src.size(); ++i) floats[i] = hptp::convert<float>(src[i]);
  floats = mapped(c, floats, axis, [&](float value, size_t index) {
    volatile float result = value;  // rounds after each step, whatever the compiler is allowed
    if (affine.scale != nullptr) result = result * scale[index];
    if (affine.shift != nullptr) result = result + shift[index];
    return static_cast<float>(result);
  });
  std::vector<To> expected(src.size());
  for (size_t i = 0; i < src.size(); ++i) expected[i] = hptp::round_to<To>(floats[i]);
  expected = permuted(c, expected);
  std::vector<To> actual(src.size());
  CHECK(hptp::permute_convert(src.data(), actual.data(), ndim, c.shape.data(), c.perm.data(), 0,
                              affine) == Status::ok);
  CHECK(std::memcmp(actual.data(), expected.data(), actual.size() * sizeof(To)) == 0);
}

void check_permutations() {
  std::mt19937_64 random(2024);
  for (int round = 0; round < 100; ++round) {
    const Case c = random_case(&random);
    check_permutation<uint8_t, float>(c, &random);
    check_permutation<float, bfloat16>(c, &random);
    check_permutation<double, int16_t>(c, &random);
    check_permutation<float16, uint64_t>(c, &random);
    check_permutation<int32_t, int32_t>(c, &random);
    check_affine<uint8_t, float>(c, &random);
    check_affine<float, int8_t>(c, &random);
    check_affine<int32_t, bfloat16>(c, &random);
    check_affine<bfloat16, double>(c, &random);
  }
}

// Images with one scale and shift per channel, larger than a slab, channels first and last.
void check_images() {
  std::mt19937_64 random(3);
  for (const Sizes& shape : {Sizes{2, 150, 151, 3}, Sizes{2, 3, 150, 151}, Sizes{3, 5, 7, 400}}) {
    for (const Sizes& perm : {Sizes{0, 3, 1, 2}, Sizes{0, 2, 3, 1}, Sizes{3, 2, 1, 0}}) {
      const Case c{shape, perm, shape[0] * shape[1] * shape[2] * shape[3]};
      for (int i = 0; i < 4; ++i) check_affine<uint8_t, float>(c, &random);
      check_permutation<float, bfloat16>(c, &random);
    }
  }
}

void check_strides() {
  // Every other element of a 5 x 12 array, rows upside down, into the columns of a 6 x 9 one.
  std::vector<int16_t> src(60);
  for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<int16_t>(i);
  std::vector<float> dst(54, -1);
  const Sizes shape{5, 6};
  const Sizes perm{1, 0};
  const Sizes src_strides{-24, 4};
  const Sizes dst_strides{36, 4};
  CHECK(hptp::permute_convert_strided(
            src.data() + 48, dst.data(), hptp::conversion_of(hptp::DType::i16, hptp::DType::f32), 2,
            shape.data(), perm.data(), src_strides.data(), dst_strides.data()) == Status::ok);
  for (size_t row = 0; row < 6; ++row) {
    for (size_t column = 0; column < 9; ++column) {
      CHECK(dst[row * 9 + column] ==
            (column < 5 ? static_cast<float>(48 - 12 * column + 2 * row) : -1));
    }
  }
}

void check_errors() {
  std::vector<int64_t> src(6, 1);
  std::vector<float> dst(6, 7);
  const std::vector<float> before = dst;
  const Sizes shape{2, 3};
  const Sizes perm{1, 0};
  const Sizes twice{1, 1};
  const float scale = 2;
  hptp::Affine affine;
  affine.scale = &scale;
  CHECK(hptp::permute_convert(src.data(), dst.data(), 2, shape.data(), perm.data(), 0, affine) ==
        Status::unsupported);
  CHECK(hptp::permute_convert(src.data(), dst.data(), 2, shape.data(), twice.data()) ==
        Status::not_a_permutation);
  CHECK(hptp::permute_convert(static_cast<const int64_t*>(nullptr), dst.data(), 2, shape.data(),
                              perm.data()) == Status::null_pointer);
  CHECK(hptp::permute_convert(reinterpret_cast<const int64_t*>(dst.data()), dst.data(), 2,
                              shape.data(), perm.data()) == Status::overlap);
  CHECK(dst == before);
}

}  // namespace

int main() {
  if (!runs_wanted_isa()) return kSkipped;
#ifndef HPTP_TINY_BLOCKS  // numbers know no blocks, and all pairs take long to compile
  check_all_pairs(std::make_index_sequence<hptp::kNumDTypes>());
#endif
  check_permutations();
  check_images();
  check_strides();
  check_errors();
  return 0;
}
