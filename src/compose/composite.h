// Composites: public ops that are functions of public ops. Each has a row in ops/composites.def, from which the build
// writes its public function; that calls compose_<name> of a file of this folder, which
// - finds its tensors checked, its options complete, and a scope open that frees what it makes;
// - returns new handles, or NULL with an error, which need not be checked before the last op: with an error pending,
//   ops do nothing, and queries of NULL are safe;
// - uses shapes and dtypes alone, never values, so that it can be captured.
#pragma once
#include "base/base.h"
#include "compose/composites_fns.h"

struct composite {
    const char *name;
    kiln_scope *scope; // NULL: an error was pending
};

bool composite_begin(struct composite *c, const char *name);
bool composite_takes(const struct composite *c, const char *argument, kiln_tensor *t);
bool composite_takes_all(const struct composite *c, const char *argument, kiln_tensor *const *t, size_t n);
bool composite_takes_ints(const struct composite *c, const char *argument, size_t n, const int64_t *v);
bool composite_takes_text(const struct composite *c, const char *argument, const char *text);
// The place for a list of results, which it clears.
bool composite_has_room(const struct composite *c, const char *argument, kiln_tensor **out, size_t n);
// `made`, in place of a tensor that nothing else needs: its memory is there again for what follows, where a scope would
// hold it to the end.
static inline kiln_tensor *composite_instead_of(kiln_tensor *used, kiln_tensor *made)
{
    kiln_free(&used);
    return made;
}

// Hands the results to the caller, or NULL with the error, which begins with the name.
void composite_end(struct composite *c, kiln_tensor **results, size_t n);

// "f32[2,3]" of a tensor, for messages: type_of(t).s.
struct type_words {
    char s[160];
};
struct type_words type_of(const kiln_tensor *t);
// The axis from the front; -1 with an error that names `argument`.
int composite_axis(const char *argument, int64_t axis, size_t rank, const kiln_tensor *t);
