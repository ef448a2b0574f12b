/* One epoll for all that the requests of a worker wait for, and a heap of points in time.
 *
 * It knows nothing of PHP and runs no code of a request: it says whose wait is over, in the order
 * in which waits came to their end. Each descriptor is in the epoll at most once, for one event
 * (EPOLLONESHOT); how many wait for it is known here. An event has the descriptor's number, so one
 * that is closed is taken out: its file may be open elsewhere, and is not to speak for the next one
 * of that number. If it does (libc closes some by itself), a wait is over too soon, and who waited
 * tries in vain, and waits again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "async/reactor.h"
#include "ground/libc.h"

enum { EVENTS_AT_ONCE = 64 };

#define SECOND UINT64_C(1000000000)
/* As any worker: the doorbell does not need it. It bounds the harm if it were not rung. */
#define LONGEST_SLEEP (2 * SECOND)

typedef struct {
    reactor_watch *first; /* of those that wait for it */
    bool is_armed; /* epoll may have an event for its number, also when nothing waits any more */
} watched_descriptor;

static struct {
    int epoll, doorbell;
    watched_descriptor *watched; /* by number */
    size_t watched_room;
    reactor_wait **timers; /* a heap: the earliest is the first */
    size_t timer_count, timer_room;
    reactor_wait *at_doorbell;
    bool was_rung;
    reactor_wait *over, **last_over;
    size_t over_count;
} reactor;

uint64_t reactor_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* ---- lists and memory ---- */

/* As much as was needed at once, and small. Without it nothing can go on. */
static void make_room(void **array, size_t *room, size_t wanted, size_t size)
{
    size_t more = *room ? *room : 64;
    char *grown;

    if (wanted <= *room) {
        return;
    }
    while (more < wanted) {
        more *= 2;
    }
    grown = realloc(*array, more * size);
    if (!grown) {
        abort();
    }
    memset(grown + *room * size, 0, (more - *room) * size);
    *array = grown;
    *room = more;
}

static void add_to(reactor_wait **list, reactor_wait *wait)
{
    wait->next = *list;
    wait->before = list;
    if (wait->next) {
        wait->next->before = &wait->next;
    }
    *list = wait;
}

static void take_out(reactor_wait *wait)
{
    if (!wait->before) {
        return;
    }
    *wait->before = wait->next;
    if (wait->next) {
        wait->next->before = wait->before;
    }
    wait->before = NULL;
}

/* ---- timers ---- */

static void put_timer(size_t place, reactor_wait *wait)
{
    reactor.timers[place - 1] = wait;
    wait->place = place;
}

static void sift_up(size_t place, reactor_wait *wait)
{
    while (place > 1 && reactor.timers[place / 2 - 1]->deadline > wait->deadline) {
        put_timer(place, reactor.timers[place / 2 - 1]);
        place /= 2;
    }
    put_timer(place, wait);
}

static void sift_down(size_t place, reactor_wait *wait)
{
    size_t child;

    while ((child = place * 2) <= reactor.timer_count) {
        if (child < reactor.timer_count &&
            reactor.timers[child]->deadline < reactor.timers[child - 1]->deadline) {
            child++;
        }
        if (reactor.timers[child - 1]->deadline >= wait->deadline) {
            break;
        }
        put_timer(place, reactor.timers[child - 1]);
        place = child;
    }
    put_timer(place, wait);
}

static void add_timer(reactor_wait *wait)
{
    make_room((void **)&reactor.timers, &reactor.timer_room, reactor.timer_count + 1,
              sizeof(*reactor.timers));
    sift_up(++reactor.timer_count, wait);
}

static void remove_timer(reactor_wait *wait)
{
    size_t place = wait->place;
    reactor_wait *moved;

    if (place == 0) {
        return;
    }
    wait->place = 0;
    moved = reactor.timers[--reactor.timer_count];
    if (moved != wait) {
        sift_down(place, moved);
        sift_up(moved->place, moved);
    }
}

/* ---- descriptors ---- */

/* What epoll is to report of it: all that something waits for. False: it cannot report such
 * a descriptor, which is a file's, or closed. */
