/* Subscribers of a hub, one who publishes, and one who asks for other things meanwhile.
 *
 *     push PORT SUBSCRIBERS SECONDS RATE
 *
 * When all have subscribed it prints an empty line, and begins when it is sent one. It publishes
 * RATE times a second by a request whose query has the time, which subscribers get as data. It
 * prints how many updates it has published and how many they got, the p50 and the p99 of what that
 * took, and the same of the other requests; in microseconds.
 *
 * It is no implementation of HTTP: an answer is over when it says nothing more for now, and an
 * update is one segment, which holds for small ones on the loopback.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS = 256,
    PIECE = 65536,
    BUCKETS = 1000000, /* of ten microseconds */
    PAUSE = 5000,      /* microseconds between two other requests */
    ADDRESSES = 50,    /* of the subscribers: one has too few ports for many of them */
};

static const char SUBSCRIBE[] = "GET /.well-known/mercure?topic=/bench HTTP/1.1\r\n"
                                "Host: localhost\r\n\r\n";
static const char OTHER[] = "GET /other.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";

/* Times by buckets of ten microseconds. */
struct times {
    unsigned long all;
    unsigned long taken[BUCKETS];
};

static struct times updates;
static char piece[PIECE + 1];

static void must(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

/* Microseconds on a clock that only goes forward. */
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static void count(struct times *times, double took)
{
    unsigned long bucket = took > 0 ? (unsigned long)(took / 10) : 0;
    times->taken[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    times->all++;
}

static double quantile(const struct times *times, double part)
{
    unsigned long seen = 0;
    for (int at = 0; at < BUCKETS; at++) {
        seen += times->taken[at];
        if (times->all > 0 && seen >= part * times->all) {
            return at * 10;
        }
    }
    return 0;
}

static int connected(int port, int nth)
{
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    struct sockaddr_in own = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + nth % ADDRESSES)};
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(client >= 0, "socket");
    must(bind(client, (struct sockaddr *)&own, sizeof own) == 0, "bind");
    must(connect(client, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return client;
}

static void say(int to, const char *text, size_t length)
{
    must(send(to, text, length, MSG_NOSIGNAL) == (ssize_t)length, "send");
}

static size_t hear(int from)
{
    ssize_t came = recv(from, piece, PIECE, 0);
    must(came > 0, "a connection has ended");
    piece[came] = 0;
    return (size_t)came;
}

/* Waits until the stream has begun, which is said by a comment. */
static void subscribe(int client)
{
    say(client, SUBSCRIBE, sizeof SUBSCRIBE - 1);
    size_t length = hear(client);
    must(strncmp(piece, "HTTP/1.1 200", 12) == 0, "no subscription");
    while (strstr(piece, ":\n\n") == NULL) {
        must(length < PIECE, "no beginning");
        length = hear(client);
    }
}

/* The times of all updates in what has come. */
static void take_updates(double at)
{
    for (char *data = piece; (data = strstr(data, "data: ")) != NULL;) {
        data += sizeof "data: " - 1;
        count(&updates, at - strtod(data, NULL));
    }
}

/* Asks for something else now and then, in a process of its own: this one is busy reading updates,
 * and would be slow to see the answers. */
static void ask_others(int port, double end, int to)
{
    static struct times times;
    int client = connected(port, 0);
    while (now() < end) {
        double asked = now();
        say(client, OTHER, sizeof OTHER - 1);
        hear(client);
        count(&times, now() - asked);
        usleep(PAUSE);
    }
    double waited[2] = {quantile(&times, 0.5), quantile(&times, 0.99)};
    must(write(to, waited, sizeof waited) == sizeof waited, "write");
}

int main(int given, char **arguments)
{
    int port = given == 5 ? atoi(arguments[1]) : 0;
    if (port <= 0) {
        fprintf(stderr, "usage: %s PORT SUBSCRIBERS SECONDS RATE\n", arguments[0]);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    int crowd = atoi(arguments[2]), poll = epoll_create1(EPOLL_CLOEXEC);
    double seconds = atof(arguments[3]), rate = atof(arguments[4]);
    int publisher = connected(port, 0);
    for (int nth = 0; nth < crowd; nth++) {
        int client = connected(port, nth);
        subscribe(client);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = client};
        must(epoll_ctl(poll, EPOLL_CTL_ADD, client, &event) == 0, "epoll_ctl");
    }
    struct epoll_event event = {.events = EPOLLIN, .data.fd = publisher};
    must(epoll_ctl(poll, EPOLL_CTL_ADD, publisher, &event) == 0, "epoll_ctl");
    puts("");
    fflush(stdout);
    getchar();
    double begun = now(), end = begun + seconds * 1e6;
    int others[2];
    must(pipe(others) == 0, "pipe");
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        ask_others(port, end, others[1]);
        _exit(0);
    }
    double publish = rate > 0 ? begun : end + 1e9;
    unsigned long published = 0;
    /* What was published at the end has a second to come. */
    while (now() < end + 1e6) {
        double at = now();
        if (at >= publish && at < end) {
            char request[128];
            int length = snprintf(request, sizeof request,
                                  "GET /say.php?%.0f HTTP/1.1\r\nHost: localhost\r\n\r\n", at);
            say(publisher, request, (size_t)length);
            publish += 1e6 / rate;
            published++;
        }
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(poll, events, EVENTS, 1);
        for (int nth = 0; nth < ready; nth++) {
            int from = events[nth].data.fd;
            hear(from);
            at = now();
            if (from != publisher) {
                take_updates(at);
            }
        }
    }
    double waited[2];
    must(read(others[0], waited, sizeof waited) == sizeof waited, "the other process has ended");
    printf("%lu %lu %.0f %.0f %.0f %.0f\n", published, updates.all, quantile(&updates, 0.5),
           quantile(&updates, 0.99), waited[0], waited[1]);
}
