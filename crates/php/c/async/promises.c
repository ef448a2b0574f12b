/* Results that are to come, and who waits for them.
 *
 * Who waits for several has one wait in the reactor, which no event ends but only the outcome of a
 * promise, or time. A link per promise leads there. All of it is in memory of the one who waits,
 * where it stays until the wait is over.
 */
#include "async/promises.h"
#include "async/fibers.h"

typedef struct {
    reactor_wait wait;
    size_t left; /* outcomes that are still missing */
} gathering;

typedef struct promise_link {
    gathering *to;
    struct promise_link *next, **before;
} promise_link;

/* ---- outcomes ---- */

static void tell(promise *p)
{
    while (p->waiting) {
        promise_link *l = p->waiting;

        p->waiting = l->next;
        l->before = NULL;
        if (p->outcome == PROMISE_REJECTED || l->to->left <= 1) {
            l->to->left = 0;
            reactor_finish(&l->to->wait);
        } else {
            l->to->left--;
        }
    }
}

void promise_fulfill(promise *p, zval *result)
{
    ZVAL_COPY(&p->result, result);
    p->outcome = PROMISE_FULFILLED;
    tell(p);
}

void promise_reject(promise *p, zend_object *exception)
{
    p->exception = exception;
    p->outcome = PROMISE_REJECTED;
    tell(p);
}

void promise_free(promise *p)
{
    zval_ptr_dtor(&p->result);
    if (p->exception) {
        OBJ_RELEASE(p->exception);
    }
}

/* ---- waiting ---- */

/* How many outcomes are missing for it to be over. */
static size_t missing(promise **some, size_t count, bool for_all)
{
    size_t pending = 0, over = 0;

    for (size_t i = 0; i < count; i++) {
        if (some[i] && some[i]->outcome == PROMISE_REJECTED) {
            return 0;
        }
        pending += some[i] && some[i]->outcome == PROMISE_PENDING;
        over += some[i] && some[i]->outcome == PROMISE_FULFILLED;
    }
    return for_all ? pending : over == 0 && pending > 0;
}

static void join(promise_link *l, promise *p)
{
    l->next = p->waiting;
    l->before = &p->waiting;
    if (l->next) {
        l->next->before = &l->next;
    }
    p->waiting = l;
}

static void leave(promise_link *l)
{
    if (l->before) {
        *l->before = l->next;
        if (l->next) {
            l->next->before = l->before;
        }
    }
}

promises_wait promises_await(promise **some, size_t count, bool for_all, uint64_t deadline)
{
    gathering here = {.wait.deadline = deadline, .left = missing(some, count, for_all)};
    promise_link one, *links = &one;

    if (here.left == 0) {
        return PROMISES_OVER;
    }
    if (!fibers_may_park()) {
        return PROMISES_STUCK;
    }
    if (count > 1) {
        links = safe_emalloc(count, sizeof(*links), 0);
    }
    for (size_t i = 0; i < count; i++) {
        links[i] = (promise_link){.to = &here};
        if (some[i] && some[i]->outcome == PROMISE_PENDING) {
            join(&links[i], some[i]);
        }
    }
    fibers_park(&here.wait);
    for (size_t i = 0; i < count; i++) {
        leave(&links[i]);
    }
    if (links != &one) {
        efree(links);
    }
    return missing(some, count, for_all) == 0 ? PROMISES_OVER : PROMISES_LATE;
}
