// Every path of the engine against the oracle: 1,500 random permutations of up to 8 axes, strided
// on both sides, sizes around the ends of kernels, each between canaries and on 1, 4 or 7 threads.
//
// Built three times: as is, with tiny blocks so that small tensors take every path, and with the
// word-level kernels off (see CMakeLists.txt).
#include <algorithm>
#include <cstdint>
#include <string>

#include "check.hpp"
#include "hptp.hpp"
#include "reference.hpp"

namespace {

using reference::Sizes;

constexpr unsigned char kCanary = 0xA5;
constexpr size_t kMargin = 96;

// One side of a call: memory with room around the elements, and where element 0 is.
struct Side {
  std::vector<unsigned char> memory;
  Sizes strides_bytes;
  int64_t origin;
};

// Strides for a shape: packed, or with gaps and reversed axes.
Side make_side(const Sizes& shape, int64_t elem_bytes, bool strided, std::mt19937_64* random) {
  Side side;
  side.strides_bytes.resize(shape.size());
  int64_t stride_bytes = elem_bytes;
  int64_t first = 0;
  for (size_t i = shape.size(); i-- > 0;) {
    if (strided && (*random)() % 3 == 0) stride_bytes += static_cast<int64_t>((*random)() % 20);
    const bool reversed = strided && (*random)() % 4 == 0;
    side.strides_bytes[i] = reversed ? -stride_bytes : stride_bytes;
    if (reversed) first += (shape[i] - 1) * stride_bytes;
    stride_bytes *= shape[i];
  }
  const size_t shift = (*random)() % 33;  // any alignment
  side.origin = static_cast<int64_t>(kMargin + shift) + first;
  side.memory.assign(static_cast<size_t>(stride_bytes) + shift + 2 * kMargin, kCanary);
  return side;
}

struct Call {
  int64_t elem_bytes;
  Sizes shape;
  Sizes perm;
  bool strided_src;
  bool strided_dst;
  int num_threads;
};

std::string text(const Call& call) {
  std::string text = std::to_string(call.elem_bytes) + "-byte elements, shape";
  for (int64_t size : call.shape) text += " " + std::to_string(size);
  text += ", perm";
  for (int64_t axis : call.perm) text += " " + std::to_string(axis);
  text += call.strided_src ? ", strided source" : "";
  text += call.strided_dst ? ", strided destination" : "";
  return text + ", threads " + std::to_string(call.num_threads);
}

void check_call(const Call& call, std::mt19937_64* random) {
  const Sizes dst_shape = reference::permuted(call.shape, call.perm);
  Side src = make_side(call.shape, call.elem_bytes, call.strided_src, random);
  Side dst = make_side(dst_shape, call.elem_bytes, call.strided_dst, random);
  src.memory = reference::random_bytes(src.memory.size(), random);
  std::vector<unsigned char> expected = dst.memory;
  reference::permute(src.memory.data() + src.origin, expected.data() + dst.origin, call.elem_bytes,
                     dst_shape, reference::permuted(src.strides_bytes, call.perm),
                     dst.strides_bytes);
  const hptp::Status status = hptp::permute_strided(
      src.memory.data() + src.origin, dst.memory.data() + dst.origin,
      static_cast<size_t>(call.elem_bytes), static_cast<int>(call.shape.size()), call.shape.data(),
      call.perm.data(), call.strided_src ? src.strides_bytes.data() : nullptr,
      call.strided_dst ? dst.strides_bytes.data() : nullptr, call.num_threads);
  if (status != hptp::Status::ok || dst.memory != expected) {
    std::fprintf(stderr, "wrong (%s): %s\n", hptp::to_string(status), text(call).c_str());
    std::abort();
  }
}

Call random_call(std::mt19937_64* random) {
  static constexpr int64_t kElemBytes[] = {1, 1, 2, 2, 4, 4, 8, 8, 16, 3, 5, 6, 7, 12, 24, 33, 64};
  static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 130};
  static constexpr int kThreads[] = {1, 4, 7};
  Call call;
  call.elem_bytes = kElemBytes[(*random)() % std::size(kElemBytes)];
  const size_t ndim = (*random)() % 9;
  // Most calls are small; every eighth is large enough for several threads.
  int64_t room = ((*random)() % 8 == 0 ? 1 << 20 : 1 << 14) / call.elem_bytes;  // elements
  for (size_t i = 0; i < ndim; ++i) {
    const int64_t size = std::min(kSizes[(*random)() % std::size(kSizes)], room);
    call.shape.push_back(size);
    call.perm.push_back(static_cast<int64_t>(i));
    room /= size;
  }
  std::shuffle(call.perm.begin(), call.perm.end(), *random);
  std::shuffle(call.shape.begin(), call.shape.end(), *random);
  call.strided_src = (*random)() % 3 == 0;
  call.strided_dst = (*random)() % 3 == 0;
  call.num_threads = kThreads[(*random)() % std::size(kThreads)];
  return call;
}

