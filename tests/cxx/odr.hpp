// What odr.cpp and odr_other.cpp share.
#ifndef KILN_TESTS_CXX_ODR_HPP
#define KILN_TESTS_CXX_ODR_HPP

#include "check.hpp"

tensor elsewhere(const tensor &x);
const kiln::index *whole_of_elsewhere();
inline tensor doubled(const tensor &x)
{
    return x * 2;
}

#endif
