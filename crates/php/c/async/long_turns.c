/* Requests of async mode that compute for long, while others wait for their turn.
 *
 * A tick comes with each second of processor time (see time_limit.c). If there was no switch
 * between two of them, whatever runs has computed for a second at least. It is named in the log,
 * once for each of its turns, with its stack: not by the signal handler, which may not look, but
 * where PHP next looks for interrupts. So what computes inside of a C function is named when that
 * returns.
 */
#include <signal.h>

#include <Zend/zend_atomic.h>

#include "async/long_turns.h"
#include "async/fibers.h"
#include "async/stacks.h"

static struct {
    volatile sig_atomic_t turn_at_second; /* at the last tick */
    volatile sig_atomic_t seconds;        /* ticks within this turn */
    volatile sig_atomic_t is_to_be_named;
    void (*interrupt)(zend_execute_data *frame); /* the handler before ours */
} turns;

void long_turns_note_second(void)
{
    if (fibers_switches != turns.turn_at_second) {
        turns.turn_at_second = fibers_switches;
        turns.seconds = 0;
        return;
    }
    if (++turns.seconds == 1) {
        turns.is_to_be_named = true;
        zend_atomic_bool_store(&EG(vm_interrupt), true);
    }
}

static void name(void)
{
    zend_string *stack = stacks_text(EG(current_execute_data));
    zend_string *line =
        strpprintf(0, "computes for more than a second, and holds %zu other requests: %s",
                   fibers_count() - 1, ZSTR_VAL(stack));

    rust_log(SHIM_WARN, ZSTR_VAL(line), ZSTR_LEN(line));
    zend_string_release(line);
    zend_string_release(stack);
}

static void on_interrupt(zend_execute_data *frame)
{
    if (turns.is_to_be_named) {
        turns.is_to_be_named = false;
        if (fibers_switches == turns.turn_at_second && fibers_in_request() && !EG(exception)) {
            name();
        }
    }
    if (turns.interrupt) {
        turns.interrupt(frame);
    }
}

void long_turns_watch(void)
{
    turns.interrupt = zend_interrupt_function;
    zend_interrupt_function = on_interrupt;
}
