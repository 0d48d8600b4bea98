// kiln.hpp in two files of one program: what they share is there once, and its lines are those of the program.
#include "odr.hpp"

int main()
{
    device dev;
    tensor x{1.0, 2.0};
    CHECK(same(elsewhere(x), (x * 2).sum()));
    CHECK(throws<error>([&] { elsewhere(tensor()); }));
    auto f = jit(doubled);
    CHECK(same(f(x), doubled(x)) && whole_of_elsewhere() == &whole);
    return failures != 0;
}
