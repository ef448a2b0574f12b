/* What the kernel keeps for this process, and what a request changed of it. */
#ifndef TOKAMAK_PROCESS_STATE_H
#define TOKAMAK_PROCESS_STATE_H

#include "ground/state.h"

size_t process_state_size(void);
void process_state_learn(void *kept);
void process_state_begin(void);
/* Closely: the request may have changed what no function of ours sees. */
void process_state_restore(int closely);
void process_state_look(int closely);
void process_state_note_child(void);
/* The process is to be as it was after the request. */
int process_state_is_watching(void);
void process_state_note_directory(void);
void process_state_note_signal(int number);
void process_state_note_mask(void);
void process_state_note_timer(void);
void process_state_note_umask(void);
/* Flags of some open file: standard streams may have become others. */
void process_state_note_flags(void);
/* A file is opened: by some of them the kernel lets a process change itself. */
void process_state_note_opened(const char *path, int flags);
void process_state_note_thread(void);
/* The same, if the process is to be as it was after the request. */
void process_state_note_irreversible(const char *what);
void process_state_look_for_threads(void);
void process_state_watch(void);
void process_state_put_back(void);

#endif
