// The front of kiln_library_facts and kiln_device_facts.
#include "base/dwarf.h"
#include "base/environment.h"
#include "codegen/llvm/llvm.h"
#include "debug/facts.h"
#include <dlfcn.h>
#include <kiln/version.h>
#include <stdlib.h>
#include <string.h>

static void tell(const struct facts *f, kiln_fact fact)
{
    fact.group = f->group;
    f->fn(f->user, &fact);
}

void fact_text(const struct facts *f, const char *name, const char *text)
{
    tell(f, (kiln_fact){.name = name, .kind = KILN_FACT_TEXT, .text = text ? text : ""});
}

void fact_number(const struct facts *f, const char *name, double number, const char *unit)
{
    tell(f, (kiln_fact){.name = name, .kind = KILN_FACT_NUMBER, .number = number, .note = unit});
}

void fact_bool(const struct facts *f, const char *name, bool on, const char *off)
{
    tell(f, (kiln_fact){.name = name, .kind = KILN_FACT_BOOL, .number = on, .note = on ? NULL : off});
}

const char *fact_library_path(const void *function)
{
    Dl_info info;
    return function && dladdr(function, &info) ? info.dli_fname : NULL;
}

static void facts_llvm(struct facts *f)
{
    struct llvm_facts module;
    llvm_get_facts(&module);
    fact_bool(f, "llvm module", !module.why[0], module.why);
    if (module.why[0]) return;
    fact_text(f, "llvm module path", module.path);
    fact_text(f, "llvm version", module.version);
}

static void on_variable(void *user, const char *name, const char *value, const char *note)
{
    tell(user, (kiln_fact){.name = name, .kind = KILN_FACT_TEXT, .text = value, .note = note});
}

kiln_status kiln_library_facts(kiln_fact_fn fn, void *user)
{
    if (error_pending) return error_pending;
    if (!fn) return error_set(KILN_E_ARGUMENT, "library_facts: fn is NULL");
    struct facts f = {.fn = fn, .user = user, .group = "library"};
    fact_text(&f, "kiln version", KILN_VERSION_STRING);
    fact_text(&f, "kiln path", fact_library_path((const void *)(uintptr_t)&kiln_library_facts));
    facts_blas(&f);
    facts_llvm(&f);
#if KILN_WITH_VULKAN
    facts_loader(&f);
#else
    fact_bool(&f, "vulkan loader", false,
              "this build has no Vulkan device: -Dvulkan=enabled, Debian's libvulkan-dev, "
              "glslang-dev and spirv-tools");
#endif
    fact_bool(&f, "glslang", KILN_WITH_GLSLANG, "this build compiles no shaders at run time: -Dglslang=enabled");
    fact_bool(&f, "libdw", dwarf_found(), "no libdw.so.1, so that errors name no lines; Debian's package is libdw1");
    f.group = "cache";
    facts_cache(&f);
    f.group = "environment";
    environment_each(on_variable, &f);
    return KILN_OK;
}

kiln_status kiln_device_facts(const char *device, kiln_fact_fn fn, void *user)
{
    if (error_pending) return error_pending;
    if (!fn || !device) return error_set(KILN_E_ARGUMENT, "device_facts: %s is NULL", fn ? "device" : "fn");
    struct facts f = {.fn = fn, .user = user, .group = "device"};
    if (!strcmp(device, "cpu")) return facts_cpu(&f);
#if KILN_WITH_VULKAN
    char *end;
    if (!strncmp(device, "vulkan:", 7) && device[7]) {
        unsigned long index = strtoul(device + 7, &end, 10);
        if (!*end) return facts_vulkan(&f, index > UINT32_MAX ? UINT32_MAX : (uint32_t)index);
    }
#endif
    return error_set(KILN_E_ARGUMENT, "device_facts: \"%s\" is neither cpu nor vulkan:N", device);
}
