/* Goes from one context of async mode to another. */
#include "async/fibers_switching.h"
#include "async/collecting.h"
#include "ground/state.h"

zend_fiber_transfer fibers_switch_to(zend_fiber_context *to)
{
    zend_fiber_transfer transfer = {.context = to, .value.u1.type_info = IS_NULL};

    zend_fiber_switch_context(&transfer);
    return transfer;
}

int fibers_unblock(void)
{
    int blocks = 0;

    for (; zend_fiber_switch_blocked(); blocks++) {
        zend_fiber_switch_unblock();
    }
    return blocks;
}

void fibers_block(int blocks)
{
    for (; blocks > 0; blocks--) {
        zend_fiber_switch_block();
    }
}

void fibers_forget_jump(void)
{
    fibers_unblock(); /* a jump out of a destructor leaves that */
    /* So does one out of an autoloader, out of the collection of cycles, or out of the compiler.
     * No other request is in one: none waits there. */
    if (EG(in_autoload)) {
        zend_hash_clean(EG(in_autoload));
    }
    collecting_note_jump();
    CG(active_op_array) = NULL;
}
