/* Requests that are served before the image is taken. */
#ifndef TOKAMAK_WARM_UP_H
#define TOKAMAK_WARM_UP_H

/* Without a worker script: serves all of them, each in a process of its own. */
void warm_up_scripts(void);
/* Before the session ends: warns if a request to warm up with has opened one. */
void warm_up_look_at_session(void);

#endif