static bool arm(int fd)
{
    struct epoll_event event = {.events = EPOLLONESHOT, .data.fd = fd};

    for (reactor_watch *w = reactor.watched[fd].first; w; w = w->next) {
        event.events |= (uint32_t)w->wait->fds[w - w->wait->watches].events;
    }
    reactor.watched[fd].is_armed =
        epoll_ctl(reactor.epoll, EPOLL_CTL_MOD, fd, &event) == 0 ||
        (errno == ENOENT && epoll_ctl(reactor.epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    return reactor.watched[fd].is_armed;
}

/* False: the wait is over at once. */
static bool watch(reactor_wait *wait)
{
    bool can_wait = true;

    for (nfds_t i = 0; i < wait->count; i++) {
        reactor_watch *w = &wait->watches[i];
        int fd = wait->fds[i].fd;

        *w = (reactor_watch){.wait = wait, .fd = fd};
        if (fd < 0) {
            continue;
        }
        make_room((void **)&reactor.watched, &reactor.watched_room, (size_t)fd + 1,
                  sizeof(*reactor.watched));
        w->next = reactor.watched[fd].first;
        reactor.watched[fd].first = w;
        can_wait &= arm(fd);
    }
    return can_wait;
}

static void unwatch(reactor_wait *wait)
{
    for (nfds_t i = 0; i < wait->count; i++) {
        reactor_watch *w = &wait->watches[i], **at;

        if (w->fd < 0) {
            continue;
        }
        for (at = &reactor.watched[w->fd].first; *at != w; at = &(*at)->next) {
        }
        *at = w->next;
    }
}

/* ---- the end of a wait ---- */

static void finish(reactor_wait *wait, int ready)
{
    unwatch(wait);
    remove_timer(wait);
    take_out(wait);
    wait->ready = ready;
    wait->is_over = true;
    if (wait->shown) {
        (*wait->shown)->state = SHIM_READY;
    }
    wait->next = NULL;
    *reactor.last_over = wait;
    reactor.last_over = &wait->next;
    reactor.over_count++;
}

void reactor_finish(reactor_wait *wait)
{
    if (!wait->is_over) {
        finish(wait, 0);
    }
}

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLPRI == POLLPRI &&
                   EPOLLRDHUP == POLLRDHUP && EPOLLERR == POLLERR && EPOLLHUP == POLLHUP,
               "an event of epoll is one of poll()");

/* How many descriptors of a wait are ready: at most the one that epoll has reported. Its others are
 * not asked: they are when it is waited for again, since that begins with asking all. */
static int ask(const reactor_watch *w, uint32_t events)
{
    struct pollfd *fds = w->wait->fds, *ready = &fds[w - w->wait->watches];

    for (nfds_t i = 0; i < w->wait->count; i++) {
        fds[i].revents = 0;
    }
    ready->revents = (short)events & (ready->events | POLLERR | POLLHUP);
    return ready->revents != 0;
}

static void look_at(int fd, uint32_t events)
{
    reactor_watch *w, *next;
    bool still_wanted = false;

    if ((size_t)fd >= reactor.watched_room) {
        return;
    }
    reactor.watched[fd].is_armed = false;
    for (w = reactor.watched[fd].first; w; w = next) {
        int ready = ask(w, events);
        next = w->next;
        if (ready == 0) {
            still_wanted = true;
            continue;
        }
        /* The same wait may be in this list twice. */
        while (next && next->wait == w->wait) {
            next = next->next;
        }
        finish(w->wait, ready);
    }
    if (still_wanted) {
        arm(fd);
    }
}

/* Each ring is an event (EPOLLET), and nothing is read: while a pool is replaced by another, their
 * workers are rung by the same eventfd, and one would take the ring that is for the other. */
static void hear_doorbell(void)
{
    reactor.was_rung = true;
    while (reactor.at_doorbell) {
        finish(reactor.at_doorbell, 0);
    }
}

static void look_at_clock(void)
{
    uint64_t now;

    if (reactor.timer_count == 0) {
        return;
    }
    now = reactor_now();
    while (reactor.timer_count > 0 && reactor.timers[0]->deadline <= now) {
        finish(reactor.timers[0], 0);
    }
}

/* ---- all together ---- */

bool reactor_begin(int doorbell)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = doorbell};

    memset(&reactor, 0, sizeof(reactor));
    reactor.last_over = &reactor.over;
    reactor.doorbell = doorbell;
    reactor.epoll = epoll_create1(EPOLL_CLOEXEC);
    return reactor.epoll >= 0 && epoll_ctl(reactor.epoll, EPOLL_CTL_ADD, doorbell, &event) == 0;
}

