/* The header fields of a response, as name and value. */
#include <stdlib.h>
#include <string.h>

#include "ground/fields.h"

/* Characters of a header's name (RFC 9110, "token"). */
static const bool is_of_name[256] = {
    ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['0' ... '9'] = true, ['!'] = true, ['#'] = true,
    ['$'] = true, ['%'] = true, ['&'] = true, ['\''] = true, ['*'] = true, ['+'] = true,
    ['-'] = true, ['.'] = true, ['^'] = true, ['_'] = true, ['`'] = true, ['|'] = true,
    ['~'] = true};

static int is_name(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!is_of_name[(unsigned char)at[i]]) {
            return 0;
        }
    }
    return len > 0;
}

bool fields_is_name(const zend_string *text)
{
    return is_name(ZSTR_VAL(text), ZSTR_LEN(text));
}

shim_pair *fields_pairs(size_t wanted)
{
    if (wanted <= USUAL_PAIRS) {
        return serving->pairs;
    }
    if (wanted > shim.pair_room) {
        shim_pair *more = realloc(shim.pairs, wanted * 2 * sizeof(shim_pair));
        if (!more) {
            return NULL;
        }
        shim.pairs = more;
        shim.pair_room = wanted * 2;
    }
    return shim.pairs;
}

int fields_split(const sapi_header_struct *header, shim_pair *to)
{
    const char *colon = memchr(header->header, ':', header->header_len);
    const char *value, *end = header->header + header->header_len;

    if (!colon || !is_name(header->header, colon - header->header)) {
        return 0;
    }
    for (value = colon + 1; value < end && (*value == ' ' || *value == '\t'); value++) {
    }
    *to = (shim_pair){{header->header, colon - header->header}, {value, end - value}};
    return 1;
}
