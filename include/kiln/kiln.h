/// @file kiln.h
/// Everything: tensors on any GPU, eager ops, gradients. One include for programs.
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <kiln/bundle.h>
#include <kiln/composites.h>
#include <kiln/control.h>
#include <kiln/data.h>
#include <kiln/debug.h>
#include <kiln/device.h>
#include <kiln/dlpack.h>
#include <kiln/error.h>
#include <kiln/explain.h>
#include <kiln/grad.h>
#include <kiln/graph.h>
#include <kiln/host.h>
#include <kiln/index.h>
#include <kiln/io.h>
#include <kiln/jit.h>
#include <kiln/macros.h>
#include <kiln/media.h>
#include <kiln/model.h>
#include <kiln/nn.h>
#include <kiln/nn_images.h>
#include <kiln/ops.h>
#include <kiln/optim.h>
#include <kiln/print.h>
#include <kiln/profile.h>
#include <kiln/random.h>
#include <kiln/tensor.h>
#include <kiln/text.h>
#include <kiln/timing.h>
#include <kiln/train.h>
#include <kiln/version.h>
#include <kiln/weights.h>

#include <kiln/frames.h>
#include <stdlib.h> // exit, for KILN_CHECK

#endif
