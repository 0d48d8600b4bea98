// A node that calls the host, in a program.
#pragma once
#include "program/run.h"

struct program_host;
struct program_maker;
kiln_status program_host_make(struct program_maker *m, const struct unit *u, struct program_host **out);
void program_host_destroy(struct program_host *h); // it lies in the program's arena
kiln_status program_host_run(const struct program_call *call, const struct program_host *h);
void program_host_explain(const struct program_host *h, struct str *out);
