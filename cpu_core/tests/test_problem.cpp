// The canonical form of a permutation, and when memory counts as shared.
#include "check.hpp"
#include "hptp/problem.hpp"

namespace {

hptp::Problem reduce(uint64_t elem_bytes, std::initializer_list<int64_t> shape,
                     std::initializer_list<int64_t> perm) {
  hptp::Problem problem;
  CHECK(hptp::make_problem(elem_bytes, static_cast<int>(shape.size()), shape.begin(), perm.begin(),
                           nullptr, nullptr, &problem) == hptp::Status::ok);
  return problem;
}

void check_axes(const hptp::Problem& problem, std::initializer_list<hptp::Axis> axes) {
  CHECK(problem.ndim == static_cast<int>(axes.size()));
  int i = 0;
  for (const hptp::Axis& axis : axes) CHECK(problem.axes[i++] == axis);
}

void check_canonical_forms() {
  const hptp::Problem fused = reduce(4, {8, 9, 12, 6, 4, 6, 9, 10}, {2, 3, 4, 5, 0, 1, 6, 7});
  CHECK(fused.elem_bytes == 4);
  check_axes(fused, {{1728, 360, 25920}, {72, 622080, 360}, {90, 4, 4}});

  const hptp::Problem folded = reduce(1, {20, 8, 16, 12, 6}, {2, 1, 3, 0, 4});
  CHECK(folded.elem_bytes == 6);
  check_axes(folded, {{16, 72, 11520}, {8, 1152, 1440}, {12, 6, 120}, {20, 9216, 6}});

  check_axes(reduce(4, {3, 1, 5}, {1, 2, 0}), {{5, 4, 12}, {3, 20, 4}});
  check_axes(reduce(4, {3, 5, 7}, {0, 1, 2}), {{105, 4, 4}});
  CHECK(reduce(4, {}, {}).ndim == 0);
  CHECK(hptp::num_bytes(reduce(4, {3, 0}, {1, 0})) == 0);
}

bool rows_overlap(int64_t offset_bytes, int64_t pitch_bytes) {
  static char memory[1 << 16];
  const hptp::Strided block{1, 2, {16, 16}, {pitch_bytes, 1}};
  return hptp::overlaps(memory, block, memory + offset_bytes, block);
}

void check_overlap() {
  CHECK(rows_overlap(0, 64));
  CHECK(rows_overlap(15, 64));
  CHECK(!rows_overlap(16, 64));
  CHECK(!rows_overlap(48, 64));
  CHECK(rows_overlap(49, 64));
  CHECK(!rows_overlap(15 * 64 + 16, 64));
}

}  // namespace

int main() {
  check_canonical_forms();
  check_overlap();
}
