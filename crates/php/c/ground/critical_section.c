/* Code of async mode that nothing may jump out of.
 *
 * While the state of one request is exchanged for another's, half of it is of each. A jump then
 * (PHP's bailout) would leave it so for all requests that come after. Two things of PHP can jump
 * anywhere: the memory limit, and a handler of an interrupt. So the one is lifted, and the other
 * waits until the end.
 */
#include "ground/critical_section.h"

static struct {
    volatile bool is_on;
    bool was_interrupted;
    void (*interrupt)(zend_execute_data *frame); /* PHP's handler, for later */
    size_t lost;
} critical_section;

static void note_interrupt(zend_execute_data *frame)
{
    (void)frame;
    critical_section.was_interrupted = true;
}

void critical_section_lift_limit(void)
{
    zend_set_memory_limit(SIZE_MAX);
}

void critical_section_begin(void)
{
    critical_section_lift_limit();
    critical_section.interrupt = zend_interrupt_function;
    zend_interrupt_function = note_interrupt;
    critical_section.is_on = true;
    critical_section.was_interrupted = zend_atomic_bool_exchange(&EG(vm_interrupt), false);
}

static size_t memory_limit(void)
{
    const size_t limit = (size_t)PG(memory_limit);

    return limit < SIZE_MAX - critical_section.lost ? limit + critical_section.lost : SIZE_MAX;
}

void critical_section_limit_memory(void)
{
    if (zend_set_memory_limit(memory_limit()) != SUCCESS) {
        zend_set_memory_limit(zend_memory_usage(true)); /* more than that is in use already */
    }
}

void critical_section_end(void)
{
    critical_section.is_on = false;
    zend_interrupt_function = critical_section.interrupt;
    if (critical_section.was_interrupted) {
        zend_atomic_bool_store(&EG(vm_interrupt), true);
    }
    critical_section_limit_memory();
}

bool critical_section_is_on(void)
{
    return critical_section.is_on;
}

void critical_section_note_lost(void)
{
    critical_section.lost = zend_memory_usage(true);
}
