// What the tests of kiln.hpp share: checks that count, comparisons, the lines of errors.
#ifndef KILN_TESTS_CXX_CHECK_HPP
#define KILN_TESTS_CXX_CHECK_HPP

#include <kiln/kiln.hpp>

#include <cmath>
#include <cstdio>
#include <cstring>

using namespace kiln;

inline int failures;
#define CHECK(what)                                                \
    do {                                                           \
        if (!(what)) {                                             \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #what); \
            failures++;                                            \
        }                                                          \
    } while (0)

/// Thrown by lambdas of the tests.
struct mine {};

inline bool is(const tensor &t, const std::vector<double> &expected, double within = 0)
{
    const std::vector<double> v = t.to_vector<double>();
    bool same = v.size() == expected.size();
    for (size_t i = 0; i < v.size() && same; i++) same = std::abs(v[i] - expected[i]) <= within;
    return same;
}
inline bool same(const tensor &t, const tensor &expected, double within = 0)
{
    return is(t, expected.to_vector<double>(), within);
}

/// The line of the error that a function throws, 0 where it throws none, -1 for another one or another file's.
template <class F> int line_in(const char *path, F f, kiln_status code)
{
    const char *slash = std::strrchr(path, '/');
    try {
        f();
    } catch (const error &e) {
        const bool right = e.code() == code && e.file() == (slash ? slash + 1 : path);
        if (!right) std::printf("%s\n", e.what());
        return right ? e.line() : -1;
    }
    return 0;
}
#define line_of(f, code) line_in(__FILE__, f, code)

template <class E, class F> bool throws(F f)
{
    try {
        f();
    } catch (const E &) {
        return true;
    }
    return false;
}

#endif
