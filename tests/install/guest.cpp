// The same in C++, through kiln.hpp.
#include <kiln/kiln.hpp>

#include <cstdio>

int main()
{
    kiln::device dev;
    auto squares = kiln::jit([](const kiln::tensor &x) { return kiln::sum(x * x); });
    kiln::tensor y = squares(kiln::arange(0, 4, 1));
    if (kiln_version() != KILN_VERSION) return 2;
    std::printf("kiln %s: %g\n", kiln_version_string(), y.item<double>());
    return 0;
}
