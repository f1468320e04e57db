// The C library: hptp.h over the headers. Status codes out, no exception across the boundary.
#include "hptp.hpp"

#include <new>
#include <string>

using hptp::Status;

struct hptp_plan {
  hptp::Plan plan;
  std::string description;
};

namespace {

int code(Status status) { return static_cast<int>(status); }

}  // namespace

extern "C" {

int hptp_permute(const void* src, void* dst, size_t elem_size, int ndim, const int64_t* shape,
                 const int64_t* perm, int num_threads) {
  return code(hptp::permute(src, dst, elem_size, ndim, shape, perm, num_threads));
}

int hptp_permute_strided(const void* src, void* dst, size_t elem_size, int ndim,
                         const int64_t* shape, const int64_t* perm,
                         const int64_t* src_strides_bytes, const int64_t* dst_strides_bytes,
                         int num_threads) {
  return code(hptp::permute_strided(src, dst, elem_size, ndim, shape, perm, src_strides_bytes,
                                    dst_strides_bytes, num_threads));
}

int hptp_plan_create(hptp_plan** plan, size_t elem_size, int ndim, const int64_t* shape,
                     const int64_t* perm, const int64_t* src_strides_bytes,
                     const int64_t* dst_strides_bytes, int num_threads) {
  if (plan == nullptr) return HPTP_ERR_NULL_POINTER;
  hptp::Problem problem;
  const Status status = hptp::make_problem(elem_size, ndim, shape, perm, src_strides_bytes,
                                           dst_strides_bytes, &problem);
  if (status != Status::ok) return code(status);
  try {
    hptp::Plan made = hptp::make_plan(problem, num_threads);
    std::string description = hptp::describe(made);
    *plan = new hptp_plan{std::move(made), std::move(description)};
  } catch (const std::bad_alloc&) {
    return HPTP_ERR_OUT_OF_MEMORY;
  }
  return HPTP_OK;
}

int hptp_plan_execute(const hptp_plan* plan, const void* src, void* dst) {
  if (plan == nullptr) return HPTP_ERR_NULL_POINTER;
  const Status valid = hptp::check_memory(plan->plan.problem, src, dst);
  return code(valid == Status::ok ? hptp::execute(plan->plan, src, dst) : valid);
}

const char* hptp_plan_describe(const hptp_plan* plan) {
  return plan == nullptr ? "" : plan->description.c_str();
}

void hptp_plan_destroy(hptp_plan* plan) { delete plan; }

const char* hptp_strerror(int status) { return hptp::to_string(static_cast<Status>(status)); }

const char* hptp_version(void) { return HPTP_VERSION; }

void hptp_set_num_threads(int n) { hptp::set_num_threads(n); }

int hptp_auto_threads(uint64_t num_bytes) { return hptp::auto_threads(num_bytes); }

}  // extern "C"