// N - 1, N and N + 1 around the sides of register tiles and blocks.
void check_kernel_ends(std::mt19937_64* random) {
  static constexpr int64_t kSides[] = {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 129};
  for (int64_t elem_bytes : {1, 2, 4, 8, 16, 3, 6, 12}) {
    for (int64_t rows : kSides) {
      for (int64_t columns : kSides) {
        check_call({elem_bytes, {rows, columns}, {1, 0}, false, false, 1}, random);
      }
    }
  }
}

void check_interleaved_channels(std::mt19937_64* random) {
  for (int64_t elem_bytes : {1, 2, 4}) {
    for (int64_t channels : {2, 3, 4, 5}) {
      for (int64_t pixels : {1, 15, 16, 17, 31, 63, 64, 65, 200}) {
        check_call({elem_bytes, {2, channels, pixels}, {0, 2, 1}, false, false, 1}, random);
        check_call({elem_bytes, {2, pixels, channels}, {0, 2, 1}, false, false, 1}, random);
      }
    }
  }
}

void check_errors() {
  const int64_t shape[] = {2, 3};
  const int64_t negative[] = {2, -3};
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  const int64_t perm[] = {1, 0};
  const int64_t repeated[] = {0, 0};
  unsigned char src[6] = {1, 2, 3, 4, 5, 6};
  unsigned char dst[6] = {9, 9, 9, 9, 9, 9};
  CHECK(hptp::permute(src, dst, 1, 2, shape, repeated) == hptp::Status::not_a_permutation);
  CHECK(hptp::permute(src, dst, 1, 2, negative, perm) == hptp::Status::negative_size);
  CHECK(hptp::permute(src, dst, 1, 2, huge, perm) == hptp::Status::size_overflow);
  CHECK(hptp::permute(src, dst, 1, 65, shape, perm) == hptp::Status::bad_ndim);
  CHECK(hptp::permute(src, dst, 1, -1, shape, perm) == hptp::Status::bad_ndim);
  CHECK(hptp::permute(src, dst, 1, 2, nullptr, perm) == hptp::Status::null_pointer);
  CHECK(hptp::permute(nullptr, dst, 1, 2, shape, perm) == hptp::Status::null_pointer);
  CHECK(hptp::permute(src, src, 1, 2, shape, perm) == hptp::Status::overlap);
  CHECK(hptp::permute(src, src + 5, 1, 2, shape, perm) == hptp::Status::overlap);
  CHECK(hptp::permute(src, dst, 1, {2, 3}, {0}) == hptp::Status::not_a_permutation);
  for (unsigned char byte : dst) CHECK(byte == 9);
  CHECK(hptp::permute(src, dst, 1, {2, 3}, {1, 0}) == hptp::Status::ok);
  CHECK(dst[0] == 1 && dst[1] == 4 && dst[2] == 2 && dst[5] == 6);
}

// Blocks of one array, side by side in memory, may be permuted into each other.
void check_disjoint_blocks() {
  std::vector<unsigned char> array(64 * 128);
  for (size_t i = 0; i < array.size(); ++i) array[i] = static_cast<unsigned char>(i * 7);
  const std::vector<unsigned char> before = array;
  const int64_t shape[] = {64, 64};
  const int64_t perm[] = {1, 0};
  const int64_t strides_bytes[] = {128, 1};
  CHECK(hptp::permute_strided(array.data(), array.data() + 64, 1, 2, shape, perm, strides_bytes,
                              strides_bytes) == hptp::Status::ok);
  for (size_t i = 0; i < 64; ++i) {
    for (size_t j = 0; j < 64; ++j) CHECK(array[i * 128 + 64 + j] == before[j * 128 + i]);
  }
}

// Large problems, of which only the plans are made: what a thread needs does not grow with them.
void check_scratch() {
  const std::vector<Sizes> shapes = {
      {16384, 16384}, {16383, 16385}, {1 << 20, 300}, {1000, 100003}};
  for (hptp::Isa isa : hptp::kAllIsas) {
    if (!hptp::is_available(isa)) continue;
    for (int64_t elem_bytes = 1; elem_bytes <= 330; elem_bytes += elem_bytes < 24 ? 1 : 17) {
      for (const Sizes& shape : shapes) {
        if (shape[0] * shape[1] * elem_bytes > PTRDIFF_MAX) continue;  // of 32 bits, on some
        const Sizes perm = {1, 0};
        hptp::Problem problem;
        CHECK(hptp::make_problem(static_cast<uint64_t>(elem_bytes), 2, shape.data(), perm.data(),
                                 nullptr, nullptr, &problem) == hptp::Status::ok);
        const hptp::Plan plan = hptp::make_plan(problem, 1, isa);
        if (plan.method != hptp::Method::tiles) continue;
        CHECK(hptp::detail::buffer_bytes(plan) <= 1 << 20);
      }
    }
  }
}

}  // namespace

int main() {
  std::mt19937_64 random(20240229);
  check_errors();
  check_scratch();
  check_disjoint_blocks();
  check_kernel_ends(&random);
  check_interleaved_channels(&random);
  for (int i = 0; i < 1500; ++i) check_call(random_call(&random), &random);
}
