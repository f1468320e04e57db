// Whether strided arrays share memory, answered exactly for every layout met in practice.
//
// Two arrays share a byte when Σ stride_k · i_k + byte is the same on both sides for some indices
// in range: a linear equation in bounded integers. Deciding it is NP-hard in general, but the
// strides of arrays are nearly always nested, and then searching from the largest stride down
// leaves one or two candidates a level. The search is bounded; when it runs out, the answer is the
// safe one: yes.
#pragma once

#include <cstdint>

#include "strided.hpp"

namespace hptp {
namespace detail {

// Does Σ coefficient_k · x_k = target have a solution with 0 ≤ x_k ≤ bound_k?
class BoundedEquation {
 public:
  explicit BoundedEquation(int64_t target) : target_(target) {}

  // Adds a term for x in [low, high]; the coefficient may be negative.
  void add(int64_t coefficient, int64_t low, int64_t high) {
    if (low == high || coefficient == 0) {
      target_ -= coefficient * low;
      return;
    }
    target_ -= coefficient > 0 ? coefficient * low : coefficient * high;
    insert({coefficient > 0 ? coefficient : -coefficient, high - low});
  }

  bool may_have_solution() {
    int64_t reach = 0;
    for (int i = num_terms_ - 1; i >= 0; --i) {
      reach_below_[i] = reach;
      reach += terms_[i].coefficient * terms_[i].bound;
    }
    if (target_ > reach) return false;
    return search(0, target_);
  }

 private:
  struct Term {
    int64_t coefficient;
    int64_t bound;
  };
  static constexpr int kMaxSteps = 10000;

  // Keeps the terms sorted by falling coefficient, and equal coefficients merged into one.
  void insert(Term term) {
    int i = num_terms_;
    while (i > 0 && terms_[i - 1].coefficient < term.coefficient) --i;
    if (i > 0 && terms_[i - 1].coefficient == term.coefficient) {
      terms_[i - 1].bound += term.bound;
      return;
    }
    for (int j = num_terms_; j > i; --j) terms_[j] = terms_[j - 1];
    terms_[i] = term;
    ++num_terms_;
  }

  bool search(int level, int64_t target) {
    if (target < 0) return false;
    if (level == num_terms_) return target == 0;
    if (++steps_ > kMaxSteps) return true;
    const Term& term = terms_[level];
    const int64_t missing = target - reach_below_[level];
    const int64_t low = missing <= 0 ? 0 : (missing - 1) / term.coefficient + 1;
    int64_t high = target / term.coefficient;
    if (high > term.bound) high = term.bound;
    for (int64_t x = high; x >= low; --x) {
      if (search(level + 1, target - x * term.coefficient)) return true;
    }
    return false;
  }

  int64_t target_;
  int num_terms_ = 0;
  int steps_ = 0;
  Term terms_[2 * kMaxDims + 2];
  int64_t reach_below_[2 * kMaxDims + 2];
};

}  // namespace detail

// True when some byte belongs to both arrays. a and b are the addresses of their elements 0.
inline bool overlaps(const void* a, const Strided& a_memory, const void* b,
                     const Strided& b_memory) {
  if (is_empty(a_memory) || is_empty(b_memory)) return false;
  const Extent a_bytes = extent(a_memory);
  const Extent b_bytes = extent(b_memory);
  // a and b are addresses of user space, far from the ends of int64_t.
  const int64_t b_offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(b)) -
                           static_cast<int64_t>(reinterpret_cast<uintptr_t>(a));
  if (a_bytes.end <= b_offset + b_bytes.begin || b_offset + b_bytes.end <= a_bytes.begin) {
    return false;
  }
  detail::BoundedEquation equation(b_offset);
  for (int i = 0; i < a_memory.ndim; ++i) {
    equation.add(a_memory.strides_bytes[i], 0, a_memory.shape[i] - 1);
  }
  for (int i = 0; i < b_memory.ndim; ++i) {
    equation.add(-b_memory.strides_bytes[i], 0, b_memory.shape[i] - 1);
  }
  equation.add(1, 0, a_memory.elem_bytes - 1);
  equation.add(-1, 0, b_memory.elem_bytes - 1);
  return equation.may_have_solution();
}

// True when two different elements share a byte. The axes are sorted by falling stride, as those of
// a canonical problem's destination are.
inline bool overlaps_itself(const Strided& memory) {
  if (is_empty(memory)) return false;
  uint64_t inner_bytes = static_cast<uint64_t>(memory.elem_bytes);
  bool nested = true;
  for (int i = memory.ndim - 1; i >= 0 && nested; --i) {
    const uint64_t stride_bytes = detail::magnitude(memory.strides_bytes[i]);
    nested = memory.shape[i] == 1 || stride_bytes >= inner_bytes;
    inner_bytes += static_cast<uint64_t>(memory.shape[i] - 1) * stride_bytes;
  }
  if (nested) return false;
  // Two elements differ first on some axis, where the one of the larger index may be called the
  // second; on the axes after it the difference of the indices is free.
  for (int first = 0; first < memory.ndim; ++first) {
    if (memory.shape[first] == 1) continue;
    detail::BoundedEquation equation(0);
    equation.add(memory.strides_bytes[first], 1, memory.shape[first] - 1);
    for (int i = first + 1; i < memory.ndim; ++i) {
      equation.add(memory.strides_bytes[i], 1 - memory.shape[i], memory.shape[i] - 1);
    }
    equation.add(1, 1 - memory.elem_bytes, memory.elem_bytes - 1);
    if (equation.may_have_solution()) return true;
  }
  return false;
}

}  // namespace hptp
