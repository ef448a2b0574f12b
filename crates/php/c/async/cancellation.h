/* Cancels requests of async mode: the client has left, the time limit is over, or the worker ends
 * and nothing resumes the request. */
#ifndef TOKAMAK_CANCELLATION_H
#define TOKAMAK_CANCELLATION_H

#include "ground/state.h"

/* Tokamak\CancellationError; coroutines.c registers it with the classes beside it. */
extern zend_class_entry *cancellation_error;

/* After module start-up. */
void cancellation_watch(void);
/* The loop begins. */
void cancellation_reset(void);
/* A request begins. */
void cancellation_begin(const shim_request *request);
/* The doorbell was rung: clients may have left. */
void cancellation_mind_clients(void);
/* The worker ends, and each request under way waits for nothing but others of them. */
void cancellation_mind_end(void);
/* Throws the exception of a cancelled request. */
void cancellation_throw(const request_state *request);
/* Whether the request whose turn it is, is cancelled, or will be at its next wait. In every
 * mode. */
bool cancellation_is_due(void);
/* It asks for that: it is cancelled from now on, and gets the exception. */
void cancellation_begin_here(void);
/* The client of the request whose turn it is has left: it reads no response, and sends no body. */
void cancellation_note_left(void);
/* Whether it is a CancellationError, or what a driver has made of one. */
bool cancellation_is_cause(zend_object *exception);
/* As request_report_exception(), with what is special about cancelled requests. */
void cancellation_report(void);

#endif
