/* Classes of the server that are written in PHP, and in this program as text (crates/php/php).
 *
 * PHP asks for a class that is not there: ours are compiled then, before an autoloader of the
 * application is called. Who uses none of them pays nothing.
 */
#include "async/php_classes.h"
#include "async/own_loops.h"
#include "ground/state.h"

static zend_class_entry *(*autoload)(zend_string *name, zend_string *lower_name);

static zend_class_entry *find(zend_string *name, zend_string *lower_name)
{
    shim_text text;
    zend_class_entry *found;

    if (!rust_class(ZSTR_VAL(lower_name), ZSTR_LEN(lower_name), &text)) {
        found = autoload ? autoload(name, lower_name) : NULL;
        if (found) {
            own_loops_note_class(lower_name);
        }
        return found;
    }
    zend_eval_stringl(text.at, text.len, NULL, ZSTR_VAL(name));
    own_loops_learn();
    return zend_hash_find_ptr(EG(class_table), lower_name);
}

void php_classes_install(void)
{
    autoload = zend_autoload;
    zend_autoload = find;
}
