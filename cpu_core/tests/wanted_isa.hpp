// Tests that are run once for each instruction set, named by HPTP_ISA, say which ones they skip.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "hptp/isa.hpp"

constexpr int kSkipped = 77;  // the exit code

inline bool runs_wanted_isa() {
  const char* wanted = std::getenv("HPTP_ISA");
  if (wanted == nullptr || hptp::isa_name() == std::string(wanted)) return true;
  std::printf("%s: not run, this CPU or build lacks it\n", wanted);
  return false;
}
