/* ext/filter's view of a request's input, in async mode. */
#ifndef TOKAMAK_FILTER_INPUT_H
#define TOKAMAK_FILTER_INPUT_H

/* From here on filter_input() and its relatives see the input of the request that calls them. */
void filter_input_watch(void);

#endif
