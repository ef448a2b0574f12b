/* The locale, which libraries change behind PHP's back. */
#include <locale.h>
#include <string.h>

#include "ground/locale.h"
#include "ground/state.h"

static char *locale;

void locale_learn(void)
{
    const char *now = setlocale(LC_ALL, NULL);

    locale = now ? strdup(now) : NULL;
}

void locale_note(const char *wanted)
{
    if (wanted) {
        serving->changes.locale = 1;
    }
}

void locale_put_back(void)
{
    const char *now;

    if (!serving->changes.locale) {
        return;
    }
    now = setlocale(LC_ALL, NULL);
    if (locale && now && strcmp(now, locale) != 0) {
        setlocale(LC_ALL, locale);
        zend_reset_lc_ctype_locale();
        zend_update_current_locale();
    }
    serving->changes.locale = 0;
}
