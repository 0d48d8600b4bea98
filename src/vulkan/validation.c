// What the validation layer says goes to the log; counted and kept as well, so that tests fail on the first word of it.
#include "vulkan/vk.h"
#include "base/str.h"

#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_ullong n_messages;
static struct str texts;

VkBool32 VKAPI_PTR vk_validation_report(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                        VkDebugUtilsMessageTypeFlagsEXT types,
                                        const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    (void)severity, (void)types, (void)user;
    pthread_mutex_lock(&lock);
    str_addf(&texts, "%s\n", data->pMessage ? data->pMessage : "(no text)");
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&n_messages, 1);
    log_warn("validation: %s", data->pMessage ? data->pMessage : "(no text)");
    return VK_FALSE;
}

uint64_t vk_validation_messages(kiln_device *dev, const char **text)
{
    (void)dev;
    if (text) *text = str_text(&texts);
    return atomic_load(&n_messages);
}

void vk_validation_reset(void)
{
    pthread_mutex_lock(&lock);
    str_free(&texts);
    atomic_store(&n_messages, 0);
    pthread_mutex_unlock(&lock);
}

bool vk_validation_active(kiln_device *dev)
{
    return dev->ops == &vulkan_device_ops && vk_of(dev)->instance->validation;
}
