// Runs the examples, each behind a line that says which it is.
#include "guide.hpp"

int main()
{
    for (const example &e : examples()) {
        std::cout << "@@ " << e.page << " | " << e.heading << " | " << e.number << std::endl;
        try {
            device dev;
            e.run(dev);
        } catch (const std::exception &error) {
            std::cout << error.what() << '\n';
        }
        std::cout << std::flush;
        std::fflush(stdout);
        kiln_set_log(nullptr, nullptr);
    }
    return 0;
}
