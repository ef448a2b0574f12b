#include "sealed/noted.h"

size_t noted_size(size_t room)
{
    return sizeof(noted_texts) + room;
}

noted_texts *noted_begin(void *memory, size_t room)
{
    noted_texts *texts = memory;

    texts->room = room;
    return texts;
}

void noted_forget(noted_texts *texts)
{
    texts->count = texts->used = 0;
}

static noted_text *find(noted_texts *texts, zend_ulong hash, const char *text, size_t len)
{
    for (size_t i = 0; i < texts->count; i++) {
        noted_text *one = &texts->all[i];
        if (one->hash == hash && one->len == len && memcmp(noted_at(texts, one), text, len) == 0) {
            return one;
        }
    }
    return NULL;
}

void noted_add(noted_texts *texts, zend_ulong hash, const char *text, size_t len)
{
    noted_text *one = find(texts, hash, text, len);

    if (one) {
        one->requests++;
    } else if (texts->count < MOST_NOTED && len < texts->room - texts->used) {
        texts->all[texts->count++] = (noted_text){hash, (uint32_t)texts->used, (uint32_t)len, 1};
        memcpy(texts->text + texts->used, text, len);
        texts->text[texts->used + len] = 0;
        texts->used += len + 1;
    }
}
