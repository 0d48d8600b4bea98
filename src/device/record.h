// Launches that are recorded once and run as often as they are wanted.
//
// What is recorded is a sequence of launches with all their addresses and numbers. Running it again costs the calling
// thread the same whatever its length. Nobody but the caller knows whether the memory at these addresses is still what
// it means, and what it wants; so whoever runs a record has compared them.
#pragma once
#include "base/base.h"
#include <kiln/device.h>

struct device_record;

struct record_ops {
    // A record that takes the launches whose `record` it is, from one thread. *out is NULL, without an error, where the
    // device would rather have launches one by one.
    kiln_status (*begin)(kiln_device *dev, struct device_record **out);
    bool (*full)(const struct device_record *r); // it holds as much work as one submission should
    kiln_status (*end)(kiln_device *dev, struct device_record *r);
    // In stream order; may return before it ran. *ran is false where the record is gone, to make room for others.
    kiln_status (*run)(kiln_device *dev, struct device_record *r, bool *ran);
    void (*drop)(kiln_device *dev, struct device_record *r); // ended or not, perhaps in flight; NULL is ignored
};
