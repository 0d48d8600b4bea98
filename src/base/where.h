// Where an op comes from: the line of the user's code, the cell that ran, and whether a gradient asked for it. Such a
// place is one number: an address, as caller_find gives it, or, where there is more to tell, one of a table that only
// grows, as the code and the cells of a program are few. caller_describe takes both.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The innermost cell that runs on this thread; describe NULL: none.
struct where_cell {
    void (*describe)(const void *cell, char *out, size_t size_B); // "sequential.3 (dense 100 → 10)"
    const void *cell;
};
// Returns the one before, to be put back.
struct where_cell where_enter_cell(struct where_cell cell);

// What stands for the place of the library's own calls on this thread: that of a node that runs again, or whose
// gradient is asked for. 0: none, the caller's is meant. Returns the one before.
uintptr_t where_give(uintptr_t place);

uintptr_t where_now(void);
// The same place, seen from the backward.
uintptr_t where_backward_of(uintptr_t place);

uintptr_t where_address(uintptr_t place);
const char *where_cell_of(uintptr_t place); // "" where there is none
bool where_is_backward(uintptr_t place);
// "train.c:42, in the backward of sequential.3 (dense 100 → 10)"; returns its length.
size_t where_describe(uintptr_t place, char *out, size_t size_B);
