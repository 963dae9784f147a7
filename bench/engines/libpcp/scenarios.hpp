// The scenarios that libpcp takes part in; each has a file.
#pragma once

#include "kit.hpp"

void run_buffers(const kit::Args &args);
void run_digest(const kit::Args &args, bool is_together);
void run_digest_folder(const kit::Args &args);
