// Compiles users' kernels for a device: code generation, then the device's own compiler.
#include "base/process.h"
#include "program/user_kernel.h"

#if KILN_WITH_GLSLANG
#include "codegen/catalogue/kernel.h"
#include "spirv/spirv.h"
#include <pthread.h>

enum { CAPABILITY_FLOAT64 = 10 };

// The kernel as code generation takes it. A user's GLSL is text for floats; other classes are made from the expression.
static kiln_status describe(struct arena *a, const struct user_kernel *u, struct kernel *k)
{
    const struct kernel_info *info = &u->info;
    char *name = arena_strdup(a, info->name);
    if (!name) return error_pending;
    for (char *p = name; *p; p++)
        if (*p == '.') *p = '_';
    *k = (struct kernel){
        .name = name, .kind = KERNEL_POINTWISE, .cls = (enum scalar_class)info->cls, .n_in = info->n_operands - 1};
    for (int i = 0; i < k->n_in; i++) k->in_cls[i] = (enum scalar_class)info->in_cls[i];
    k->out_cls = (enum scalar_class)info->in_cls[k->n_in];
    if (u->glsl && k->cls == CLASS_F32) k->glsl = u->glsl;
    if (u->dag)
        k->dag = *u->dag;
    else {
        const struct scalar_param params[] = {{"x", k->cls}, {"b", k->cls}, {"c", k->cls}};
        TRY(scalar_parse(a, "x", params, k->n_in, k->cls, &k->dag));
    }
    return kernel_analyze(a, k);
}

static kiln_status compile(struct arena *a, kiln_device *dev, kernel_id id, const struct user_kernel *u)
{
    struct kernel k;
    struct str text;
    struct spirv module = {NULL, 0};
    TRY(describe(a, u, &k));
    str_init(&text);
    kiln_status status = glsl_kernel(&text, &k);
    struct spirv_source source = {.name = k.name, .text = str_text(&text), .include = dev->ops->shader_text};
    if (!status) status = str_check(&text);
    if (!status) status = spirv_compile(&source, &module);
    if (!status) status = spirv_strip(&module);
    if (!status) status = spirv_validate(k.name, module.words, module.n_words);
    bool f64 = !status && spirv_declares(module.words, module.n_words, CAPABILITY_FLOAT64);
    if (!status) status = dev->ops->add_kernel(dev, id, module.words, module.n_words, f64);
    spirv_free(&module);
    str_free(&text);
    if (status) return status;
    STAT_ADD(dev, kernels_compiled, 1);
    STAT_ADD(dev, user_compiles, 1);
    return KILN_OK;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_user_kernels, lock)

kiln_status jit_compile_user(kiln_device *dev, kernel_id id)
{
    const struct user_kernel *u = user_kernel(id);
    if (u->info.cls == CLASS_F64 && !dev->caps.f64) return KILN_OK;
    struct arena a;
    arena_init(&a);
    pthread_mutex_lock(&lock);
    kiln_status status = dev->ops->has_kernel(dev, id) ? KILN_OK : compile(&a, dev, id, u);
    pthread_mutex_unlock(&lock);
    arena_finish(&a);
    return status;
}
#else
kiln_status jit_compile_user(kiln_device *dev, kernel_id id)
{
    if (user_kernel(id)->dag) return KILN_OK;
    return error_set(KILN_E_UNSUPPORTED, "%s: this build has no glslang, so that an op by GLSL alone cannot run on %s",
                     user_kernel(id)->info.name, dev->name);
}
#endif
