/* Answers to system calls that PHP repeats in each request. */
#ifndef TOKAMAK_SYSCALL_CACHE_H
#define TOKAMAK_SYSCALL_CACHE_H

#include <signal.h>
#include <sys/time.h>

#include "ground/state.h"

void syscall_cache_worker_begins(void);
int syscall_cache_begin_worker(void);
void syscall_cache_seal(void);
void syscall_cache_idle(void);
int syscall_cache_uses_opcache(void);
/* How many sockets that PHP has open were closed by their peers. */
int syscall_cache_stale_sockets(void);
void syscall_cache_enter_directory_of(const char *file, size_t len);
int syscall_cache_directory_moved(void);
void syscall_cache_return_to(const char *directory);
void syscall_cache_note_directory(void);
void syscall_cache_note_closed(int fd);
/* opcache's, whose locks are answered for. */
int syscall_cache_is_lock_file(int fd);
/* In place of libc's functions; these take the one of libc that was called. */
typedef int (*mask_changer)(int how, const sigset_t *set, sigset_t *before);
typedef int (*descriptor_call)(int fd, int command, ...);
int syscall_cache_setitimer(int which, const struct itimerval *wanted, struct itimerval *before);
int syscall_cache_sigaction(int number, const struct sigaction *action, struct sigaction *before);
sighandler_t syscall_cache_signal(int number, sighandler_t handler);
int syscall_cache_change_mask(mask_changer real, int how, const sigset_t *set, sigset_t *before);
/* Whether it is a lock of opcache's, and then the result of that. */
bool syscall_cache_answers_fcntl(descriptor_call real, int fd, int command, void *argument,
                                 int *result);
int syscall_cache_socket(int domain, int type, int protocol);

#endif