void reactor_end(void)
{
    close(reactor.epoll);
    free(reactor.watched);
    free(reactor.timers);
    memset(&reactor, 0, sizeof(reactor));
}

void reactor_add(reactor_wait *wait)
{
    bool can_wait;

    wait->ready = 0;
    wait->is_over = false;
    wait->place = 0;
    wait->next = NULL;
    wait->before = NULL;
    can_wait = watch(wait);
    if (wait->deadline != REACTOR_FOREVER) {
        add_timer(wait);
    }
    if (wait->for_doorbell) {
        add_to(&reactor.at_doorbell, wait);
    }
    if (!can_wait) {
        finish(wait, kernel_poll(wait->fds, wait->count, 0));
    }
}

/* With whole milliseconds before Linux 5.11, and where a container's filter of system calls, older
 * than that, refuses what it does not know (EPERM). */
static int wait_for_events(struct epoll_event *events, const struct timespec *patience)
{
    int count = (int)syscall(SYS_epoll_pwait2, reactor.epoll, events, EVENTS_AT_ONCE, patience,
                             NULL, 0);

    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) {
        return count;
    }
    return epoll_wait(reactor.epoll, events, EVENTS_AT_ONCE,
                      (int)(patience->tv_sec * 1000 + (patience->tv_nsec + 999999) / 1000000));
}

/* Until the first point in time, and not longer than LONGEST_SLEEP. */
static uint64_t time_left(void)
{
    const uint64_t now = reactor_now();
    uint64_t until = now + LONGEST_SLEEP;

    if (reactor.timer_count > 0 && reactor.timers[0]->deadline < until) {
        until = reactor.timers[0]->deadline;
    }
    return until > now ? until - now : 0;
}

void reactor_note_closed(int fd)
{
    if (fd < 0 || (size_t)fd >= reactor.watched_room) {
        return;
    }
    /* One whose wait was given up is still armed; one whose event was reported is silent. */
    if (reactor.watched[fd].is_armed) {
        reactor.watched[fd].is_armed = false;
        epoll_ctl(reactor.epoll, EPOLL_CTL_DEL, fd, NULL);
    }
    while (reactor.watched[fd].first) {
        finish(reactor.watched[fd].first->wait, REACTOR_CLOSED);
    }
}

void reactor_break(reactor_wait *wait)
{
    if (!wait->is_over) {
        finish(wait, REACTOR_BROKEN);
    }
}

bool reactor_is_endless(const reactor_wait *wait)
{
    return wait->count == 0 && wait->deadline == REACTOR_FOREVER && !wait->for_doorbell;
}

bool reactor_was_rung(void)
{
    const bool rung = reactor.was_rung;

    reactor.was_rung = false;
    return rung;
}

void reactor_look(bool patiently)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    uint64_t patience = patiently && !reactor.over ? time_left() : 0;
    struct timespec limit = {(time_t)(patience / SECOND), (long)(patience % SECOND)};
    int count = wait_for_events(events, &limit);

    for (int i = 0; i < count; i++) {
        if (events[i].data.fd == reactor.doorbell) {
            hear_doorbell();
        } else {
            look_at(events[i].data.fd, events[i].events);
        }
    }
    look_at_clock();
}

reactor_wait *reactor_take(size_t nth)
{
    reactor_wait **at = &reactor.over, *wait;

    if (!*at) {
        return NULL;
    }
    while (nth-- > 0) {
        at = (*at)->next ? &(*at)->next : &reactor.over;
    }
    wait = *at;
    *at = wait->next;
    if (!*at) {
        reactor.last_over = at;
    }
    reactor.over_count--;
    return wait;
}

size_t reactor_over(void)
{
    return reactor.over_count;
}
