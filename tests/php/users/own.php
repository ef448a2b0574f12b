<?php
// Makes what is this site's own, in the usual ways, and says where it is.
$user = posix_getpwuid(posix_geteuid())['name'];
$folder = getenv('STATE') . "/$user";
is_dir($folder) || mkdir($folder, 0700);
file_put_contents("$folder/file", 'secret');
session_start();
$_SESSION['secret'] = $user;
session_write_close();
$memory = shmop_open(crc32($user) & 0x7fffffff, 'c', 0600, 8);
$semaphores = sem_get(crc32($user) & 0x7fffffff, 1, 0600, false);
@unlink("$folder/socket");
$listening = stream_socket_server("unix://$folder/socket");
apcu_store('secret', $user);
if ($upload = $_FILES['file']['tmp_name'] ?? '') {
    // It is there only while this request runs.
    file_put_contents(getenv('STATE') . '/upload', $upload);
    while (!file_exists(getenv('STATE') . '/looked')) {
        usleep(5000);
        clearstatcache();
    }
}
echo json_encode([
    'user' => $user,
    'groups' => posix_getgroups(),
    'pid' => getmypid(),
    'parent' => posix_getppid(),
    'home' => getenv('HOME'),
    'file' => "$folder/file",
    'session' => session_save_path() . '/sess_' . session_id(),
    'socket' => "$folder/socket",
]);
