/* Texts that requests have used, in the persistent region, and how many requests have used each. */
#ifndef TOKAMAK_NOTED_H
#define TOKAMAK_NOTED_H

#include "ground/state.h"

/* Several times what the applications that were measured use. More only takes memory of each
 * worker; with a tenth of it applications would do in each request what could be learned. */
enum { MOST_NOTED = 768 };

typedef struct {
    zend_ulong hash;
    uint32_t at, len;
    uint32_t requests;
} noted_text;

typedef struct {
    size_t count, used, room;
    noted_text all[MOST_NOTED];
    char text[]; /* one behind the other, each with a zero at its end */
} noted_texts;

/* Room in the persistent region for so many bytes of text. */
size_t noted_size(size_t room);
noted_texts *noted_begin(void *memory, size_t room);
void noted_forget(noted_texts *texts);
/* Once for each request that uses it. Entries without room are left out. */
void noted_add(noted_texts *texts, zend_ulong hash, const char *text, size_t len);

static inline const char *noted_at(const noted_texts *texts, const noted_text *one)
{
    return texts->text + one->at;
}

#endif
