/* The environment variables in $_SERVER and $_ENV: PHP makes an array of them once, which is copied
 * for each request.
 *
 * That is when the first request begins (classic mode), when a worker script begins its loop, or
 * before the image is taken. For a request that changes the environment before it uses $_SERVER,
 * PHP makes another one. */
#include <string.h>
#include <unistd.h>

#include "ground/environment.h"
#include "ground/template.h"

static void (*import_of_php)(zval *array);

/* The environment when it was learned: its texts up to a NULL, and the array that PHP makes of
 * them. */
static struct {
    char **texts;
    HashTable *template;
} learned;

static bool is_as_learned(void)
{
    char **text = learned.texts, **now = environ;

    if (!text) {
        return false;
    }
    /* libc's functions that change it note that (interpose.c); C that a script calls may write to
     * `environ` itself. */
    if (!serving->changes.environment && !serving->changes.called_c) {
        return true;
    }
    while (now && *now && *text && strcmp(*now, *text) == 0) {
        now++;
        text++;
    }
    return !*text && !(now && *now);
}

/* Earlier texts and templates are not freed: a script may still have strings of them. There is a
 * second one only where the boot of a worker script changes the environment. */
bool environment_learn(void)
{
    size_t count = 0;
    zval array;

    if (is_as_learned()) {
        return false;
    }
    while (environ && environ[count]) {
        count++;
    }
    learned.texts = pecalloc(count + 1, sizeof(*learned.texts), 1);
    for (size_t i = 0; i < count; i++) {
        learned.texts[i] = pestrdup(environ[i], 1);
    }
    array_init(&array);
    import_of_php(&array);
    learned.template = template_new(zend_hash_num_elements(Z_ARRVAL(array)));
    template_take(learned.template, Z_ARRVAL(array));
    zval_ptr_dtor(&array);
    serving->changes.environment = 0;
    return true;
}

HashTable *environment_template(void)
{
    return is_as_learned() ? learned.template : NULL;
}

void environment_import(zval *array)
{
    HashTable *template = environment_template();

    if (!template || !template_fill(Z_ARRVAL_P(array), template)) {
        import_of_php(array);
    }
}

void environment_install(void)
{
    import_of_php = php_import_environment_variables;
}
