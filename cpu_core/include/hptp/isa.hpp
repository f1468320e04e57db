// The instruction sets kernels exist for, and the one in use.
#pragma once

namespace hptp {

inline const char* isa_name() { return "scalar"; }

}  // namespace hptp
