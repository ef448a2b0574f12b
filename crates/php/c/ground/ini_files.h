#ifndef TOKAMAK_INI_FILES_H
#define TOKAMAK_INI_FILES_H

#include <php.h>

/* As the SAPI's `ini_defaults`: PHP is about to look for php.ini. */
void ini_files_choose(HashTable *defaults);

/* PHP has read them: the environment is as it was. */
void ini_files_chosen(void);

#endif
