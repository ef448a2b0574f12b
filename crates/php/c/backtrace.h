/* PHP's stack as text, of this process or another. */
#ifndef TOKAMAK_BACKTRACE_H
#define TOKAMAK_BACKTRACE_H

void backtrace_install(int signal_number);

#endif
