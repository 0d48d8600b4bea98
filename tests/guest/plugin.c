// usage: plugin LIBRARY [unload]: opens the library, works with it, and with `unload` closes it while a thread that has
// used it lives, and goes on.
#include "plugin.h"

static pthread_barrier_t meeting;

static void *live_on(void *dev)
{
    work(dev);
    pthread_barrier_wait(&meeting);
    pthread_barrier_wait(&meeting); // the library was closed meanwhile
    work(dev);
    return NULL; // what the library keeps for the thread goes
}

int main(int argc, char **argv)
{
    pthread_t thread;
    void *library = open_library(argv[1]);
    kiln_device *dev = k.device_open("cpu");
    need(dev != NULL, "device_open");
    work(dev);
    if (argc > 2) {
        pthread_barrier_init(&meeting, NULL, 2);
        need(!pthread_create(&thread, NULL, live_on, dev), "no thread");
        pthread_barrier_wait(&meeting);
        need(!dlclose(library), "dlclose");
        pthread_barrier_wait(&meeting);
        need(!pthread_join(thread, NULL), "join");
        library = open_library(argv[1]);
        work(dev);
    }
    k.device_close(&dev);
    need(!dlclose(library), "dlclose");
    puts("good");
    return 0;
}
