<?php
// Narrows open_basedir to a folder and to what is above the one below it, which is the same, and lets others run.
$folder = getenv('STATE') . '/narrow';
@mkdir("$folder/below", 0777, true);
chdir("$folder/below");
ini_set('open_basedir', $folder);
ini_set('open_basedir', "$folder/below:..");
usleep(5000);
@chdir('..');
@chdir('..');
echo basename(getcwd()), ' ', is_array(@scandir('..')) ? 'open' : 'closed';
