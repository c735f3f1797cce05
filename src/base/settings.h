/* base/settings.h - structs of settings that a caller hands over: they begin with their size (size_t), so that a
 * caller built against an older header is understood.  For that a new field goes to the end of its struct, never
 * into padding. */
#ifndef BASE_SETTINGS_H
#define BASE_SETTINGS_H

#include <stddef.h>

#include "base/error.h"

/* own, of own_size bytes, holds the defaults and its own size; what the given struct says is copied over them: the
 * beginning of a shorter (older) one; all of a longer (newer) one, whose fields beyond ours must be 0.
 * ALIBI_INVALID where given is NULL or its size is none that a struct of this name can have.  `name` is the
 * struct's; its _init function is called name_init. */
status settings_take(const void *given, void *own, size_t own_size, const char *name, alibi_error *error);

/* The size of a given struct that is not NULL, where it is one that a struct of this name can have. */
status settings_size(const void *given, size_t own_size, const char *name, size_t *size, alibi_error *error);

/* For a struct written to its caller, after settings_size: as much of own as it has room for; its size stays. */
void settings_give(const void *own, size_t own_size, void *given);

#endif
