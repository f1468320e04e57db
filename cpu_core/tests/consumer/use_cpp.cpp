#include <cstdio>
#include <hptp.hpp>
#include <vector>

int main() {
  std::vector<float> nchw(8 * 3 * 32 * 32);
  std::vector<float> nhwc(nchw.size());
  for (size_t i = 0; i < nchw.size(); ++i) nchw[i] = static_cast<float>(i);

  hptp::Status status =
      hptp::permute(nchw.data(), nhwc.data(), sizeof(float), {8, 3, 32, 32}, {0, 2, 3, 1});
  if (status != hptp::Status::ok) {
    std::fprintf(stderr, "hptp::permute: %s\n", hptp::to_string(status));
    return 1;
  }
  std::printf("%g %g %g\n", nhwc[0], nhwc[1], nhwc[2]);  // 0 1024 2048
  return nhwc[0] == 0 && nhwc[1] == 1024 && nhwc[2] == 2048 ? 0 : 1;
}
