/* The modes in which this program serves: what each does in its own way. */
#include "top/modes.h"
#include "async/async.h"
#include "async/cancellation.h"
#include "async/context.h"
#include "async/coroutines.h"
#include "async/long_turns.h"
#include "ground/state.h"
#include "sealed/heap_dump.h"
#include "sealed/outdated.h"
#include "sealed/sealed.h"
#include "sealed/warm_up.h"

static void nothing(void)
{
}

/* Values of a request and coroutines are there in every mode, and so is a boot that may be
 * outdated. */
#define OF_EVERY_MODE                         \
    .booted = outdated_note_booted,           \
    .end_values = context_forget,             \
    .end_coroutines = coroutines_report

const mode mode_plain = {
    OF_EVERY_MODE,
    .next = heap_dump_next,
    .end = nothing,
    .begin = nothing,
    .look_at_session = nothing,
    .write = rust_write,
    .read_body = rust_read_body,
    .client_left = php_handle_aborted_connection,
    .tick = nothing,
};

const mode mode_sealed = {
    OF_EVERY_MODE,
    .restores_memory = true,
    .keeps_code = true,
    .next = sealed_next,
    .end = sealed_end,
    .begin = sealed_begin,
    .look_at_session = warm_up_look_at_session,
    .write = rust_write,
    .read_body = rust_read_body,
    .client_left = php_handle_aborted_connection,
    .tick = nothing,
};

const mode mode_async = {
    OF_EVERY_MODE,
    .is_concurrent = true,
    .serve = async_serve,
    .end = nothing,
    .begin = nothing,
    .look_at_session = nothing,
    .write = async_write,
    .read_body = async_read_body,
    .client_left = cancellation_note_left,
    .tick = long_turns_note_second,
};

shim_exit shim_run_sealed(const char *script, int is_boot, int backtrace_signal, int page_map,
                          int line)
{
    const shim_exit ended =
        sealed_run(&mode_sealed, script, is_boot, backtrace_signal, page_map, line);

    shim.mode = &mode_plain;
    return ended;
}
