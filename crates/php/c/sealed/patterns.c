/* PHP's cache of compiled regular expressions, as a list that one process can hand to another.
 *
 * A process of classic mode compiles each pattern once in its life; one that is rolled back would
 * compile it at each request, unless the image has it. So the zygote takes over what warm-up
 * requests have compiled, and a worker, after some requests, what several of them have. */
#include <ctype.h>
#include <unistd.h>

#include "sealed/patterns.h"
#include "ground/state.h"
#include "sealed/noted.h"

#define PCRE2_CODE_UNIT_WIDTH 8 /* as PHP does */
#include <ext/pcre/php_pcre.h>

enum {
    LONGEST = 64 * 1024, /* longer patterns are left out */
    /* Bytes of noted patterns: several times what the applications that were measured (Slim,
     * Adminer, DokuWiki) compile. More only takes memory of each worker; a tenth of it would leave
     * out patterns that those compile in each request. */
    ROOM = 128 * 1024
};

static noted_texts *noted;
static uint32_t in_image; /* places of the cache; what requests compile comes behind them */

static int write_all(int fd, const void *at, size_t len)
{
    for (const char *p = at; len > 0;) {
        ssize_t n = write(fd, p, len);
        if (n <= 0) {
            return -1;
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static int read_all(int fd, void *at, size_t len)
{
    for (char *p = at; len > 0;) {
        ssize_t n = read(fd, p, len);
        if (n <= 0) {
            return -1;
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Under a locale of its own the cache's keys begin with the locale's name, and the image has
 * another locale. No pattern begins with a letter. */
static int is_of_a_locale(const zend_string *pattern)
{
    return isalpha((unsigned char)ZSTR_VAL(pattern)[0]);
}

void patterns_send(int fd)
{
    zend_string *pattern;

    ZEND_HASH_FOREACH_STR_KEY(&PCRE_G(pcre_cache), pattern) {
        uint32_t len = pattern ? (uint32_t)ZSTR_LEN(pattern) : 0;
        if (len == 0 || len > LONGEST || is_of_a_locale(pattern)) {
            continue;
        }
        if (write_all(fd, &len, sizeof(len)) != 0 || write_all(fd, ZSTR_VAL(pattern), len) != 0) {
            return;
        }
    } ZEND_HASH_FOREACH_END();
}

void patterns_learn(int fd)
{
    uint32_t len;

    while (read_all(fd, &len, sizeof(len)) == 0 && len > 0 && len <= LONGEST) {
        zend_string *pattern = zend_string_alloc(len, 0);
        int is_whole = read_all(fd, ZSTR_VAL(pattern), len) == 0;
        ZSTR_VAL(pattern)[len] = 0;
        if (is_whole) {
            pcre_get_compiled_regex_cache_ex(pattern, 0);
        }
        zend_string_release(pattern);
        if (!is_whole) {
            return;
        }
    }
}

/* ---- what requests compile, in a process that is rolled back ---- */

size_t patterns_size(void)
{
    return noted_size(ROOM);
}

void patterns_begin(void *memory)
{
    noted = noted_begin(memory, ROOM);
    in_image = PCRE_G(pcre_cache).nNumUsed;
}

void patterns_note(void)
{
    const HashTable *cache = &PCRE_G(pcre_cache);

    for (uint32_t i = in_image; i < cache->nNumUsed; i++) {
        const Bucket *b = &cache->arData[i];
        if (Z_TYPE(b->val) != IS_UNDEF && b->key && !is_of_a_locale(b->key)) {
            noted_add(noted, ZSTR_H(b->key), ZSTR_VAL(b->key), ZSTR_LEN(b->key));
        }
    }
}

/* One that a single request has compiled may be made of what its visitor said. One that fewer than
 * a fiftieth of them have compiled would save less than its pages in the image cost. */
int patterns_compile(uint64_t requests)
{
    int compiled = 0;

    for (size_t i = 0; i < noted->count; i++) {
        const noted_text *p = &noted->all[i];
        if (p->requests > 1 && p->requests >= requests / 50) {
            zend_string *pattern = zend_string_init(noted_at(noted, p), p->len, 0);
            compiled += pcre_get_compiled_regex_cache_ex(pattern, 0) != NULL;
            zend_string_release(pattern);
        }
    }
    noted_forget(noted);
    in_image = PCRE_G(pcre_cache).nNumUsed;
    return compiled;
}
