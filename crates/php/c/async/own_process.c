/* State of each request of async mode that the kernel and libc keep for the process. */
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "async/own_process.h"
#include "cycle/reset.h"
#include "process/directory.h"

static zend_function *put_environment;

void own_process_learn(void)
{
    put_environment = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("putenv"));
}

static void leave_directory(own_process *state)
{
    if (directory_has_moved()) {
        state->directory = (int)syscall(SYS_openat, AT_FDCWD, ".", O_PATH | O_CLOEXEC);
        reset_directory();
    }
}

static void enter_directory(own_process *state)
{
    if (state->directory >= 0) {
        syscall(SYS_fchdir, state->directory);
        directory_note_change();
        syscall(SYS_close, state->directory);
        state->directory = -1;
        reset_announce_directory();
    }
}

static void leave_umask(own_process *state)
{
    if (BG(umask) != -1) {
        state->umask = (int)syscall(SYS_umask, BG(umask));
        BG(umask) = -1;
    }
}

static void enter_umask(own_process *state)
{
    if (state->umask != -1) {
        BG(umask) = (int)syscall(SYS_umask, state->umask);
        state->umask = -1;
    }
}

static void leave_locale(own_process *state)
{
    if (BG(locale_changed)) {
        const char *now = setlocale(LC_ALL, NULL);
        state->locale = now ? strdup(now) : NULL;
        state->ctype = BG(ctype_string) ? zend_string_copy(BG(ctype_string)) : NULL;
        reset_locale();
    }
}

static void enter_locale(own_process *state)
{
    if (state->locale) {
        setlocale(LC_ALL, state->locale);
        zend_update_current_locale();
        if (BG(ctype_string)) {
            zend_string_release(BG(ctype_string));
        }
        BG(ctype_string) = state->ctype;
        BG(locale_changed) = 1;
        free(state->locale);
        state->locale = NULL;
        state->ctype = NULL;
    }
}

static void leave_environment(own_process *state)
{
    zend_string *name;

    if (zend_hash_num_elements(&BG(putenv_ht)) == 0) {
        return;
    }
    ALLOC_HASHTABLE(state->environment);
    zend_hash_init(state->environment, 8, NULL, ZVAL_PTR_DTOR, 0);
    ZEND_HASH_FOREACH_STR_KEY(&BG(putenv_ht), name) {
        const char *value = getenv(ZSTR_VAL(name));
        zval setting;

        /* Without a value putenv() takes the variable away. */
        ZVAL_STR(&setting, value ? strpprintf(0, "%s=%s", ZSTR_VAL(name), value)
                                 : zend_string_copy(name));
        zend_hash_next_index_insert(state->environment, &setting);
    } ZEND_HASH_FOREACH_END();
    zend_hash_clean(&BG(putenv_ht)); /* which puts back what was there before */
}

static void enter_environment(own_process *state)
{
    zval *setting, result;

    if (!state->environment) {
        return;
    }
    ZEND_HASH_FOREACH_VAL(state->environment, setting) {
        ZVAL_UNDEF(&result);
        zend_call_known_function(put_environment, NULL, NULL, &result, 1, setting, NULL);
    } ZEND_HASH_FOREACH_END();
    zend_hash_destroy(state->environment);
    FREE_HASHTABLE(state->environment);
    state->environment = NULL;
}

void own_process_leave(own_process *state)
{
    leave_directory(state);
    leave_umask(state);
    leave_locale(state);
    leave_environment(state);
}

void own_process_enter(own_process *state)
{
    enter_environment(state);
    enter_locale(state);
    enter_umask(state);
    enter_directory(state);
}
