/* State that worker mode puts back to what it was when the loop began. */
#ifndef TOKAMAK_RESET_H
#define TOKAMAK_RESET_H

void reset_learn(void);
void reset_restore(void);
void reset_forget(void);
void reset_close_streams(void);

#endif
