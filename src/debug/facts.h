// What kiln_device_facts is made of, a file for each kind of device.
#pragma once
#include "base/base.h"
#include <kiln/debug.h>

struct facts {
    kiln_fact_fn fn;
    void *user;
    const char *group;
};

void fact_text(const struct facts *f, const char *name, const char *text);
void fact_number(const struct facts *f, const char *name, double number, const char *unit);
// `off` says why it is off; it is not looked at where it is on.
void fact_bool(const struct facts *f, const char *name, bool on, const char *off);

// The file that a function lies in; NULL when that cannot be told.
const char *fact_library_path(const void *function);

void facts_blas(struct facts *f);
void facts_cache(struct facts *f);
kiln_status facts_cpu(struct facts *f);
#if KILN_WITH_VULKAN
void facts_loader(struct facts *f);
kiln_status facts_vulkan(struct facts *f, uint32_t index);
#endif
