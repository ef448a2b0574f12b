/* PHP's cache of compiled regular expressions, as a list that one process can hand to another.
 *
 * A process of classic mode compiles each pattern once in its life; one that is rolled back would compile it at each
 * request, unless the image has it. */
#include <unistd.h>

#include "parts.h"

#define PCRE2_CODE_UNIT_WIDTH 8 /* as PHP does */
#include <ext/pcre/php_pcre.h>

enum { LONGEST = 64 * 1024 }; /* a pattern; longer ones are left out. Chosen arbitrarily. */

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

/* Under a locale of its own the cache's keys begin with the locale's name, and the image has another locale. */
void patterns_tell(int fd)
{
    zend_string *pattern;

    if (BG(ctype_string)) {
        return;
    }
    ZEND_HASH_FOREACH_STR_KEY(&PCRE_G(pcre_cache), pattern) {
        uint32_t len = pattern ? (uint32_t)ZSTR_LEN(pattern) : 0;
        if (len == 0 || len > LONGEST) {
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
