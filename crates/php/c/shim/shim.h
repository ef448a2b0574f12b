/* The whole contract between the C side, which talks to libphp, and the Rust side, which talks to
 * the queue.
 *
 * Why C at all: a PHP fatal error longjmps to the nearest zend_try. A Rust frame crossed by that
 * jump would skip its destructors, so every zend_try and everything between it and PHP stays on
 * this side.
 *
 * shim_* is called by Rust; a PHP error never leaves it, the outcome is a plain value. rust_* is
 * called by C, returns a plain value and never jumps; the C caller decides about bailing out after
 * Rust has returned.
 */
#ifndef TOKAMAK_SHIM_H
#define TOKAMAK_SHIM_H

#include "shim/board.h"
#include "shim/config.h"
#include "shim/log.h"
#include "shim/pool.h"
#include "shim/request.h"
#include "shim/run.h"
#include "shim/sealed.h"
#include "shim/stacks.h"
#include "shim/text.h"

#endif
