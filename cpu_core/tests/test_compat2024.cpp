// The 2024 interface: results, the shape it reports, and its errors.
#include <cstdint>
#include <vector>

#include "check.hpp"
#include "hptp/compat2024.hpp"

namespace {

// Element (i, j, k) of a 2 x 3 x 4 array is 12 i + 4 j + k; perm (2, 0, 1) moves it to (k, i, j).
template <typename T, typename Permute>
void check_result(Permute permute) {
  std::vector<uint64_t> src_dims{2, 3, 4};
  std::vector<uint64_t> perm{2, 0, 1};
  std::vector<uint64_t> dst_dims(3, 0);
  std::vector<uint16_t> src(24);
  for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<uint16_t>(100 * i);
  std::vector<T> dst(24, T{77});
  CHECK(permute(src.data(), dst.data(), src_dims.data(), perm.data(), dst_dims.data()) == HPTP_OK);
  CHECK((dst_dims == std::vector<uint64_t>{4, 2, 3}));
  for (size_t k = 0; k < 4; ++k) {
    for (size_t i = 0; i < 2; ++i) {
      for (size_t j = 0; j < 3; ++j) {
        CHECK(dst[k * 6 + i * 3 + j] == static_cast<T>(100 * (12 * i + 4 * j + k)));
      }
    }
  }
}

void check_errors() {
  std::vector<uint64_t> dims{2, 3};
  std::vector<uint64_t> twice{1, 1};
  std::vector<uint64_t> far{0, ~uint64_t{0}};
  std::vector<uint64_t> huge{uint64_t{1} << 63, 1};
  std::vector<uint64_t> swap{1, 0};
  std::vector<uint64_t> dst_dims{9, 9};
  std::vector<int> src(6, 1);
  std::vector<int> dst(6, 2);
  const auto run = [&](std::vector<uint64_t>& shape, std::vector<uint64_t>& perm) {
    return hptp::permute(src.data(), dst.data(), 4, shape.data(), 2, perm.data(), dst_dims.data());
  };
  CHECK(run(dims, twice) == HPTP_ERR_NOT_A_PERMUTATION);
  CHECK(run(dims, far) == HPTP_ERR_NOT_A_PERMUTATION);
  CHECK(run(huge, swap) == HPTP_ERR_NEGATIVE_SIZE);
  CHECK(hptp::permute(src.data(), dst.data(), 4, dims.data(), 65, swap.data(), dst_dims.data()) ==
        HPTP_ERR_BAD_NDIM);
  CHECK(hptp::permute(src.data(), dst.data(), 4, dims.data(), 2, swap.data(), nullptr) ==
        HPTP_ERR_NULL_POINTER);
  CHECK((dst == std::vector<int>(6, 2)));
  CHECK((dst_dims == std::vector<uint64_t>{9, 9}));
}

}  // namespace

int main() {
  using Dims = uint64_t*;
  check_result<uint16_t>(
      [](const uint16_t* src, uint16_t* dst, Dims src_dims, Dims perm, Dims dst_dims) {
        return hptp::permute(src, dst, sizeof(uint16_t), src_dims, 3, perm, dst_dims, 2);
      });
  check_result<float>([](const uint16_t* src, float* dst, Dims src_dims, Dims perm, Dims dst_dims) {
    return hptp::permute_dtypeConv(src, dst, src_dims, 3, perm, dst_dims);
  });
  check_errors();
  return 0;
}
