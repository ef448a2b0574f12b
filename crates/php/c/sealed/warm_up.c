/* Requests that are served before the image is taken. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sealed/warm_up.h"
#include "cycle/request_cycle.h"
#include "cycle/script.h"
#include "ground/state.h"
#include "sealed/patterns.h"
#include "sealed/shutdown.h"

/* Warns of a warm-up request that has opened a session without a cookie. One with a cookie is
 * noticed by the header field of its response. */
void warm_up_look_at_session(void)
{
    const shim_text *uri;
    char line[600];
    int len;

    if (!shim.sealed || shim.rolls_back || !serving->request || !PS(id) || PS(use_cookies)) {
        return;
    }
    uri = &serving->request->field[SHIM_URI];
    len = snprintf(line, sizeof(line),
                   "warm-up request %.*s has opened a session: what its page keeps in memory is in "
                   "the image, the same for "
                   "every visitor; take a page for `warm` that opens none",
                   (int)(uri->len < 300 ? uri->len : 300), uri->at);
    rust_log(SHIM_WARN, line, (size_t)len);
}

static void log_killed(const shim_request *request, int number)
{
    const shim_text *uri = &request->field[SHIM_URI];
    char line[512];
    int len = snprintf(line, sizeof(line), "warm-up request %.*s died: signal %d",
                       (int)(uri->len < 300 ? uri->len : 300), uri->at, number);

    rust_log(SHIM_WARN, line, (size_t)len);
}

/* Runs the script of each warm-up request in a fork of this process. The fork's memory is gone
 * afterwards; what it left in opcache and in cache files of the application stays. So do its
 * regular expressions, which it sends back, because each request would compile them again. */
void warm_up_scripts(void)
{
    const shim_request *request;

    while ((request = rust_warm())) {
        int pipe_ends[2], status = 0;
        pid_t child;
        if (pipe2(pipe_ends, O_CLOEXEC) != 0) {
            return;
        }
        child = fork();
        if (child == 0) {
            shim.is_copy = 1; /* what it prints goes nowhere */
            shutdown_draw_line();
            zend_first_try {
                request_begin(request);
                script_run(request);
            } zend_end_try();
            patterns_send(pipe_ends[1]);
            shutdown_request();
            _exit(0);
        }
        close(pipe_ends[1]);
        zend_first_try {
            patterns_learn(pipe_ends[0]);
        } zend_end_try();
        close(pipe_ends[0]);
        while (child > 0 && waitpid(child, &status, 0) == -1 && errno == EINTR) {
        }
        if (WIFSIGNALED(status)) {
            log_killed(request, WTERMSIG(status));
        }
    }
}
