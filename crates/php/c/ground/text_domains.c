/* What a request sets in gettext for a text domain, in classic mode: where its translations are,
 * and the codeset that it wants them in.
 *
 * libintl cannot forget the codeset of a domain. Without one it translates to that of the locale;
 * so a domain that an earlier request gave one is bound to the locale's own codeset, at the end of
 * that request and whenever the locale changes. A request that asks for it is answered that there
 * is none.
 */
#include <langinfo.h>
#include <libintl.h>

#include "ground/text_domains.h"
#include "ground/override.h"
#include "ground/taint.h"

/* Its name as a function of PHP reads it; NULL: the function will refuse it. */
static const char *domain_of(zend_execute_data *call)
{
    const zval *name = ZEND_CALL_NUM_ARGS(call) > 1 ? ZEND_CALL_ARG(call, 1) : NULL;

    return name && Z_TYPE_P(name) == IS_STRING && Z_STRLEN_P(name) > 0 ? Z_STRVAL_P(name) : NULL;
}

/* ---- where translations are ---- */

static void note_binding(const char *domain)
{
    const char *directory = bindtextdomain(domain, NULL);
    process_changes *c = &serving->changes;

    for (size_t i = 0; i < c->binding_count; i++) {
        if (strcmp(c->bindings[i].domain, domain) == 0) {
            return;
        }
    }
    if (c->binding_count == MOST_DOMAINS || !directory) {
        taint_note("a request bound too many text domains");
        return;
    }
    c->bindings[c->binding_count++] = (text_binding){strdup(domain), strdup(directory)};
}

static zif_handler real_bindtextdomain;

static ZEND_NAMED_FUNCTION(notice_bindtextdomain)
{
    const char *domain = domain_of(execute_data);

    if (domain) {
        note_binding(domain);
    }
    real_bindtextdomain(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void put_back_bindings(void)
{
    process_changes *c = &serving->changes;

    while (c->binding_count > 0) {
        const text_binding *before = &c->bindings[--c->binding_count];
        bindtextdomain(before->domain, before->directory);
        free(before->domain);
        free(before->directory);
    }
}

/* ---- in which codeset ---- */

/* Domains that some request has given a codeset. */
static char *chosen[MOST_DOMAINS];
static size_t chosen_count;

/* chosen_count: no request chose a codeset for the domain. */
static size_t place_of(const char *domain)
{
    size_t i = 0;

    while (i < chosen_count && strcmp(chosen[i], domain) != 0) {
        i++;
    }
    return i;
}

static void choose(const char *domain)
{
    size_t i = place_of(domain);

    if (i == MOST_DOMAINS) {
        taint_note("requests set the codesets of too many text domains");
        return;
    }
    if (i == chosen_count) {
        chosen[chosen_count++] = strdup(domain);
    }
    serving->changes.has_codeset[i] = true;
}

char *text_domains_follow(char *result)
{
    for (size_t i = 0; i < chosen_count; i++) {
        if (!serving->changes.has_codeset[i]) {
            bind_textdomain_codeset(chosen[i], nl_langinfo(CODESET));
        }
    }
    return result;
}

static zif_handler real_bind_textdomain_codeset;

static ZEND_NAMED_FUNCTION(notice_bind_textdomain_codeset)
{
    const char *domain = domain_of(execute_data);
    bool only_asks = domain && Z_TYPE_P(ZEND_CALL_ARG(execute_data, 2)) == IS_NULL;
    size_t place = domain ? place_of(domain) : 0;

    if (domain && !only_asks) {
        choose(domain);
    }
    real_bind_textdomain_codeset(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (only_asks && place < chosen_count && !serving->changes.has_codeset[place]) {
        zval_ptr_dtor(return_value);
        RETVAL_FALSE;
    }
}

/* ---- both ---- */

void text_domains_learn(void)
{
    override_function(NULL, "bindtextdomain", &real_bindtextdomain, notice_bindtextdomain);
    override_function(NULL, "bind_textdomain_codeset", &real_bind_textdomain_codeset,
                           notice_bind_textdomain_codeset);
}

void text_domains_put_back(void)
{
    put_back_bindings();
    memset(serving->changes.has_codeset, 0, sizeof(serving->changes.has_codeset));
    text_domains_follow(NULL);
}
