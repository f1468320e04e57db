// In-place transposes against the out-of-place oracle, and the refusal of everything else.
#include <random>
#include <vector>

#include "check.hpp"
#include "hptp/in_place.hpp"
#include "reference.hpp"
#include "wanted_isa.hpp"

using hptp::Status;
using reference::Sizes;

namespace {

constexpr size_t kMargin = 64;

// A result must equal the oracle's, the bytes around and between the elements included.
void check_in_place(size_t elem_size, const Sizes& shape, const Sizes& perm,
                    const Sizes& strides_bytes, int num_threads) {
  std::mt19937_64 random(elem_size * 1000 + shape.size());
  size_t extent_bytes = elem_size;
  for (size_t i = 0; i < shape.size(); ++i) {
    extent_bytes += static_cast<size_t>((shape[i] - 1) * strides_bytes[i]);
  }
  std::vector<unsigned char> data = reference::random_bytes(extent_bytes + 2 * kMargin, &random);
  std::vector<unsigned char> expected = data;
  reference::permute(data.data() + kMargin, expected.data() + kMargin,
                     static_cast<int64_t>(elem_size), shape,
                     reference::permuted(strides_bytes, perm), strides_bytes);
  CHECK(hptp::permute_in_place(data.data() + kMargin, elem_size, static_cast<int>(shape.size()),
                               shape.data(), perm.data(), strides_bytes.data(),
                               num_threads) == Status::ok);
  CHECK(data == expected);
}

void check_packed(size_t elem_size, const Sizes& shape, const Sizes& perm) {
  for (int num_threads : {1, 3}) {
    check_in_place(elem_size, shape, perm,
                   reference::packed_strides(shape, static_cast<int64_t>(elem_size)), num_threads);
  }
}

void test_squares() {
  for (size_t elem_size : {1, 2, 3, 4, 8, 12, 16, 64, 100, 130}) {
    for (int64_t size : {1, 2, 31, 32, 33, 65, 200}) check_packed(elem_size, {size, size}, {1, 0});
    check_packed(elem_size, {5, 33, 33}, {0, 2, 1});
    check_packed(elem_size, {33, 5, 33}, {2, 1, 0});
    check_packed(elem_size, {33, 33, 3}, {1, 0, 2});
    check_packed(elem_size, {3, 4, 3, 4}, {2, 3, 0, 1});
    check_packed(elem_size, {2, 40, 2, 40, 2}, {0, 3, 2, 1, 4});
    check_packed(elem_size, {4, 5}, {0, 1});
  }
}

// One less and one more than whole tiles and blocks of them.
void test_kernel_ends() {
  for (size_t elem_size : {1, 2, 4, 8, 16}) {
    const int64_t tile = hptp::detail::TileSwapper::tile_elems(static_cast<int64_t>(elem_size));
    for (int64_t whole : {int64_t{8}, int64_t{16}, int64_t{64}, tile, 2 * tile}) {
      for (int64_t size : {whole - 1, whole, whole + 1}) {
        check_packed(elem_size, {size, size}, {1, 0});
      }
    }
  }
}

void test_strided_squares() {
  check_in_place(4, {40, 40}, {1, 0}, {4 * 57, 4}, 2);
  check_in_place(2, {3, 40, 40}, {0, 2, 1}, {10000, 120, 3}, 2);
  check_in_place(4, {40, 40}, {1, 0}, {4, 4 * 57}, 2);  // Fortran's order
  check_in_place(8, {70, 70}, {1, 0}, {8 * 71, 8}, 1);
}

void test_refusals() {
  std::vector<unsigned char> data(3 * 3 * 3 * 4, 7);
  const std::vector<unsigned char> before = data;
  const Sizes cube{3, 3, 3};
  const Sizes cycle{1, 2, 0};
  CHECK(hptp::permute_in_place(data.data(), 4, 3, cube.data(), cycle.data()) ==
        Status::not_in_place);
  const Sizes oblong{3, 9};
  const Sizes swap{1, 0};
  CHECK(hptp::permute_in_place(data.data(), 4, 2, oblong.data(), swap.data()) ==
        Status::not_in_place);
  const Sizes square{3, 3};
  CHECK(hptp::permute_in_place(nullptr, 4, 2, square.data(), swap.data()) == Status::null_pointer);
  const Sizes twice{0, 0};
  CHECK(hptp::permute_in_place(data.data(), 4, 2, square.data(), twice.data()) ==
        Status::not_a_permutation);
  CHECK(data == before);
}

}  // namespace

int main() {
  if (!runs_wanted_isa()) return kSkipped;
  test_squares();
  test_kernel_ends();
  test_strided_squares();
  test_refusals();
  return 0;
}
