/// @file kiln.hpp
/// Kiln for C++17, header only: tensors as values with operators, exceptions, lambdas, what frees itself.
///
///     kiln::device dev;
///     auto w = kiln::parameter(kiln::zeros({3}), "w");
///     auto loss = ((w - 1) * (w - 1)).sum();
///     loss.backward();
///     std::cout << w.grad() << '\n';                         // [-2. -2. -2.]
///
/// Programs link libkiln as those of C do, and may use its functions beside: get() is the handle of C.
#ifndef KILN_KILN_HPP
#define KILN_KILN_HPP

#include <kiln/tensor.hpp>

#include <kiln/function.hpp>

#include <kiln/arrays.hpp>

#include <kiln/control.hpp>

#include <kiln/host.hpp>

#include <kiln/layers.hpp>

#include <kiln/optim.hpp>

#include <kiln/bundle.hpp>

#include <kiln/data.hpp>

#include <kiln/media.hpp>

#include <kiln/model.hpp>

#include <kiln/training.hpp>

#endif
