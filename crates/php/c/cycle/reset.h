/* State that worker mode puts back to what it was when the loop began. */
#ifndef TOKAMAK_RESET_H
#define TOKAMAK_RESET_H

#include <Zend/zend.h>

void reset_learn(void);
void reset_restore(void);
void reset_forget(void);
void reset_close_streams(void);
/* Parts of it, for requests that take turns. */
void reset_directory(void);
/* Notifies opcache and the stat cache, which remember the current directory, that it has changed.
 * */
void reset_announce_directory(void);
void reset_locale(void);
/* Settings that were changed since the loop began, with their values; they are put back. NULL:
 * none. */
HashTable *reset_take_settings(void);
/* Changes them so again, and frees them. */
void reset_give_settings(HashTable *settings);

#endif
