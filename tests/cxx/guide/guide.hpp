// The examples of the guide in C++: EXAMPLE(page, heading, number) { … } is the one of that number, from 1, below a
// heading of docs/guide, "" for those before any. What it prints is compared with the page (check_guide.py), but for
// the places of lines; where the page shows nothing, it prints nothing.
#ifndef KILN_TESTS_CXX_GUIDE_HPP
#define KILN_TESTS_CXX_GUIDE_HPP

#include <kiln/kiln.hpp>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

using namespace kiln;
using std::cout;

struct example {
    const char *page, *heading;
    int number;
    void (*run)(device &dev);
};
inline std::vector<example> &examples()
{
    static std::vector<example> all;
    return all;
}
struct registered {
    explicit registered(const example &e) { examples().push_back(e); }
};

/// The text of a file.
inline std::string read_all(const char *path)
{
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// What an example promises beside what it prints.
#define MUST(what) ((what) ? (void)0 : (void)(cout << "not so: " #what "\n"))

#define JOINED_(a, b) a##b
#define JOINED(a, b)  JOINED_(a, b)
#define EXAMPLE(page, heading, number)                                                                          \
    static void JOINED(example_, __LINE__)(device & dev);                                                       \
    static const registered JOINED(registered_, __LINE__)({page, heading, number, JOINED(example_, __LINE__)}); \
    static void JOINED(example_, __LINE__)([[maybe_unused]] device & dev)

#endif
