/* Results that are to come, and who waits for them.
 *
 * Who waits for several has one wait in the reactor, which no event ends but only the outcome of a
 * promise, or time. A link per promise leads there. All of it is in memory of the one who waits,
 * where it stays until the wait is over.
 */
#include "async/promises.h"
#include "async/fibers.h"
#include "async/parts.h"

typedef struct gathering {
    reactor_wait wait;
    promise **some;
    size_t count;
    promises_goal goal;
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
        if ((p->outcome == PROMISE_REJECTED && l->to->goal != PROMISES_EACH) || l->to->left <= 1) {
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
static size_t missing(promise **some, size_t count, promises_goal goal)
{
    size_t pending = 0;

    for (size_t i = 0; i < count; i++) {
        if (some[i]->outcome == PROMISE_PENDING) {
            pending++;
        } else if (goal == PROMISES_FIRST ||
                   (goal == PROMISES_ALL && some[i]->outcome == PROMISE_REJECTED)) {
            return 0;
        }
    }
    return goal == PROMISES_FIRST ? pending > 0 : pending;
}

/* Whether the coroutine that runs for it cannot go on before this part does. Each is looked at
 * once in a search, also if several await it. */
static bool needs(const promise *p, const part *looked_for, uint64_t search)
{
    part *at = p->made_in;

    if (p->outcome != PROMISE_PENDING || !at || at == looked_for) {
        return at && at == looked_for;
    }
    if (at->looked_at == search || !at->awaits) {
        return false;
    }
    at->looked_at = search;
    for (size_t i = 0; i < at->awaits->count; i++) {
        if (needs(at->awaits->some[i], looked_for, search)) {
            return true;
        }
    }
    return false;
}

promise *promises_circle(promise **some, size_t count)
{
    static uint64_t search;
    const part *here = parts_running();

    search++;
    for (size_t i = 0; i < count; i++) {
        if (needs(some[i], here, search)) {
            return some[i];
        }
    }
    return NULL;
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

static void park(gathering *here)
{
    promise_link one, *links = &one;

    if (here->count > 1) {
        links = safe_emalloc(here->count, sizeof(*links), 0);
    }
    for (size_t i = 0; i < here->count; i++) {
        links[i] = (promise_link){.to = here};
        if (here->some[i]->outcome == PROMISE_PENDING) {
            join(&links[i], here->some[i]);
        }
    }
    fibers_park(&here->wait);
    for (size_t i = 0; i < here->count; i++) {
        leave(&links[i]);
    }
    if (links != &one) {
        efree(links);
    }
}

promises_wait promises_await(promise **some, size_t count, promises_goal goal, uint64_t deadline)
{
    gathering here = {.wait.deadline = deadline,
                      .wait.kind = SHIM_AWAITS_OTHERS,
                      .some = some,
                      .count = count,
                      .goal = goal,
                      .left = missing(some, count, goal)};
    part *running;

    if (here.left == 0) {
        return PROMISES_OVER;
    }
    if (!fibers_may_park()) {
        return PROMISES_STUCK;
    }
    running = parts_running();
    if (goal == PROMISES_ALL && deadline == REACTOR_FOREVER) {
        if (promises_circle(some, count)) {
            return PROMISES_CIRCLE;
        }
        running->awaits = &here;
    }
    park(&here);
    running->awaits = NULL;
    return missing(some, count, goal) == 0 ? PROMISES_OVER : PROMISES_LATE;
}
