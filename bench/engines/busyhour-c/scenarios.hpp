// The scenarios, one file each.
#pragma once

#include "kit.hpp"
#include <busyhour.h>

void run_pool_requeue(const kit::Args &args);
void run_pool_external(const kit::Args &args);
void run_pingpong(const kit::Args &args);
void run_buffers(const kit::Args &args);

/// Ends the process if a call has failed.
inline void must(bh_result result) {
    if (result != BH_OK)
        kit::refuse(bh_strerror(result));
}
