// What a call reports. The numbers are those of the C API (hptp.h), so a Status crosses that
// boundary by a cast, and the text is written once, here.
#pragma once

#include "../hptp.h"

namespace hptp {

enum class Status : int {
  ok = HPTP_OK,
  not_a_permutation = HPTP_ERR_NOT_A_PERMUTATION,
  negative_size = HPTP_ERR_NEGATIVE_SIZE,
  bad_ndim = HPTP_ERR_BAD_NDIM,
  size_overflow = HPTP_ERR_SIZE_OVERFLOW,
  overlap = HPTP_ERR_OVERLAP,
  null_pointer = HPTP_ERR_NULL_POINTER,
  out_of_memory = HPTP_ERR_OUT_OF_MEMORY,
  not_in_place = HPTP_ERR_NOT_IN_PLACE,
  unsupported = HPTP_ERR_UNSUPPORTED,
};

inline const char* to_string(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::not_a_permutation:
      return "perm is not a permutation of 0 ... ndim - 1";
    case Status::negative_size:
      return "shape has a negative size";
    case Status::bad_ndim:
      return "ndim is not within 0 ... 64";
    case Status::size_overflow:
      return "the array does not fit the address space";
    case Status::overlap:
      return "src and dst overlap, or dst overlaps itself";
    case Status::null_pointer:
      return "a required pointer is null";
    case Status::out_of_memory:
      return "out of memory";
    case Status::not_in_place:
      return "in place, only two axes of equal size can be exchanged";
    case Status::unsupported:
      return "this combination of types and scaling is not supported";
  }
  return "unknown status";
}

}  // namespace hptp
